package dev.leasehold.shedlock;

import dev.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockConfiguration;

/**
 * Lock provider of ShedLock whose locks the client's session holds: a lock ends with its process, whatever {@code lockAtMostFor} says, and
 * another instance runs the task at its next time. The session renews it; {@code lockAtMostFor}, 1 s to 365 days, bounds that. What is left of
 * {@code lockAtLeastFor} is kept for as long as the process lives. It does not extend locks, since there is no need to.
 */
public final class LeaseholdSessionLockProvider extends Provider {
    /** Makes a provider of locks whose names are those of ShedLock after {@code shedlock/}. */
    public LeaseholdSessionLockProvider(LeaseholdClient client) {
        this(client, PREFIX);
    }

    /** Makes a provider of locks whose names are those of ShedLock after this prefix. */
    public LeaseholdSessionLockProvider(LeaseholdClient client, String prefix) {
        super(client, prefix);
    }

    @Override
    Optional<Held> acquire(String name, LockConfiguration configuration) throws InterruptedException {
        return client.lock(name).maxHold(configuration.getLockAtMostFor()).tryAcquire().map(
                hold -> new Held(configuration, hold::awaitOnClose, hold::release) {
                    @Override
                    void releaseAfter(Duration rest) {
                        hold.workEnded();
                        CompletableFuture.delayedExecutor(rest.toNanos(), TimeUnit.NANOSECONDS).execute(hold::releaseAsync);
                    }
                });
    }
}
