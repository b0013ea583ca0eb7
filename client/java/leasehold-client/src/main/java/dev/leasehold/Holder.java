package dev.leasehold;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * Holder of a lock, as others see it. Its owner id is secret and never shown.
 *
 * @param sessionId its session; empty for a caller without one, and for a program that does not use Leasehold
 * @param clientName name that its client gave itself
 * @param coordinator coordinator through which it was granted or last confirmed
 * @param token fencing token; 0 for a program that does not use Leasehold
 * @param acquiredAt time of the grant, by the store's clock; empty for a program that does not use Leasehold
 * @param ttl time left until the hold ends unless it is renewed; empty if it never ends
 * @param value what the holder attached to its hold
 * @param holdCount number of times that its actor holds the lock
 * @param isForeign whether it is a program that does not use Leasehold
 * @param permits permits that it holds of a semaphore; 0 in other modes
 * @param actor number of its actor; 0 for none
 * @param maxHold longest time for which it may hold the lock, from its grant on; empty without a bound
 * @param peer network address that its session came from; only {@link Admin#getLock} tells it, at the coordinator that serves the session,
 *     to those who may list that; empty otherwise
 */
public record Holder(
        String sessionId,
        String clientName,
        String coordinator,
        long token,
        Optional<Instant> acquiredAt,
        Optional<Duration> ttl,
        byte[] value,
        int holdCount,
        boolean isForeign,
        int permits,
        long actor,
        Optional<Duration> maxHold,
        String peer) {

    /** Compares the values by their bytes. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Holder holder && parts().equals(holder.parts());
    }

    @Override
    public int hashCode() {
        return parts().hashCode();
    }

    private List<Object> parts() {
        return List.of(
                sessionId, clientName, coordinator, token, acquiredAt, ttl, ByteBuffer.wrap(value),
                holdCount, isForeign, permits, actor, maxHold, peer);
    }

    /** Returns who holds it, with which token. */
    @Override
    public String toString() {
        return "Holder[client " + clientName + ", session " + sessionId + ", token " + token + "]";
    }
}
