package dev.leasehold;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * Everything that can be seen of one lock.
 *
 * @param name the lock's name
 * @param mode mode in which it is held; empty while it is free
 * @param holders its holders, at most 100 of them, those that expire first
 * @param holderCount number of holders, including those that are not shown
 * @param waiters its waiters in the order in which they will be served, at most 100 of them; none in listings
 * @param waiterCount number of waiters, including those that are not shown
 * @param token newest fencing token on record; 0 if there is none
 * @param closedFor time for which it stays closed after an unclean end; zero if it is not closed
 * @param lockDelay lock-delay of the present hold, the longest of several
 * @param limit limit of a semaphore; 0 for other locks
 * @param permitsTaken number of the semaphore's permits that are taken
 * @param limitRevision revision of that limit
 */
public record LockView(
        String name,
        Optional<LockSpec.Mode> mode,
        List<Holder> holders,
        long holderCount,
        List<Waiter> waiters,
        long waiterCount,
        long token,
        Duration closedFor,
        Duration lockDelay,
        int limit,
        int permitsTaken,
        int limitRevision) {
    /** Makes a view whose collections can't be changed. */
    public LockView {
        holders = List.copyOf(holders);
        waiters = List.copyOf(waiters);
    }
}
