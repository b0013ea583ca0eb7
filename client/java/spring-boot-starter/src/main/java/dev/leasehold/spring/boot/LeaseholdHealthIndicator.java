package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
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
        var details = SessionHealth.details(client);
        (details.containsKey("coordinator") ? health.up() : health.down()).withDetails(details);
    }
}
