package dev.leasehold;

import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.machine.Moments;
import java.time.Duration;
import java.util.Optional;

/**
 * Request of an operator to release a lock, as its holder receives it. The lock is held on: finish what must be finished and release it,
 * or go on.
 */
public final class ReleaseRequest {
    private final String reason;
    private final long until;

    /** Makes the request as it was received; {@code until} is a moment of the client's clock. */
    public ReleaseRequest(String reason, long until) {
        this.reason = reason;
        this.until = until;
    }

    /** Returns why, for people; empty if the operator gave no reason. */
    public String reason() {
        return reason;
    }

    /** Returns the time left of that which the operator gave, if the operator gave any. Nothing happens when it is over. */
    public Optional<Duration> timeLeft() {
        return until == Moments.NEVER
                ? Optional.empty()
                : Optional.of(Duration.ofNanos(Moments.since(until, BootClock.now())));
    }
}
