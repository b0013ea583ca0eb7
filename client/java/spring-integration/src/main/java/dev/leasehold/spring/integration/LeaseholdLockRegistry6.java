package dev.leasehold.spring.integration;

import dev.leasehold.LeaseholdClient;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/** {@link LeaseholdLockRegistry} of Spring Integration 6.5, whose interfaces have no type parameters. */
public final class LeaseholdLockRegistry6 extends Registry implements ExpirableLockRegistry, RenewableLockRegistry {
    /** Makes a registry of locks whose names are this prefix and their keys. */
    public LeaseholdLockRegistry6(LeaseholdClient client, String prefix) {
        super(client, prefix);
    }

    /** Returns the lock of a key, whose {@code toString} is the name after the prefix. */
    @Override
    public Lock obtain(Object key) {
        return lock(key);
    }
}
