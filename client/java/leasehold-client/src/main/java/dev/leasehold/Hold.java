package dev.leasehold;

import dev.leasehold.internal.Failures;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Change;
import dev.leasehold.internal.machine.Output.Granted;
import java.util.concurrent.CompletableFuture;

/**
 * Lock that this process holds, until it releases it or loses it. All methods may be called from any thread.
 *
 * <p>A hold that is not released stays with the session: use it in a try-with-resources statement, or use {@link LockRequest#run}, which
 * also interrupts the work on a loss.
 */
public final class Hold extends Grant {
    Hold(SessionDriver session, Granted granted) {
        super(session, granted);
    }

    /** Returns how many times its actor held the lock when this hold was granted, this one included: 1 except for reentrant grants. */
    public int count() {
        return granted.holdCount();
    }

    /** Returns how many permits of a semaphore were granted; 0 for other locks. */
    public int permits() {
        return granted.lease().permits();
    }

    /**
     * Gives the lock back and hands it to the next waiter. From the call on, the lock counts as not held. Returns within ten seconds, also
     * when the coordinator can't be reached, and is not interrupted. Idempotent: a second call, from whatever thread, waits for the first
     * and ends in the same way.
     *
     * <p>What was not carried out is repeated in the background; otherwise the lock ends with its lease. Of a lock that its actor holds more
     * than once, it ends this hold alone.
     *
     * @throws LockLostException if the lock was lost before
     * @throws HoldException if the release was not confirmed, or could not be carried out
     */
    public void release() {
        giveAndWait();
    }

    /** Gives the lock back as {@link #release} does, without waiting. */
    public CompletableFuture<Void> releaseAsync() {
        return giveAsync();
    }

    /**
     * Gives the lock back as {@link #release} does. Fails only if the lock was lost, since the work that it protected then ran without it;
     * a release that is not confirmed is repeated in the background.
     *
     * @throws LockLostException if the lock was lost before
     */
    @Override
    public void close() {
        Waits.unlessLost(this::release);
    }

    /** Changes the value attached to the hold for others to see: at most 4 KiB. After an interrupt it may be changed all the same. */
    public void setValue(byte[] value) throws InterruptedException {
        changeAndWait(value(value));
    }

    /** Changes the value to a text in UTF-8. */
    public void setValue(String value) throws InterruptedException {
        setValue(utf8(value));
    }

    /** Changes the value as {@link #setValue(byte[])} does, without waiting. */
    public CompletableFuture<Void> setValueAsync(byte[] value) {
        return change(value(value));
    }

    /**
     * Turns an exclusive hold into a shared one, in one step: nobody else holds the lock exclusively in between, and shared waiters at the
     * head of the queue are let in. The token stays. Does nothing to a shared hold. After an error the hold may be shared already.
     */
    public void downgrade() throws InterruptedException {
        changeAndWait(Change.downgrade());
    }

    /** Turns it into a shared hold as {@link #downgrade} does, without waiting. */
    public CompletableFuture<Void> downgradeAsync() {
        return change(Change.downgrade());
    }

    /**
     * Gives permits of a semaphore back, and keeps this many: 1 or more. A hold that has no more than that is left as it is. After an error
     * the others may be given back already.
     */
    public void keep(int permits) throws InterruptedException {
        if (permits < 1) {
            throw new HoldException(name(), ErrorKind.INVALID, Failures.invalidField("reduce.permits", "must be at least 1"));
        }
        changeAndWait(Change.reduce(permits));
    }
}
