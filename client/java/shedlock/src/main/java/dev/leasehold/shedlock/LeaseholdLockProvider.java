package dev.leasehold.shedlock;

import dev.leasehold.DetachedLock;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;

/**
 * Lock provider of ShedLock. Each lock is one without a session, with {@code lockAtMostFor} as its TTL: it outlives the process, as {@code
 * lockAtLeastFor} needs it. Unlocking before that time renews the lock for what is left of it.
 *
 * <p>Coordinators bound TTLs, to 1 s to 1 h unless they are configured otherwise ({@code min-ttl}, {@code max-ttl}): a {@code lockAtMostFor}
 * outside of these bounds is refused with a {@link LockException}.
 */
public final class LeaseholdLockProvider extends Provider implements ExtensibleLockProvider {
    /** Shortest rest of {@code lockAtLeastFor} for which a lock is renewed. */
    private static final Duration SHORTEST = Duration.ofSeconds(1);

    /** Makes a provider of locks whose names are those of ShedLock after {@code shedlock/}. */
    public LeaseholdLockProvider(LeaseholdClient client) {
        this(client, PREFIX);
    }

    /** Makes a provider of locks whose names are those of ShedLock after this prefix. */
    public LeaseholdLockProvider(LeaseholdClient client, String prefix) {
        super(client, prefix);
    }

    @Override
    Optional<Held> acquire(String name, LockConfiguration configuration) throws InterruptedException {
        return client.detachedLock(name).ttl(configuration.getLockAtMostFor()).tryAcquire().map(lock -> new Detached(configuration, lock));
    }

    private static final class Detached extends Held {
        private final DetachedLock lock;

        private Detached(LockConfiguration configuration, DetachedLock lock) {
            super(configuration, lock::awaitOnClose, lock::release);
            this.lock = lock;
        }

        /** Waits for a time that is too short for a TTL; if the thread is interrupted, leaves the lock a little longer instead. */
        @Override
        void releaseAfter(Duration rest) {
            try {
                if (rest.compareTo(SHORTEST) >= 0) {
                    lock.renew(rest);
                } else {
                    Thread.sleep(rest.toMillis() + 1);
                    lock.release();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                lock.renew(SHORTEST);
            } finally {
                lock.workEnded();
            }
        }

        /** Extends the lock, and tries for as long as it is held: a keep-alive of ShedLock's ends at the first failure. */
        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration configuration) {
            while (true) {
                try {
                    lock.renew(configuration.getLockAtMostFor());
                    return Optional.of(new Detached(configuration, lock));
                } catch (LockLostException e) {
                    return Optional.empty();
                } catch (LeaseholdException e) {
                    if (!e.isRetryable() || !lock.isHeld()) {
                        throw new LockException("failed to extend \"" + configuration.getName() + "\"", e);
                    }
                }
            }
        }
    }
}
