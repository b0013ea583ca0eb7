package dev.leasehold.spring.integration;

import dev.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;

/** Locks of a registry, whatever interfaces of Spring Integration that has. */
abstract class Registry {
    private final LeaseholdClient client;
    private final String prefix;
    private final ConcurrentHashMap<String, RegistryLock> locks = new ConcurrentHashMap<>();

    Registry(LeaseholdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    RegistryLock lock(Object key) {
        return locks.computeIfAbsent(key.toString(), name -> RegistryLock.of(client.lock(prefix + name).asLock()));
    }

    /** Forgets locks that no thread has or waits for, and that none has used for this many milliseconds. */
    public void expireUnusedOlderThan(long age) {
        locks.values().removeIf(lock -> lock.isUnusedFor(Duration.ofMillis(age)));
    }

    /**
     * Returns if this thread has the lock. Nothing else is to be done: the session renews it.
     *
     * @throws IllegalStateException if this thread does not have the lock, or has lost it
     */
    public void renewLock(Object key) {
        lockOf(key).check();
    }

    /**
     * Returns if this thread has the lock, and nothing but a loss ends it before this time has passed.
     *
     * @throws IllegalStateException if this thread does not have the lock, or has lost it
     * @throws UnsupportedOperationException if it was locked for a time that ends earlier, which can't be changed
     */
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
