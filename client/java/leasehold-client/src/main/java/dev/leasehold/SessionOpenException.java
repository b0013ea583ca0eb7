package dev.leasehold;

import dev.leasehold.internal.machine.ConnectFailure;

/** Coordinator at which no session could be opened. */
public final class SessionOpenException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    private final String endpoint;

    SessionOpenException(ConnectFailure failed) {
        super(
                failed.failure() == null ? ErrorKind.UNAVAILABLE : failed.failure().kind(),
                failed.toString(),
                failed.failure());
        this.endpoint = failed.endpoint();
    }

    /** Returns the coordinator's URL. */
    public String endpoint() {
        return endpoint;
    }
}
