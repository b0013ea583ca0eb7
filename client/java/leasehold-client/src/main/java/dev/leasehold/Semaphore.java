package dev.leasehold;

import java.util.List;

/**
 * Name that is held by permits, up to a limit. Every request names the limit: those who hold or wait for permits agree on one, and the
 * coordinator refuses a request with another ({@link ErrorKind#LIMIT_MISMATCH}), unless it has a revision. Waiters are served in order, so
 * that a request for many permits is not starved by others for few.
 */
public final class Semaphore {
    private final Acquiring acquiring;
    private final LockSpec spec;

    Semaphore(Acquiring acquiring, LockSpec spec) {
        this.acquiring = acquiring;
        this.spec = spec;
    }

    /**
     * Sets the revision of the decision for this limit, for example the number of the deployment that changes it. A request with a greater
     * revision than the one in force replaces the limit at once; one with a smaller revision follows the limit in force. To go back, use a
     * greater revision again. Default: 0.
     */
    public Semaphore limitRevision(int decision) {
        return new Semaphore(acquiring, spec.limitRevision(decision));
    }

    /** Requests one permit. */
    public LockRequest permit() {
        return permits(1);
    }

    /** Requests this many permits: 1 to the limit. */
    public LockRequest permits(int permits) {
        return request(spec.permits(permits));
    }

    /**
     * Requests as many permits as are free when its turn comes, but no fewer than least and no more than most: 1 to the limit each. {@link
     * Hold#permits} says how many were granted.
     */
    public LockRequest permitsBetween(int least, int most) {
        return request(spec.permits(most).atLeast(least));
    }

    private LockRequest request(LockSpec asked) {
        return new LockRequest(acquiring.locks(List.of(asked)));
    }
}
