package dev.leasehold;

import java.time.Instant;
import java.util.Optional;

/**
 * Waiter for a lock, as others see it.
 *
 * @param sessionId its session; empty for a caller without one
 * @param clientName name that its client gave itself
 * @param coordinator coordinator at which it waits
 * @param waitingSince time at which it joined the queue, by the store's clock
 * @param position place in the queue, from 1
 * @param mode mode in which it wants to hold the lock; empty for one that this version does not know
 * @param permits permits that it wants of a semaphore; 0 in other modes
 * @param permitsAtLeast fewest permits that it is content with; 0 if it wants all of them
 * @param actor number of its actor; 0 for none
 * @param number number by which an operator ends its wait; see {@link Admin#forceReleaseWaiter}
 * @param peer network address that its session came from, told as for a {@link Holder}
 */
public record Waiter(
        String sessionId,
        String clientName,
        String coordinator,
        Instant waitingSince,
        long position,
        Optional<LockSpec.Mode> mode,
        int permits,
        int permitsAtLeast,
        long actor,
        long number,
        String peer) {}
