package dev.leasehold.shedlock;

import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;

/**
 * Lock provider of ShedLock whose locks the client's session holds: a lock ends with its process, whatever {@code lockAtMostFor} says, and
 * another instance runs the task at its next time. The session renews it; {@code lockAtMostFor}, 1 s to 365 days, bounds that. What is left of
 * {@code lockAtLeastFor} is kept for as long as the process lives. It does not extend locks, since there is no need to.
 */
public final class LeaseholdSessionLockProvider implements LockProvider {
    private final LeaseholdClient client;
    private final String prefix;

    /** Makes a provider of locks whose names are those of ShedLock after {@code shedlock/}. */
    public LeaseholdSessionLockProvider(LeaseholdClient client) {
        this(client, "shedlock/");
    }

    /** Makes a provider of locks whose names are those of ShedLock after this prefix. */
    public LeaseholdSessionLockProvider(LeaseholdClient client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        String name = configuration.getName();
        try {
            Optional<Hold> granted = client.lock(prefix + name).maxHold(configuration.getLockAtMostFor()).tryAcquire();
            if (granted.isPresent() && !granted.get().awaitOnClose()) {
                granted.get().releaseAsync();
                throw new LockException("the client of \"" + name + "\" is being closed");
            }
            return granted.map(hold -> new Held(configuration, hold));
        } catch (LeaseholdException e) {
            throw new LockException("failed to lock \"" + name + "\"", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockException("interrupted while locking \"" + name + "\"", e);
        }
    }

    /** Lock that the session holds. */
    private static final class Held extends AbstractSimpleLock {
        private final Hold hold;

        private Held(LockConfiguration configuration, Hold hold) {
            super(configuration);
            this.hold = hold;
        }

        @Override
        protected void doUnlock() {
            Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            try {
                if (rest.isNegative() || rest.isZero()) {
                    hold.release();
                } else {
                    hold.workEnded();
                    CompletableFuture.delayedExecutor(rest.toNanos(), TimeUnit.NANOSECONDS).execute(hold::releaseAsync);
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
