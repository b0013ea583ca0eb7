package dev.leasehold;

/** Reason for which a lock is no longer held. */
public enum LostReason {
    /** The coordinator said that the lock was no longer held, but not why. */
    UNKNOWN("the coordinator no longer holds it for us"),
    /**
     * The lease ran out before it was renewed: the coordinator or its store was out of reach, or this process was paused. Decided by
     * this process's own clock, or told by the coordinator, whichever came first.
     */
    EXPIRED("its lease ran out before it was renewed"),
    /** The lock was gone from the store before its time: its key was deleted, or the store lost data. */
    DELETED("it was deleted from the store"),
    /** Another client's lock was found in its place. */
    TAKEN("another client's lock was found in its place"),
    /** An operator force-released it. */
    FORCED("it was force-released by an operator"),
    /** The stream to the coordinator ended, and every hold of the session with it. */
    SESSION_ENDED("the stream to the coordinator ended"),
    /** This process closed the session. */
    SESSION_CLOSED("the session was closed"),
    /** The coordinator does not allow this client to hold it any more. */
    PERMISSION_REVOKED("this client is not allowed to hold it any more"),
    /** The client's token or certificate expired or was removed, and no newer one came in time. */
    UNAUTHENTICATED("the coordinator does not know this client any more, and no newer credentials came in time"),
    /** Another stream resumed it without a request of this session: a client that knew its owner id. */
    RESUMED("another stream resumed it"),
    /** It was held for as long as it may be. */
    MAX_HOLD("it was held for as long as it may be");

    private final String description;

    LostReason(String description) {
        this.description = description;
    }

    /** Returns the reason for people, as the end of a sentence. */
    public String description() {
        return description;
    }
}
