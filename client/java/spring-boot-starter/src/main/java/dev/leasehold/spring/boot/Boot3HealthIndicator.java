package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** {@link LeaseholdHealthIndicator} of Spring Boot 3, whose classes have other names. */
final class Boot3HealthIndicator extends AbstractHealthIndicator {
    private final LeaseholdClient client;

    Boot3HealthIndicator(LeaseholdClient client) {
        this.client = client;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        var details = SessionHealth.details(client);
        (details.containsKey("coordinator") ? health.up() : health.down()).withDetails(details);
    }
}
