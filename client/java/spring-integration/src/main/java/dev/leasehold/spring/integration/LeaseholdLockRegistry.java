package dev.leasehold.spring.integration;

import dev.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * Lock registry of Spring Integration. A lock is held by the client's session, which renews it for as long as the process lives; it is
 * reentrant, and belongs to the thread that locked it. The threads of a process that want the same lock wait for one another in this
 * process, in order, and the first of them waits at the coordinator.
 *
 * <p>{@code unlock} throws {@link java.util.ConcurrentModificationException} if the lock was lost meanwhile, as other registries do; the
 * cause says why. {@code tryLock} of a thread that has the lock tells a loss too: it returns false, and the thread then has the lock no
 * longer. So {@code LockRegistryLeaderInitiator} notices that it was deposed; {@link LeaseholdLeaderInitiator} is told at once.
 */
public final class LeaseholdLockRegistry implements ExpirableLockRegistry<DistributedLock>, RenewableLockRegistry<DistributedLock> {
    private final LeaseholdClient client;
    private final String prefix;
    private final ConcurrentHashMap<String, RegistryLock> locks = new ConcurrentHashMap<>();

    /** Makes a registry of locks whose names are their keys. */
    public LeaseholdLockRegistry(LeaseholdClient client) {
        this(client, "");
    }

    /** Makes a registry of locks whose names are this prefix and their keys. */
    public LeaseholdLockRegistry(LeaseholdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    /**
     * Returns the lock of a key.
     *
     * @param key a value whose {@code toString} is the name after the prefix
     */
    @Override
    public DistributedLock obtain(Object key) {
        return locks.computeIfAbsent(key.toString(), name -> new RegistryLock(client.lock(prefix + name)));
    }

    /** Forgets locks that no thread has or waits for, and that none has used for this many milliseconds. */
    @Override
    public void expireUnusedOlderThan(long age) {
        locks.values().removeIf(lock -> lock.isUnusedFor(Duration.ofMillis(age)));
    }

    /**
     * Returns if this thread has the lock. Nothing else is to be done: the session renews it.
     *
     * @throws IllegalStateException if this thread does not have the lock, or has lost it
     */
    @Override
    public void renewLock(Object key) {
        lockOf(key).check();
    }

    /**
     * Returns if this thread has the lock, and nothing but a loss ends it before this time has passed.
     *
     * @throws IllegalStateException if this thread does not have the lock, or has lost it
     * @throws UnsupportedOperationException if it was locked for a time that ends earlier, which can't be changed
     */
    @Override
    public void renewLock(Object key, Duration time) {
        lockOf(key).checkFor(time);
    }

    private RegistryLock lockOf(Object key) {
        RegistryLock lock = locks.get(key.toString());
        if (lock == null) {
            throw new IllegalStateException("this thread does not have the lock \"" + key + "\"");
        }
        return lock;
    }
}
