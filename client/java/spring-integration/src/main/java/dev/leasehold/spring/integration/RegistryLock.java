package dev.leasehold.spring.integration;

import dev.leasehold.HoldException;
import dev.leasehold.LeaseholdLock;
import dev.leasehold.LockLostException;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.DistributedLock;

/** Lock of a registry. With Spring Integration 7, it is a {@code DistributedLock} too. */
class RegistryLock implements Lock {
    private static final boolean HAS_DISTRIBUTED = hasDistributed();

    private final LeaseholdLock lock;

    private RegistryLock(LeaseholdLock lock) {
        this.lock = lock;
    }

    static RegistryLock of(LeaseholdLock lock) {
        return HAS_DISTRIBUTED ? Distributed.make(lock) : new RegistryLock(lock);
    }

    private static boolean hasDistributed() {
        try {
            return DistributedLock.class.isInterface();
        } catch (NoClassDefFoundError e) {
            // Spring Integration 6.
            return false;
        }
    }

    /** Lock of a registry of Spring Integration 7. */
    private static final class Distributed extends RegistryLock implements DistributedLock {
        private Distributed(LeaseholdLock lock) {
            super(lock);
        }

        // Made here, so that nothing else has to load this class.
        private static RegistryLock make(LeaseholdLock lock) {
            return new Distributed(lock);
        }
    }

    @Override
    public void lock() {
        lock.lock();
    }

    /** Locks for at most this time: it is lost then, even if the thread still has it. */
    public void lock(Duration time) {
        lock.lock(time);
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        lock.lockInterruptibly();
    }

    @Override
    public boolean tryLock() {
        return lock.tryLock();
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return lock.tryLock(time, unit);
    }

    /** Locks for at most this time, as {@link #lock(Duration)} does. */
    public boolean tryLock(Duration wait, Duration time) throws InterruptedException {
        return lock.tryLock(wait, time);
    }

    /**
     * Unlocks. The thread has the lock no longer in any case.
     *
     * @throws IllegalMonitorStateException if this thread does not have the lock
     * @throws ConcurrentModificationException if the lock was lost before: somebody else may have had it since
     */
    @Override
    public void unlock() {
        try {
            lock.unlock();
        } catch (LockLostException e) {
            throw new ConcurrentModificationException(e.getMessage(), e);
        }
    }

    @Override
    public Condition newCondition() {
        return lock.newCondition();
    }

    void check() {
        try {
            lock.check();
        } catch (LockLostException | HoldException | IllegalMonitorStateException e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
    }

    void checkFor(Duration time) {
        check();
        if (lock.hold().endsIn().filter(end -> end.compareTo(time) < 0).isPresent()) {
            throw new UnsupportedOperationException("the lock \"" + lock.hold().name() + "\" was locked for a time that ends earlier");
        }
    }

    boolean isUnusedFor(Duration time) {
        return lock.isUnusedFor(time);
    }

    @Override
    public String toString() {
        return lock.toString();
    }
}
