package dev.leasehold.spring.integration;

import dev.leasehold.LeaseholdClient;
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
public final class LeaseholdLockRegistry extends Registry
        implements ExpirableLockRegistry<DistributedLock>, RenewableLockRegistry<DistributedLock> {
    /** Makes a registry of locks whose names are their keys. */
    public LeaseholdLockRegistry(LeaseholdClient client) {
        this(client, "");
    }

    /** Makes a registry of locks whose names are this prefix and their keys. */
    public LeaseholdLockRegistry(LeaseholdClient client, String prefix) {
        super(client, prefix);
    }

    /**
     * Returns the lock of a key.
     *
     * @param key a value whose {@code toString} is the name after the prefix
     */
    @Override
    public DistributedLock obtain(Object key) {
        return (DistributedLock) lock(key);
    }
}
