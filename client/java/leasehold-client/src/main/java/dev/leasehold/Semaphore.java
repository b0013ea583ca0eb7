package dev.leasehold;

import dev.leasehold.internal.SessionDriver;
import java.util.List;
import java.util.function.Supplier;

/**
 * Name that is held by permits, up to a limit. Every request names the limit: those who hold or wait for permits agree on one, and the
 * coordinator refuses a request with another ({@link ErrorKind#LIMIT_MISMATCH}), unless it has a revision. Waiters are served in order, so
 * that a request for many permits is not starved by others for few.
 */
public final class Semaphore {
    private final Supplier<SessionDriver> session;
    private final String name;
    private final int limit;
    private final int revision;
    private final long longestWait;

    Semaphore(Supplier<SessionDriver> session, String name, int limit, int revision, long longestWait) {
        this.session = session;
        this.name = name;
        this.limit = limit;
        this.revision = revision;
        this.longestWait = longestWait;
    }

    /**
     * Sets the revision of the decision for this limit, for example the number of the deployment that changes it. A request with a greater
     * revision than the one in force replaces the limit at once; one with a smaller revision follows the limit in force. To go back, use a
     * greater revision again. Default: 0.
     */
    public Semaphore limitRevision(int decision) {
        return new Semaphore(session, name, limit, decision, longestWait);
    }

    /** Requests one permit. */
    public LockRequest permit() {
        return permits(1);
    }

    /** Requests this many permits: 1 to the limit. */
    public LockRequest permits(int permits) {
        return request(LockSpec.permits(name, permits, limit));
    }

    /**
     * Requests as many permits as are free when its turn comes, but no fewer than least and no more than most: 1 to the limit each. {@link
     * Hold#permits} says how many were granted.
     */
    public LockRequest permitsBetween(int least, int most) {
        return request(LockSpec.permits(name, most, limit).atLeast(least));
    }

    private LockRequest request(LockSpec spec) {
        return new LockRequest(Acquiring.of(session, false, List.of(spec.limitRevision(revision)), longestWait));
    }
}
