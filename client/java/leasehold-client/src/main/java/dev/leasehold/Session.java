package dev.leasehold;

import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Moments;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * Lease stream, through which a client holds locks for as long as the stream lives. All methods may be called from any thread.
 *
 * <p>When its coordinator is about to go away, or falls silent, the session moves to another one, and takes along what it holds and waits
 * for. When its coordinator asks it to move and goes on serving, it stays where it is until another stream is open. When its coordinator
 * stops before the session has moved, holds stay held until their own deadlines, and the session resumes them on the first
 * coordinator that it reaches. When its stream breaks, every lock of it is lost at once, or suspended if it has a grace, and the session is
 * made anew in the background; acquires that were waiting go on waiting, in their old place where that still stands. Locks are never
 * re-taken by themselves.
 */
public final class Session extends Entry implements AutoCloseable {
    private final SessionDriver driver;
    private final Candidacies candidacies = new Candidacies();

    Session(SessionDriver driver, Calls calls) {
        super(calls);
        this.driver = driver;
    }

    @Override
    SessionDriver driver() {
        return driver;
    }

    @Override
    Candidacies candidacies() {
        return candidacies;
    }

    /** Returns the description of the session; empty while it is not open. */
    public Optional<SessionInfo> info() {
        return Optional.ofNullable(driver.info());
    }

    /**
     * Returns the time left until the coordinator goes away, if it has said that it will. Nothing needs to be done about it: the session moves
     * to another coordinator by itself, with all that it holds and waits for.
     */
    public Optional<Duration> drainsIn() {
        long drains = driver.drains();
        return drains == Moments.NEVER ? Optional.empty() : Optional.of(Duration.ofNanos(Moments.since(drains, BootClock.now())));
    }

    boolean hasEnded() {
        return driver.ended().isDone();
    }

    boolean isClosing() {
        return driver.bodies().isClosing();
    }

    /** Waits until it has been open, or throws why it can't be opened. */
    void awaitOpen() throws InterruptedException {
        Waits.interruptibly(CompletableFuture.anyOf(driver.opened(), driver.ended()));
        if (!driver.opened().isDone()) {
            throw driver.failed() == null
                    ? new LeaseholdException(ErrorKind.CLOSED, "the session was closed", null)
                    : new SessionOpenException(driver.failed());
        }
    }

    /** Begins to close it; what is returned is completed when it has ended. */
    CompletableFuture<Void> beginClose(long timeout) {
        driver.close(timeout);
        return driver.ended();
    }

    /**
     * Closes the session, in this order:
     *
     * <ol>
     *   <li>Acquires and campaigns fail with {@link ErrorKind#CLOSED}, those that wait too.
     *   <li>Work that {@link LockRequest#run}, {@link LockRequest#callAsync}, {@link Election#run} and their like have begun is told to stop:
     *       its thread is interrupted, {@link Grant#onStop} is called, and {@link Grant#stopReason} is {@link StopReason#CLOSED}.
     *   <li>The session waits until that work has ended, for at most {@link LeaseholdClient.Builder#closeTimeout}, and renews its locks
     *       meanwhile. Work that runs on after that is named in a warning.
     *   <li>What is still held is lost (with {@link LostReason#SESSION_CLOSED}), and the coordinator releases it and hands it to the next
     *       waiters. That includes holds that {@link LockRequest#acquire()} returned, for which nothing waits unless {@link
     *       Grant#awaitOnClose} was called.
     * </ol>
     *
     * <p>It returns when the coordinator has confirmed that, or after a few seconds. A close from inside the work does not wait for that work,
     * whose lock is then lost; work of {@code callAsync} must close on the thread that began it, or else the close waits for its whole time. Another
     * close, at the same time or later, waits for the first.
     */
    @Override
    public void close() {
        close(Duration.ofNanos(driver.settings().closeTimeout()));
    }

    /** Closes as {@link #close()} does, and waits for work under locks for no longer than this; zero means not to wait. */
    public void close(Duration timeout) {
        long nanos = Moments.nanos(Checks.given(timeout, "timeout"));
        LeaseholdClient.setting(Checks.time(nanos, "timeout"));
        Waits.uninterruptibly(beginClose(nanos));
    }

    @Override
    public String toString() {
        return "Session[" + info().map(SessionInfo::sessionId).orElse(hasEnded() ? "closed" : "not open") + "]";
    }
}
