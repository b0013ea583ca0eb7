package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.micrometer.MicrometerMetrics;
import dev.leasehold.shedlock.LeaseholdLockProvider;
import dev.leasehold.shedlock.LeaseholdSessionLockProvider;
import dev.leasehold.spring.integration.LeaseholdLeaderInitiator;
import dev.leasehold.spring.integration.LeaseholdLockRegistry;
import dev.leasehold.spring.integration.LeaseholdLockRegistry6;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.UUID;
import java.util.function.Consumer;
import net.javacrumbs.shedlock.core.LockProvider;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/** Client, lock registry, leader initiator, ShedLock's provider, methods under locks, health indicator and metrics, each unless the application has its own. */
@AutoConfiguration
@EnableConfigurationProperties(LeaseholdProperties.class)
public class LeaseholdAutoConfiguration {
    /** Makes the auto-configuration. */
    public LeaseholdAutoConfiguration() {}

    /** Makes the client, which begins to connect in the background: the application starts without a coordinator too. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public LeaseholdClient leaseholdClient(
            LeaseholdProperties properties, Environment environment, ObjectProvider<LeaseholdBuilderCustomizer> customizers) {
        LeaseholdClient.Builder builder = LeaseholdClient.builder(properties.endpoints());
        String application = environment.getProperty("spring.application.name");
        set(properties.clientName() == null ? application : properties.clientName(), builder::clientName);
        set(properties.ttl(), builder::ttl);
        set(properties.grace(), builder::grace);
        set(properties.waitAtMost(), builder::waitAtMost);
        set(properties.closeTimeout(), builder::closeTimeout);
        set(properties.connectTimeout(), builder::connectTimeout);
        set(properties.ca(), builder::ca);
        if (properties.certificate() != null || properties.key() != null) {
            builder.certificate(properties.certificate(), properties.key());
        }
        set(properties.serverName(), builder::serverName);
        set(properties.token(), builder::token);
        set(properties.tokenFile(), builder::tokenFile);
        if (properties.allowPlaintextToken()) {
            builder.allowPlaintextToken();
        }
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        LeaseholdClient client = builder.build();
        client.session();
        return client;
    }

    private static <T> void set(T value, Consumer<T> setting) {
        if (value != null) {
            setting.accept(value);
        }
    }

    /** Puts methods with {@link WithLock} under their locks. */
    @Bean
    static WithLockPostProcessor leaseholdWithLock(ObjectProvider<LeaseholdClient> client) {
        return new WithLockPostProcessor(client);
    }

    /** Makes the leader initiator, for the application's candidate if it has one. */
    @Bean
    @ConditionalOnProperty("leasehold.leader.role")
    @ConditionalOnMissingBean
    public LeaseholdLeaderInitiator leaseholdLeaderInitiator(
            LeaseholdClient client, LeaseholdProperties properties, ObjectProvider<Candidate> candidates) {
        LeaseholdProperties.Leader leader = properties.leader();
        String id = leader.id() == null ? UUID.randomUUID().toString() : leader.id();
        return new LeaseholdLeaderInitiator(client, candidates.getIfAvailable(() -> new DefaultCandidate(id, leader.role())));
    }

    /** Lock registry. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(DistributedLock.class)
    static class RegistryConfiguration {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        LeaseholdLockRegistry leaseholdLockRegistry(LeaseholdClient client, LeaseholdProperties properties) {
            return new LeaseholdLockRegistry(client, properties.lockPrefix());
        }
    }

    /** Lock registry of Spring Integration 6. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingClass("org.springframework.integration.support.locks.DistributedLock")
    static class Registry6Configuration {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        LeaseholdLockRegistry6 leaseholdLockRegistry(LeaseholdClient client, LeaseholdProperties properties) {
            return new LeaseholdLockRegistry6(client, properties.lockPrefix());
        }
    }

    /** Lock provider, for applications that have ShedLock. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "net.javacrumbs.shedlock.core.ExtensibleLockProvider")
    static class ShedLockConfiguration {
        @Bean
        @ConditionalOnMissingBean
        LockProvider leaseholdLockProvider(LeaseholdClient client, LeaseholdProperties properties) {
            LeaseholdProperties.ShedLock shedlock = properties.shedlock();
            return shedlock.session()
                    ? new LeaseholdSessionLockProvider(client, shedlock.prefix())
                    : new LeaseholdLockProvider(client, shedlock.prefix());
        }
    }

    /** Metrics of the client, for applications that have a registry of Micrometer. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    static class MetricsConfiguration {
        // Looked for when the client is made, so that it does not matter what makes the registry, and when.
        @Bean
        LeaseholdBuilderCustomizer leaseholdMetrics(ObjectProvider<MeterRegistry> registries) {
            return builder -> registries.ifAvailable(registry -> builder.metrics(new MicrometerMetrics(registry)));
        }
    }

    /** Health indicator, for applications that have health endpoints. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
    static class HealthConfiguration {
        // Not of the class: the condition itself is missing where the class is.
        @Bean
        @ConditionalOnEnabledHealthIndicator("leasehold")
        @ConditionalOnMissingBean(name = "leaseholdHealthIndicator")
        LeaseholdHealthIndicator leaseholdHealthIndicator(LeaseholdClient client) {
            return new LeaseholdHealthIndicator(client);
        }
    }

    /** The same with Spring Boot 3, where the classes have other names. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = {
        "org.springframework.boot.actuate.health.AbstractHealthIndicator",
        "org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator"
    })
    static class Boot3HealthConfiguration {
        @Bean
        @org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator("leasehold")
        @ConditionalOnMissingBean(name = "leaseholdHealthIndicator")
        Boot3HealthIndicator leaseholdHealthIndicator(LeaseholdClient client) {
            return new Boot3HealthIndicator(client);
        }
    }
}
