package dev.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.spring.integration.LeaseholdLeaderInitiator;
import dev.leasehold.spring.integration.LeaseholdLockRegistry;
import dev.leasehold.processes.Coordinator;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.integration.support.locks.DefaultLockRegistry;
import org.springframework.integration.support.locks.LockRegistry;

class LeaseholdAutoConfigurationTest {
    private final ApplicationContextRunner context =
            new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class));

    @Test
    void anApplicationStartsWithoutACoordinatorAndIsDown() {
        context.withPropertyValues("leasehold.endpoints=http://127.0.0.1:1").run(made -> {
            assertThat(made).hasSingleBean(LeaseholdClient.class).hasSingleBean(LeaseholdLockRegistry.class);
            assertThat(made).doesNotHaveBean(LeaseholdLeaderInitiator.class);
            assertThat(made.getBean(LeaseholdHealthIndicator.class).health().getStatus()).isEqualTo(Status.DOWN);
        });
    }

    @Test
    void thePropertiesAreThoseOfTheSession() throws Exception {
        try (Coordinator coordinator = Coordinator.start()) {
            context.withPropertyValues(
                            "spring.application.name=billing",
                            "leasehold.endpoints=" + coordinator.url(),
                            "leasehold.ttl=3s",
                            "leasehold.lock-prefix=billing/",
                            "leasehold.leader.role=scheduler",
                            "leasehold.leader.id=one")
                    .run(made -> {
                        LeaseholdClient client = made.getBean(LeaseholdClient.class);
                        made.getBean(LeaseholdLockRegistry.class).executeLocked("42", () -> {
                            assertThat(client.lock("billing/42").tryAcquire()).isEmpty();
                            return null;
                        });
                        assertThat(client.session().info().orElseThrow().ttl()).isEqualTo(Duration.ofSeconds(3));
                        assertThat(made.getBean(LeaseholdHealthIndicator.class).health().getStatus()).isEqualTo(Status.UP);
                        assertThat(made.getBean(LeaseholdLeaderInitiator.class).isRunning()).isTrue();
                    });
        }
    }

    @Test
    void whatTheApplicationHasIsNotMade() {
        context.withBean(LockRegistry.class, DefaultLockRegistry::new)
                .withBean(LeaseholdBuilderCustomizer.class, () -> builder -> builder.ttl(Duration.ofSeconds(2)))
                .run(made -> assertThat(made).doesNotHaveBean(LeaseholdLockRegistry.class));
        context.withBean(LeaseholdClient.class, () -> LeaseholdClient.builder("http://127.0.0.1:1").build())
                .run(made -> assertThat(made).hasSingleBean(LeaseholdClient.class));
    }

    @Test
    void theClientIsMeasuredIfThereIsARegistry() throws Exception {
        try (Coordinator coordinator = Coordinator.start()) {
            context.withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                    .withPropertyValues("leasehold.endpoints=" + coordinator.url())
                    .run(made -> {
                        made.getBean(LeaseholdClient.class).lock("a").run(hold -> {});
                        MeterRegistry registry = made.getBean(MeterRegistry.class);
                        assertThat(registry.get("leasehold.client.acquire").tag("outcome", "granted").timer().count()).isEqualTo(1);
                    });
        }
    }

    @Test
    void metricsAreOptional() {
        context.run(made -> assertThat(made).hasNotFailed().hasBean("leaseholdMetrics"));
        context.withClassLoader(new FilteredClassLoader("io.micrometer.core"))
                .run(made -> assertThat(made).hasSingleBean(LeaseholdClient.class).doesNotHaveBean("leaseholdMetrics"));
    }

    @Test
    void healthIsOptional() {
        context.withPropertyValues("management.health.leasehold.enabled=false")
                .run(made -> assertThat(made).doesNotHaveBean(LeaseholdHealthIndicator.class));
        context.withClassLoader(new FilteredClassLoader("org.springframework.boot.health"))
                .run(made -> assertThat(made).hasSingleBean(LeaseholdClient.class).doesNotHaveBean("leaseholdHealthIndicator"));
    }
}
