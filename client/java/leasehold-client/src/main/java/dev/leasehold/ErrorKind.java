package dev.leasehold;

/** Kind of an error, for programs that decide by it. */
public enum ErrorKind {
    /** The lock is lost. */
    LOST("the lock is lost"),
    /** The lock is suspended: don't act on it. */
    SUSPENDED("the lock is suspended"),
    /** This process released the lock before. */
    RELEASED("the lock was released"),
    /** Another client holds the lock, or others wait for it, and the request did not wait. */
    BUSY("the lock is busy"),
    /** The lock did not come free within the wait of the request. */
    TIMED_OUT("the lock did not come free in time"),
    /** No coordinator could be asked in time. */
    UNAVAILABLE("no coordinator could be reached"),
    /** This process closed the session or the client. */
    CLOSED("the session was closed"),
    /** A request about a hold had no answer in time: it may have been carried out. */
    UNCONFIRMED("the request was not confirmed"),
    /** A field of the request is out of bounds. */
    INVALID("invalid request"),
    /** The coordinator does not know the client: it showed no certificate and no token, or none that is valid. */
    UNAUTHENTICATED("the coordinator does not know this client"),
    /** The coordinator does not allow the request. */
    PERMISSION_DENIED("not allowed"),
    /** One of the coordinator's limits is reached. */
    LIMIT_REACHED("a limit is reached"),
    /** The coordinator could not serve the request, for another reason. */
    REFUSED("the coordinator could not serve the request"),
    /** The actor holds the lock already, or waits for it, and would have waited for itself; see {@link LockRequest#reentrant()}. */
    SELF_DEADLOCK("the actor holds or awaits the lock already"),
    /** The session campaigns for the election already, or leads it. */
    ALREADY_CANDIDATE("the session is a candidate already"),
    /** The actor holds the lock in a weaker way than it asks for. Release it first, and ask anew. */
    UPGRADE_REFUSED("the actor holds the lock in a weaker way"),
    /** The semaphore has another limit of the same revision, or one that is less than the permits that the request needs. */
    LIMIT_MISMATCH("the semaphore has another limit"),
    /** Actors waited for one another in a circle, and the coordinator ended this wait. Release what the actor holds, and begin anew. */
    DEADLOCK("the wait closed a deadlock"),
    /** An operator ended the wait. */
    FORCE_RELEASED("an operator ended the wait");

    private final String description;

    ErrorKind(String description) {
        this.description = description;
    }

    /** Returns the kind for people. */
    public String description() {
        return description;
    }
}
