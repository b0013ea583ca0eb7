package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.SessionInfo;
import java.util.Optional;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/** Health indicator: up while the client's session is open at a coordinator. */
public final class LeaseholdHealthIndicator extends AbstractHealthIndicator {
    private final LeaseholdClient client;

    /** Makes the indicator of a client. */
    public LeaseholdHealthIndicator(LeaseholdClient client) {
        this.client = client;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        Optional<SessionInfo> session = client.session().info();
        if (session.isEmpty()) {
            health.down().withDetail("session", "no session is open at a coordinator");
            return;
        }
        health.up()
                .withDetail("coordinator", session.get().coordinator())
                .withDetail("session", session.get().sessionId())
                .withDetail("ttl", session.get().ttl().toString());
    }
}
