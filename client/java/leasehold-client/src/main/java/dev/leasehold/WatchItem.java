package dev.leasehold;

/** Item of a {@link Watcher}. */
public sealed interface WatchItem {
    /**
     * Part of a snapshot: a lock that is held, closed or waited for. It replaces any earlier state of its name.
     *
     * @param lock the lock
     */
    record Lock(LockView lock) implements WatchItem {}

    /** The snapshot is complete: locks that were not in it are free. */
    record Ready() implements WatchItem {}

    /**
     * Something happened.
     *
     * @param event what happened
     */
    record Event(LockEvent event) implements WatchItem {}

    /**
     * Events were missed: forget the state of all locks. A snapshot follows.
     *
     * @param message why, for people
     */
    record Gap(String message) implements WatchItem {}
}
