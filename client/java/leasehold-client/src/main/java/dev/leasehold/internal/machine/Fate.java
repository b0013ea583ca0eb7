package dev.leasehold.internal.machine;

import dev.leasehold.Failure;
import io.grpc.Status;

/** Fate of the holds and places that a stream which has not opened was asked to take over. */
public enum Fate {
    /** Nothing was taken over. */
    DECLINED,
    /** The coordinator may have taken them over, and keeps them until they expire. */
    KEPT,
    /** The coordinator may have taken them over; it has noticed the end of the stream, and may have released them. */
    DROPPED,
    /** An operator ended the session; what was to be taken over is lost, whatever the grace. */
    ENDED;

    /** Returns the fate after a stream that ended with this failure. */
    public static Fate of(ConnectFailure connect) {
        return switch (connect.kind()) {
            // The connection is kept until there is another stream.
            case TIMED_OUT -> KEPT;
            case UNREACHABLE, ENDED -> DROPPED;
            case REFUSED -> of(connect.failure());
        };
    }

    /** Returns the fate after a stream that was ended with this failure. */
    static Fate of(Failure failure) {
        return switch (failure.reason()) {
            case "" -> isDeclinedByProxy(failure.code()) ? DECLINED : DROPPED;
            // The coordinator says these before it asks the store for anything.
            case "INVALID_FIELD",
                    "NOT_OPEN",
                    "UNKNOWN_REQUEST",
                    "TOO_MANY_SESSIONS",
                    "TOO_MANY_LOCKS",
                    "DRAINING",
                    "OPEN_TIMEOUT",
                    "UNAUTHENTICATED",
                    "PERMISSION_DENIED",
                    "RATE_LIMITED",
                    "MESSAGE_TOO_LARGE" -> DECLINED;
            case "SESSION_ENDED" -> ENDED;
            default -> KEPT;
        };
    }

    /** Returns whether a proxy in between answered, which passes nothing on with such a code. */
    private static boolean isDeclinedByProxy(Status.Code code) {
        return switch (code) {
            case INVALID_ARGUMENT,
                    FAILED_PRECONDITION,
                    PERMISSION_DENIED,
                    UNAUTHENTICATED,
                    UNIMPLEMENTED,
                    RESOURCE_EXHAUSTED -> true;
            default -> false;
        };
    }
}
