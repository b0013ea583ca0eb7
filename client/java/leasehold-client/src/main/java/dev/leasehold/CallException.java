package dev.leasehold;

import dev.leasehold.internal.CallFailedException;

/** Call without a session that failed: {@link #failure()} has the coordinator's answer, or why there is none. */
public final class CallException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    CallException(Failure failure) {
        super(failure.kind(), failure.toString(), failure);
    }

    /** Fails if a check found something wrong. */
    static void check(Failure wrong) {
        if (wrong != null) {
            throw new CallException(wrong);
        }
    }

    /** A call. */
    interface Call<T> {
        T make() throws CallFailedException;
    }

    static <T> T unwrapping(Call<T> call) {
        try {
            return call.make();
        } catch (CallFailedException e) {
            throw new CallException(e.failure());
        }
    }
}
