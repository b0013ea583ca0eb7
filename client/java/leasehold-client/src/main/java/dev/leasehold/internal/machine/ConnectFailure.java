package dev.leasehold.internal.machine;

import dev.leasehold.Failure;

/**
 * Failure to open a session at a coordinator.
 *
 * @param endpoint the coordinator's URL
 * @param kind outcome of the attempt
 * @param failure the coordinator's answer or the failed connection; null if there is neither
 * @param after time that an attempt took which did not come to an answer, in nanoseconds
 */
public record ConnectFailure(String endpoint, Kind kind, Failure failure, long after) {

    /** Outcome of an attempt to open a session. */
    public enum Kind {
        /** The connection could not be made, or broke. */
        UNREACHABLE,
        /** No answer came in time. */
        TIMED_OUT,
        /** The coordinator ended the stream without a word. */
        ENDED,
        /** The coordinator refused. */
        REFUSED
    }

    /** Returns the failure of a stream that broke, or was refused, before the session was open. */
    public static ConnectFailure of(String endpoint, Failure failure) {
        return new ConnectFailure(endpoint, failure.isTransport() ? Kind.UNREACHABLE : Kind.REFUSED, failure, 0);
    }

    /** Returns the failure of an attempt that had no answer in time. */
    public static ConnectFailure timedOut(String endpoint, long after) {
        return new ConnectFailure(endpoint, Kind.TIMED_OUT, null, after);
    }

    /** Returns the failure of a stream that ended before the session was open. */
    public static ConnectFailure ended(String endpoint) {
        return new ConnectFailure(endpoint, Kind.ENDED, null, 0);
    }

    /** Returns whether the same attempt may succeed later. */
    public boolean isRetryable() {
        return failure == null || failure.isRetryable();
    }

    /** Returns whether a coordinator answered. */
    public boolean isAnswer() {
        return kind == Kind.REFUSED;
    }

    /** Returns the failure for people. */
    @Override
    public String toString() {
        String what = "failed to open a session at " + endpoint + ": ";
        return switch (kind) {
            case TIMED_OUT -> what + "no answer within " + java.time.Duration.ofMillis(after / Moments.MILLIS);
            case ENDED -> what + "the stream ended before the session was open";
            default -> what + failure;
        };
    }
}
