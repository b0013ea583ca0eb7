package dev.leasehold.shedlock;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;

/** Provider of locks whose names are those of ShedLock after a prefix. */
abstract class Provider implements LockProvider {
    static final String PREFIX = "shedlock/";

    final LeaseholdClient client;
    private final String prefix;

    Provider(LeaseholdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    /** Acquires a lock of this name if it is free. */
    abstract Optional<Held> acquire(String name, LockConfiguration configuration) throws InterruptedException;

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        String name = configuration.getName();
        try {
            Optional<Held> granted = acquire(prefix + name, configuration);
            // A close of the client waits for the task, because the lock could not be unlocked after it.
            if (granted.isPresent() && !granted.get().awaitOnClose.getAsBoolean()) {
                granted.get().release.run();
                throw new LockException("the client of \"" + name + "\" is being closed");
            }
            return granted.map(lock -> lock);
        } catch (LeaseholdException e) {
            throw new LockException("failed to lock \"" + name + "\"", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockException("interrupted while locking \"" + name + "\"", e);
        }
    }

    /** Lock that this process holds. */
    abstract static class Held extends AbstractSimpleLock {
        private final BooleanSupplier awaitOnClose;
        private final Runnable release;

        Held(LockConfiguration configuration, BooleanSupplier awaitOnClose, Runnable release) {
            super(configuration);
            this.awaitOnClose = awaitOnClose;
            this.release = release;
        }

        /** Lets the lock end after this time, which is what is left of {@code lockAtLeastFor}. */
        abstract void releaseAfter(Duration rest);

        @Override
        protected void doUnlock() {
            Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            try {
                if (rest.isNegative() || rest.isZero()) {
                    release.run();
                } else {
                    releaseAfter(rest);
                }
            } catch (LockLostException e) {
                // Its time has passed, and the work is done.
                return;
            } catch (LeaseholdException e) {
                throw new LockException("failed to unlock \"" + lockConfiguration.getName() + "\"", e);
            }
        }
    }
}
