package dev.leasehold;

import java.util.Optional;

/** Error of this library. Its {@link #kind()} is for programs that decide by it. What an error may lack is an {@link Optional}. */
public class LeaseholdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final ErrorKind kind;
    /** Null if no coordinator answered and no connection failed. */
    final transient Failure failure;

    /** Makes an error; the failure is null if no coordinator answered and no connection failed. */
    public LeaseholdException(ErrorKind kind, String message, Failure failure) {
        super(message);
        this.kind = kind;
        this.failure = failure;
    }

    /** Returns the kind. */
    public ErrorKind kind() {
        return kind;
    }

    /** Returns the coordinator's answer, or the failure of the connection; empty if there is neither. */
    public Optional<Failure> failure() {
        return Optional.ofNullable(failure);
    }

    /** Returns whether the same request may succeed later, though nothing else changes. */
    public boolean isRetryable() {
        return switch (kind) {
            case BUSY, TIMED_OUT -> true;
            case UNAVAILABLE -> failure == null || failure.isRetryable();
            default -> failure != null && failure.isRetryable();
        };
    }
}
