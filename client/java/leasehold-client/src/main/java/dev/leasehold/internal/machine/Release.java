package dev.leasehold.internal.machine;

/** Lock to be given back. */
final class Release {
    /** First pause before a release that could not be served is repeated. */
    static final long RETRY_FIRST = 100 * Moments.MILLIS;
    /** Longest such pause. */
    static final long RETRY_MAX = 2 * Moments.SECONDS;

    final Owned owned;
    final String traceparent;
    /** Index of the owner id that it is asked by. If nothing is held under one, a later one may hold it. */
    int index;
    /** Number of the caller that waits; 0 for none. */
    long reply;
    /** Pause before it is repeated, if it fails. */
    long retryIn = RETRY_FIRST;
    /** When it is repeated on the same stream, since the coordinator could not serve it; {@link Moments#NEVER} if it is not. */
    long retryAt = Moments.NEVER;
    /** Set if another stream was asked before and did not answer: the release may have been carried out. */
    boolean isRepeated;
    /** Set if the resume in progress already counts the hold once less because of this release. */
    boolean isCounted;
    /** Set if the hold's deadline has passed, until a coordinator was told. */
    boolean isExpired;

    Release(Owned owned, long reply, String traceparent) {
        this.owned = owned;
        this.reply = reply;
        this.traceparent = traceparent;
    }

    /** Makes a release for which nobody waits. */
    static Release of(Owned owned) {
        return new Release(owned, 0, "");
    }

    /** Makes it a release for another stream, because this one has not answered. */
    void anew() {
        index = 0;
        isRepeated = true;
        retryAt = Moments.NEVER;
    }
}
