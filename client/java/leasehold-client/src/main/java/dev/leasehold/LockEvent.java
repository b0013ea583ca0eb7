package dev.leasehold;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * Something that happened to a lock.
 *
 * @param kind kind of the event
 * @param name the lock's name
 * @param time when it happened, by the store's clock, also if the coordinator noticed it later
 * @param token token of the hold in question; 0 for events of waiters
 * @param holder hold in question, as last seen; empty for events of waiters
 * @param waiter waiter in question; empty for events of holds
 * @param reason reason of a loss; empty in other events
 * @param mode how the lock is held after this; empty while it is free
 * @param holderCount number of holders after this
 * @param waiterCount number of waiters after this
 * @param closedFor time for which the lock is closed after this; zero if it is not
 * @param limit the semaphore's limit after this, if this changed it; otherwise 0
 * @param limitRevision revision of that limit; 0 in other events
 */
public record LockEvent(
        Kind kind,
        String name,
        Instant time,
        long token,
        Optional<Holder> holder,
        Optional<Waiter> waiter,
        Optional<LostReason> reason,
        Optional<LockSpec.Mode> mode,
        long holderCount,
        long waiterCount,
        Duration closedFor,
        int limit,
        int limitRevision) {

    /** Kind of an event. */
    public enum Kind {
        /** A client holds the lock now. */
        GRANTED,
        /** A client waits for it now. */
        QUEUED,
        /** A waiter gave up, its session ended, or it needs more permits than a limit that was lowered. */
        WITHDRAWN,
        /** A hold was released, or its session or its longest time ended. */
        RELEASED,
        /** A hold expired. */
        EXPIRED,
        /** A hold was missing from the store before its time. */
        LOST,
        /** An operator took a hold away, or ended a wait. */
        FORCED,
        /** A holder changed its value. */
        VALUE_CHANGED,
        /** A holder made its exclusive hold a shared one. */
        DOWNGRADED,
        /** An acquire replaced the limit of a semaphore, or its revision. */
        LIMIT_CHANGED,
        /** A holder gave some of its permits back. */
        PERMITS_REDUCED,
        /** An operator asked a holder to release the lock, which holds it still. */
        RELEASE_REQUESTED,
        /** One that this version does not know. */
        UNKNOWN
    }
}
