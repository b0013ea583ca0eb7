package dev.leasehold;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * Session, as operators see it.
 *
 * @param sessionId its id
 * @param clientName name that its client gave itself
 * @param peer network address of the client
 * @param coordinator coordinator that serves it
 * @param ttl its TTL
 * @param openedAt time at which it was opened, by the coordinator's wall clock
 * @param sinceHeartbeat time since its last heartbeat. An idle session sends few
 * @param holdCount number of locks that it holds
 * @param waiterCount number of acquires that it has waiting
 * @param metadata what its client added; see {@link LeaseholdClient.Builder#metadata}
 * @param identity identity that opened it, for example {@code cert:billing}; empty if callers need none
 */
public record SessionView(
        String sessionId,
        String clientName,
        String peer,
        String coordinator,
        Duration ttl,
        Instant openedAt,
        Duration sinceHeartbeat,
        int holdCount,
        int waiterCount,
        Map<String, String> metadata,
        String identity) {
    /** Makes a view whose map can't be changed. */
    public SessionView {
        metadata = Map.copyOf(metadata);
    }
}
