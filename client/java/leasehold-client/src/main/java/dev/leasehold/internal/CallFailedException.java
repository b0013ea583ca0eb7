package dev.leasehold.internal;

import dev.leasehold.Failure;

/** Call that failed. The public interface makes an exception of its own of it. */
public final class CallFailedException extends Exception {
    private static final long serialVersionUID = 1;

    private final transient Failure failure;

    CallFailedException(Failure failure) {
        super(failure.toString(), null, false, false);
        this.failure = failure;
    }

    /** Returns the failure. */
    public Failure failure() {
        return failure;
    }
}
