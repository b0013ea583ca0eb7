package dev.leasehold.internal.machine;

import dev.leasehold.ErrorKind;
import dev.leasehold.Failure;
import dev.leasehold.v1.Holder;

/**
 * Failure of an acquire. The caller's thread makes an exception of it, so that the trace is the caller's.
 *
 * @param name names of the locks
 * @param kind kind of the error
 * @param waited wait that has passed, in nanoseconds
 * @param holder a holder of a lock that is not free; null if none is known
 * @param limit semaphore's limit in force, with {@link ErrorKind#LIMIT_MISMATCH}
 * @param failure the coordinator's answer; null if there is none
 * @param connect why there is no session to ask on; null if there is another cause
 */
public record AcquireFailure(
        String name, ErrorKind kind, long waited, Holder holder, int limit, Failure failure, ConnectFailure connect) {

    static AcquireFailure of(ErrorKind kind) {
        return new AcquireFailure("", kind, 0, null, 0, null, null);
    }

    /** Returns the failure of a request without a session to ask on, or whose connection broke. */
    static AcquireFailure unconnected(ConnectFailure cause) {
        ErrorKind kind = ErrorKind.UNAVAILABLE;
        if (cause != null && cause.failure() != null) {
            ErrorKind answered = cause.failure().kind();
            if (answered == ErrorKind.UNAUTHENTICATED || answered == ErrorKind.PERMISSION_DENIED) {
                kind = answered;
            }
        }
        return new AcquireFailure("", kind, 0, null, 0, cause == null ? null : cause.failure(), cause);
    }

    /** Returns the failure for a coordinator's refusal. */
    public static AcquireFailure refused(Failure failure) {
        ErrorKind kind = failure.kind();
        int limit = 0;
        if (kind == ErrorKind.LIMIT_MISMATCH) {
            try {
                limit = Integer.parseInt(failure.metadata().getOrDefault("limit", ""));
            } catch (NumberFormatException e) {
                kind = ErrorKind.REFUSED;
            }
        }
        return new AcquireFailure("", kind, 0, null, limit, failure, null);
    }

    /** Returns the failure of a request for this lock, or these with commas in between. */
    public AcquireFailure of(String label) {
        return new AcquireFailure(label, kind, waited, holder, limit, failure, connect);
    }
}
