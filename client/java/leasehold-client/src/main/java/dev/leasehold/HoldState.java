package dev.leasehold;

/** State of a hold. */
public enum HoldState {
    /** The lock is held, by this process's own clock and all messages so far. */
    HELD,
    /**
     * The stream to the coordinator broke and the session has a grace, or the coordinator ended it because the client's token or
     * certificate expired. Don't act on the lock: it counts as not held, and is not lost yet. It is held again if the session resumes it
     * in time, with the same token, and otherwise lost.
     */
    SUSPENDED,
    /** The lock is not held any more. Final. */
    LOST,
    /** This process released it. Final. */
    RELEASED;

    /** Returns whether the state is final. */
    public boolean isFinal() {
        return this == LOST || this == RELEASED;
    }
}
