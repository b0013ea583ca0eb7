package dev.leasehold.spring.integration;

import dev.leasehold.AcquireException;
import dev.leasehold.ErrorKind;
import dev.leasehold.Hold;
import dev.leasehold.HoldException;
import dev.leasehold.HoldState;
import dev.leasehold.LockLostException;
import dev.leasehold.LockRequest;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.springframework.integration.support.locks.DistributedLock;

/** Lock of a registry: a local one for the threads of this process, and a hold for as long as one of them has that. */
final class RegistryLock implements DistributedLock {
    private static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE);

    private final LockRequest request;
    private final ReentrantLock local = new ReentrantLock(true);
    /** Hold of the thread that has the local lock; null while it waits for it. */
    private Hold hold;

    private volatile long usedAt = System.nanoTime();

    RegistryLock(LockRequest request) {
        this.request = request;
    }

    @Override
    public void lock() {
        lock(request);
    }

    /** Locks for at most this time: it is lost then, even if the thread still has it. */
    @Override
    public void lock(Duration time) {
        lock(request.maxHold(time));
    }

    private void lock(LockRequest asked) {
        local.lock();
        boolean isLocked = false;
        try {
            if (local.getHoldCount() == 1) {
                hold = uninterruptibly(asked.acquireAsync());
            } else if (hold.state() == HoldState.LOST) {
                // What the thread does next would not be locked.
                hold.check();
            }
            isLocked = true;
        } finally {
            leaveUnless(isLocked);
        }
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        local.lockInterruptibly();
        boolean isLocked = false;
        try {
            if (local.getHoldCount() == 1) {
                hold = request.acquire();
            } else if (hold.state() == HoldState.LOST) {
                // What the thread does next would not be locked.
                hold.check();
            }
            isLocked = true;
        } finally {
            leaveUnless(isLocked);
        }
    }

    /** Locks if it is free. Keeps an interrupt for the caller. */
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

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryLock(request, Duration.of(time, unit.toChronoUnit()));
    }

    /** Locks for at most this time, as {@link #lock(Duration)} does. */
    @Override
    public boolean tryLock(Duration wait, Duration time) throws InterruptedException {
        return tryLock(request.maxHold(time), wait);
    }

    private boolean tryLock(LockRequest asked, Duration wait) throws InterruptedException {
        long begun = System.nanoTime();
        if (!local.tryLock(wait.compareTo(FOREVER) < 0 ? wait.toNanos() : Long.MAX_VALUE, TimeUnit.NANOSECONDS)) {
            return false;
        }
        boolean isLocked = false;
        try {
            Duration left = wait.minusNanos(System.nanoTime() - begun);
            left = left.isNegative() ? Duration.ZERO : left;
            if (local.getHoldCount() > 1) {
                isLocked = isStillHeld(left);
                if (!isLocked) {
                    forget();
                }
            } else {
                hold = asked.waitAtMost(left).acquire();
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
     * Unlocks. The local lock is given up in any case.
     *
     * @throws IllegalMonitorStateException if this thread does not have the lock
     * @throws ConcurrentModificationException if the lock was lost before: somebody else may have had it since
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
        } catch (LockLostException e) {
            throw new ConcurrentModificationException(e.getMessage(), e);
        } finally {
            local.unlock();
        }
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions");
    }

    void check() {
        if (!local.isHeldByCurrentThread()) {
            throw new IllegalStateException("this thread does not have the lock");
        }
        try {
            hold.check();
        } catch (LockLostException | HoldException e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
    }

    void checkFor(Duration time) {
        check();
        if (hold.endsIn().filter(end -> end.compareTo(time) < 0).isPresent()) {
            throw new UnsupportedOperationException("the lock \"" + hold.name() + "\" was locked for a time that ends earlier");
        }
    }

    boolean isUnusedFor(Duration time) {
        return !local.isLocked() && !local.hasQueuedThreads() && System.nanoTime() - usedAt > time.toNanos();
    }

    private static Hold uninterruptibly(CompletableFuture<Hold> asked) {
        boolean wasInterrupted = false;
        try {
            while (true) {
                try {
                    return asked.get();
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                } catch (ExecutionException e) {
                    throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
