package dev.leasehold.internal.machine;

/** Request that waits for its answer. */
sealed interface InFlight {
    /** The open. */
    record Open() implements InFlight {}

    /** An acquire, by its number in the session. */
    record Acquire(long acquire) implements InFlight {}

    /**
     * An acquire whose caller waits no longer. If it is granted, the session gives the lock back.
     *
     * @param actor its actor; 0 for none
     */
    record Abandoned(long actor) implements InFlight {}

    /** A release. */
    record Releasing(Release release) implements InFlight {}

    /** A change. */
    record Changing(Change change) implements InFlight {}
}
