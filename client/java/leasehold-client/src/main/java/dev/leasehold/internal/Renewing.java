package dev.leasehold.internal;

import dev.leasehold.internal.machine.Moments;
import java.util.function.BooleanSupplier;

/** Schedule of moves to a stream with newer credentials. */
final class Renewing {
    /** Interval of looks at the files of credentials. */
    private static final long LOOK = Moments.SECONDS;
    /** Time within which all clients that see a file change move their sessions: many have the same file. */
    private static final long SPREAD = 5 * Moments.SECONDS;

    private long lookedAt = Moments.NEVER;
    private long at = Moments.NEVER;

    /** Returns whether it is time to move; asks once in a while whether the credentials are outdated. */
    boolean isDue(long now, BooleanSupplier isOutdated) {
        if (lookedAt != Moments.NEVER && Moments.since(now, lookedAt) < LOOK) {
            return false;
        }
        lookedAt = now;
        if (!isOutdated.getAsBoolean()) {
            at = Moments.NEVER;
            return false;
        }
        if (at == Moments.NEVER) {
            at = Moments.after(now, Pauses.jitter(SPREAD));
        }
        return at <= now;
    }
}
