package dev.leasehold;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;

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

    private static final Map<String, Boolean> RETRIES = retries();

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
        Boolean known = RETRIES.get(reason);
        if (known != null) {
            return known;
        }
        return switch (code) {
            case UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED -> reason.isEmpty();
            default -> false;
        };
    }

    /** Returns the kind of error that stands for it. */
    public ErrorKind kind() {
        if (isTransport()) {
            return ErrorKind.UNAVAILABLE;
        }
        switch (reason) {
            case "SELF_DEADLOCK":
                return ErrorKind.SELF_DEADLOCK;
            case "UPGRADE_REFUSED":
                return ErrorKind.UPGRADE_REFUSED;
            case "DEADLOCK":
                return ErrorKind.DEADLOCK;
            case "FORCE_RELEASED":
                return ErrorKind.FORCE_RELEASED;
            case "LIMIT_MISMATCH":
                return ErrorKind.LIMIT_MISMATCH;
            default:
                break;
        }
        return switch (code) {
            case UNAUTHENTICATED -> ErrorKind.UNAUTHENTICATED;
            case PERMISSION_DENIED -> ErrorKind.PERMISSION_DENIED;
            case RESOURCE_EXHAUSTED -> ErrorKind.LIMIT_REACHED;
            case INVALID_ARGUMENT -> ErrorKind.INVALID;
            default -> ErrorKind.REFUSED;
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

    private static Map<String, Boolean> retries() {
        return Map.ofEntries(
                Map.entry("INVALID_FIELD", false),
                Map.entry("UNAUTHENTICATED", false),
                Map.entry("IDENTITY_EXPIRED", false),
                Map.entry("PERMISSION_DENIED", false),
                Map.entry("NOT_OPEN", false),
                Map.entry("ALREADY_OPEN", false),
                Map.entry("OPEN_TIMEOUT", true),
                Map.entry("REQUEST_TIMEOUT", true),
                Map.entry("UNKNOWN_REQUEST", false),
                Map.entry("REQUEST_ID_IN_USE", false),
                Map.entry("SELF_DEADLOCK", false),
                Map.entry("UPGRADE_REFUSED", false),
                Map.entry("LIMIT_MISMATCH", false),
                Map.entry("NOT_EXCLUSIVE", false),
                Map.entry("NOT_A_SEMAPHORE", false),
                Map.entry("DEADLOCK", false),
                Map.entry("FORCE_RELEASED", false),
                Map.entry("SESSION_ENDED", false),
                Map.entry("TOO_MANY_ENDED", true),
                Map.entry("REQUEST_REPEATED", false),
                Map.entry("LOCK_LOST", false),
                Map.entry("NOT_LEADER", false),
                Map.entry("SESSION_SILENT", true),
                Map.entry("DRAINING", true),
                Map.entry("TOO_MANY_SESSIONS", true),
                Map.entry("TOO_MANY_LOCKS", true),
                Map.entry("TOO_MANY_REQUESTS", true),
                Map.entry("RATE_LIMITED", true),
                Map.entry("TOO_MANY_WAITERS", true),
                Map.entry("TOO_MANY_WATCHERS", true),
                Map.entry("TOO_MANY_NAMES", false),
                Map.entry("PAGE_TOO_LARGE", false),
                Map.entry("MESSAGE_TOO_LARGE", false),
                Map.entry("STORE_UNAVAILABLE", true),
                Map.entry("STORE_INDETERMINATE", true),
                Map.entry("NOT_REPLICATED", true),
                Map.entry("STORE_REFUSED", true),
                Map.entry("KEY_NOT_A_LOCK", false),
                Map.entry("NOT_OFFERED", false),
                Map.entry("STORE_GARBLED", false));
    }
}
