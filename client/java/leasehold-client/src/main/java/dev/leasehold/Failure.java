package dev.leasehold;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Request that a coordinator could not serve, with its answer; or a call that reached no coordinator or whose connection broke. A failure
 * on the lease stream and the failure of a single call look the same.
 *
 * @param origin where the failure comes from
 * @param code gRPC status code
 * @param reason machine-readable reason that {@code docs/errors.md} lists, for example {@code INVALID_FIELD}; empty if there is none, as
 *     in the answer of a proxy or after a broken connection
 * @param message what happened, to what, and what to do, for people
 * @param violations invalid fields of the request
 * @param metadata details of the reason: for {@code LIMIT_MISMATCH} the {@code limit} in force
 * @param retryAfter time to wait before asking again, if the coordinator named one; otherwise zero
 * @param endpoint URL of the coordinator that was asked; empty if that is not known, as for an answer on a session
 */
public record Failure(
        Origin origin,
        Status.Code code,
        String reason,
        String message,
        List<FieldViolation> violations,
        Map<String, String> metadata,
        Duration retryAfter,
        String endpoint) {

    /** Origin of a failure. */
    public enum Origin {
        /** A coordinator, or a proxy in front of it, answered. */
        ANSWER,
        /** The connection broke: the request may have been carried out. */
        BROKEN,
        /** There was no connection that the request could have been sent on. */
        UNREACHED,
        /** One side does not trust the other's certificate, or what answers is no coordinator: nothing that passes by itself. */
        DISTRUST
    }

    /** Reasons with which the same request may succeed later. */
    private static final Set<String> RETRYABLE = Set.of(
            "OPEN_TIMEOUT", "REQUEST_TIMEOUT", "TOO_MANY_ENDED", "SESSION_SILENT", "DRAINING", "TOO_MANY_SESSIONS", "TOO_MANY_LOCKS",
            "TOO_MANY_REQUESTS", "RATE_LIMITED", "TOO_MANY_WAITERS", "TOO_MANY_WATCHERS", "STORE_UNAVAILABLE", "STORE_INDETERMINATE",
            "NOT_REPLICATED", "STORE_REFUSED");

    /** Makes a failure whose collections can't be changed. */
    public Failure {
        violations = List.copyOf(violations);
        metadata = Map.copyOf(metadata);
    }

    /** Returns whether the connection failed, rather than that somebody answered. */
    public boolean isTransport() {
        return origin != Origin.ANSWER;
    }

    /** Returns whether the same request may succeed later, here or at another coordinator, though nothing else changes. */
    public boolean isRetryable() {
        if (isTransport()) {
            return origin != Origin.DISTRUST;
        }
        if (!reason.isEmpty()) {
            return RETRYABLE.contains(reason);
        }
        return switch (code) {
            case UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED -> true;
            default -> false;
        };
    }

    /** Returns the kind of error that stands for it. */
    public ErrorKind kind() {
        if (isTransport()) {
            return ErrorKind.UNAVAILABLE;
        }
        return switch (reason) {
            case "SELF_DEADLOCK", "UPGRADE_REFUSED", "DEADLOCK", "FORCE_RELEASED", "LIMIT_MISMATCH" -> ErrorKind.valueOf(reason);
            default -> switch (code) {
                case UNAUTHENTICATED -> ErrorKind.UNAUTHENTICATED;
                case PERMISSION_DENIED -> ErrorKind.PERMISSION_DENIED;
                case RESOURCE_EXHAUSTED -> ErrorKind.LIMIT_REACHED;
                case INVALID_ARGUMENT -> ErrorKind.INVALID;
                default -> ErrorKind.REFUSED;
            };
        };
    }

    /** Returns whether the coordinator is going away. */
    public boolean isDraining() {
        return reason.equals("DRAINING");
    }

    /** Returns whether the coordinator does not know the client. */
    public boolean isUnauthenticated() {
        return code == Status.Code.UNAUTHENTICATED && !isTransport();
    }

    /** Returns the failure for people. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        if (isTransport() && !endpoint.isEmpty()) {
            text.append("the connection to the coordinator at ").append(endpoint).append(" failed: ");
        }
        text.append(message.isEmpty() ? code.toString() : message);
        if (!reason.isEmpty()) {
            text.append(" (").append(reason).append(')');
        }
        for (FieldViolation violation : violations) {
            // Coordinators say the violation in the message too when there is only one.
            if (!message.contains(violation.description())) {
                text.append("; ").append(violation.field()).append(": ").append(violation.description());
            }
        }
        return text.toString();
    }
}
