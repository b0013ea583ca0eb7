package dev.leasehold.shedlock;

import dev.leasehold.AcquireException;
import dev.leasehold.DetachedLock;
import dev.leasehold.ErrorKind;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import dev.leasehold.LockSpec;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
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
public final class LeaseholdLockProvider implements ExtensibleLockProvider {
    /** Shortest rest of {@code lockAtLeastFor} for which a lock is renewed. */
    private static final Duration SHORTEST = Duration.ofSeconds(1);

    private final LeaseholdClient client;
    private final String prefix;

    /** Makes a provider of locks whose names are those of ShedLock after {@code shedlock/}. */
    public LeaseholdLockProvider(LeaseholdClient client) {
        this(client, "shedlock/");
    }

    /** Makes a provider of locks whose names are those of ShedLock after this prefix. */
    public LeaseholdLockProvider(LeaseholdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        try {
            DetachedLock lock = client.detachedLock(LockSpec.exclusive(prefix + configuration.getName()))
                    .ttl(configuration.getLockAtMostFor())
                    .acquire();
            // A close of the client waits for the task, because the lock could not be unlocked after it.
            if (!lock.awaitOnClose()) {
                lock.releaseAsync();
                throw new LockException("the client of \"" + configuration.getName() + "\" is being closed");
            }
            return Optional.of(new Held(configuration, lock));
        } catch (AcquireException e) {
            if (e.kind() == ErrorKind.BUSY) {
                return Optional.empty();
            }
            throw new LockException("failed to lock \"" + configuration.getName() + "\"", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockException("interrupted while locking \"" + configuration.getName() + "\"", e);
        }
    }

    /** Lock that this process holds. */
    private static final class Held extends AbstractSimpleLock {
        private final DetachedLock lock;

        private Held(LockConfiguration configuration, DetachedLock lock) {
            super(configuration);
            this.lock = lock;
        }

        @Override
        protected void doUnlock() {
            Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            try {
                if (rest.isNegative() || rest.isZero()) {
                    lock.release();
                } else if (rest.compareTo(SHORTEST) < 0) {
                    releaseAfter(rest);
                } else {
                    lock.renew(rest);
                }
            } catch (LockLostException e) {
                // Its time has passed, and the work is done.
                return;
            } catch (LeaseholdException e) {
                throw new LockException("failed to unlock \"" + lockConfiguration.getName() + "\"", e);
            } finally {
                lock.workEnded();
            }
        }

        /** Waits for a time that is too short for a TTL; if the thread is interrupted, leaves the lock a little longer instead. */
        private void releaseAfter(Duration rest) {
            try {
                Thread.sleep(rest.toMillis() + 1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                lock.renew(SHORTEST);
                return;
            }
            lock.release();
        }

        /** Extends the lock, and tries for as long as it is held: a keep-alive of ShedLock's ends at the first failure. */
        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration configuration) {
            while (true) {
                try {
                    lock.renew(configuration.getLockAtMostFor());
                    return Optional.of(new Held(configuration, lock));
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
