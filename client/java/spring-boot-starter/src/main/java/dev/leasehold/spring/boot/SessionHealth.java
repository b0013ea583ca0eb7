package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import java.util.Map;

/** Details of a client's session for health indicators. */
final class SessionHealth {
    private SessionHealth() {}

    /** Returns them; without a coordinator while no session is open. */
    static Map<String, String> details(LeaseholdClient client) {
        return client.session()
                .info()
                .map(session -> Map.of(
                        "coordinator", session.coordinator(),
                        "session", session.sessionId(),
                        "ttl", session.ttl().toString()))
                .orElse(Map.of("session", "no session is open at a coordinator"));
    }
}
