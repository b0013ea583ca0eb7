package dev.leasehold;

import dev.leasehold.internal.Checks;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Lock as {@link java.util.concurrent.locks.Lock} describes it: it belongs to the thread that locked it, and is reentrant. Threads of this
 * process wait for one another in this process, in order, and the first of them waits at the coordinator. See {@link LockRequest#asLock}.
 *
 * <p>A loss interrupts nobody. {@link #check} and {@link #hold} tell of it, and so do the next {@code lock}, {@code tryLock} and {@code
 * unlock} of the thread. A close of the client waits until it is unlocked, within its bound.
 */
public final class LeaseholdLock implements Lock {
    private final LockRequest request;
    private final ReentrantLock local = new ReentrantLock(true);
    /** Hold of the thread that has the local lock; null while it waits for it. */
    private Hold hold;

    private volatile long usedAt = System.nanoTime();

    LeaseholdLock(LockRequest request) {
        this.request = request;
    }

    /**
     * Locks, whatever interrupts the thread. It waits as the request does: for as long as it takes, unless that has a bound.
     *
     * @throws AcquireException as {@link LockRequest#acquire()} does
     * @throws LockLostException if the thread had locked it before, and it was lost since
     */
    @Override
    public void lock() {
        lockUninterruptibly(request);
    }

    /** Locks for at most this time: it is lost then, even if the thread still has it; see {@link LockRequest#maxHold}. */
    public void lock(Duration time) {
        lockUninterruptibly(request.maxHold(time));
    }

    private void lockUninterruptibly(LockRequest asked) {
        local.lock();
        // Awaited as a future, since an interrupt would cancel the request.
        Request.Try<Hold> acquire = () -> Waits.uninterruptibly(asked.with(asked.acquiring.inFlow()).acquireAsync());
        try {
            take(acquire);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Locks as {@link #lock()} does, unless the thread is interrupted first. */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        local.lockInterruptibly();
        take(request::acquire);
    }

    /** Acquires for the thread that has the local lock, unless it had it before; gives the local lock up if that fails. */
    private void take(Request.Try<Hold> acquire) throws InterruptedException {
        boolean isLocked = false;
        try {
            if (local.getHoldCount() == 1) {
                hold = awaited(acquire.acquire());
            } else if (hold.state() == HoldState.LOST) {
                // What the thread does next would not be locked.
                hold.check();
            }
            isLocked = true;
        } finally {
            leaveUnless(isLocked);
        }
    }

    private static Hold awaited(Hold granted) {
        if (!granted.awaitOnClose()) {
            granted.releaseAsync();
            throw new AcquireException(ErrorKind.CLOSED, granted.name(), null);
        }
        return granted;
    }

    /**
     * Locks if it is free, after one question to the coordinator. Keeps an interrupt for the caller. Returns false too if the thread had locked
     * it before, and it was lost since: then the thread has it no longer.
     */
    @Override
    public boolean tryLock() {
        boolean wasInterrupted = Thread.interrupted();
        try {
            return tryLock(request, Duration.ZERO);
        } catch (InterruptedException e) {
            wasInterrupted = true;
            return false;
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Locks as {@link #tryLock()} does, and waits for at most this time: 24 h. */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryLock(request, Duration.ofNanos(Math.max(0, unit.toNanos(time))));
    }

    /** Waits for at most this time, and locks for at most that one, as {@link #lock(Duration)} does. */
    public boolean tryLock(Duration wait, Duration time) throws InterruptedException {
        return tryLock(request.maxHold(time), wait);
    }

    private boolean tryLock(LockRequest asked, Duration wait) throws InterruptedException {
        long begun = System.nanoTime();
        Duration bounded = wait.compareTo(Checks.LONGEST_WAIT_TIME) < 0 ? wait : Checks.LONGEST_WAIT_TIME;
        if (!local.tryLock(bounded.toNanos(), TimeUnit.NANOSECONDS)) {
            return false;
        }
        boolean isLocked = false;
        try {
            Duration left = bounded.minusNanos(System.nanoTime() - begun);
            left = left.isNegative() ? Duration.ZERO : left;
            if (local.getHoldCount() > 1) {
                isLocked = isStillHeld(left);
                if (!isLocked) {
                    forget();
                }
            } else {
                hold = awaited(asked.waitAtMost(left).acquire());
                isLocked = true;
            }
            return isLocked;
        } catch (AcquireException e) {
            if (e.kind() == ErrorKind.BUSY || e.kind() == ErrorKind.TIMED_OUT) {
                return false;
            }
            throw e;
        } finally {
            leaveUnless(isLocked);
        }
    }

    /** Returns whether the hold is held; waits while it is suspended. */
    private boolean isStillHeld(Duration wait) throws InterruptedException {
        if (hold.state() == HoldState.SUSPENDED) {
            try {
                hold.changeFrom(HoldState.SUSPENDED).get(wait.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return false;
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
        }
        return hold.isHeld();
    }

    /** Takes from this thread what it had locked before, and gives the hold back if it is suspended. */
    private void forget() {
        hold.releaseAsync();
        hold = null;
        while (local.getHoldCount() > 1) {
            local.unlock();
        }
    }

    /** Ends the local lock of an attempt that failed. */
    private void leaveUnless(boolean isLocked) {
        usedAt = System.nanoTime();
        if (!isLocked) {
            local.unlock();
        }
    }

    /**
     * Unlocks. The thread has the lock no longer in any case.
     *
     * @throws IllegalMonitorStateException if this thread does not have the lock
     * @throws LockLostException if the lock was lost before: somebody else may have had it since
     */
    @Override
    public void unlock() {
        if (!local.isHeldByCurrentThread()) {
            throw new IllegalMonitorStateException("this thread does not have the lock");
        }
        usedAt = System.nanoTime();
        try {
            if (local.getHoldCount() == 1) {
                Hold held = hold;
                hold = null;
                held.close();
            }
        } finally {
            local.unlock();
        }
    }

    /** Throws {@link UnsupportedOperationException}: nobody could signal a condition to another process. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions");
    }

    /**
     * Returns the hold of this thread, with the fencing token.
     *
     * @throws IllegalMonitorStateException if this thread does not have the lock
     */
    public Hold hold() {
        if (!local.isHeldByCurrentThread()) {
            throw new IllegalMonitorStateException("this thread does not have the lock");
        }
        return hold;
    }

    /** Returns if this thread has the lock, and otherwise fails as {@link #hold} or {@link Hold#check} does. */
    public void check() {
        hold().check();
    }

    /** Returns whether no thread has it or waits for it, and none has used it for this long. */
    public boolean isUnusedFor(Duration time) {
        return !local.isLocked() && !local.hasQueuedThreads() && System.nanoTime() - usedAt > time.toNanos();
    }

    @Override
    public String toString() {
        return "LeaseholdLock[" + request.acquiring.label() + (local.isLocked() ? ", locked]" : ", not locked]");
    }
}
