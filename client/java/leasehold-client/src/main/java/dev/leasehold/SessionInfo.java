package dev.leasehold;

import java.time.Duration;

/**
 * Description of an open session, as its coordinator gave it.
 *
 * @param sessionId the session's name in listings. Not secret. Every reconnect brings a new one
 * @param coordinator the coordinator's name in listings
 * @param ttl the TTL in force
 * @param heartbeatInterval time between heartbeats of a session that holds or waits for something. An idle one sends fewer if the
 *     coordinator allows it
 */
public record SessionInfo(String sessionId, String coordinator, Duration ttl, Duration heartbeatInterval) {}
