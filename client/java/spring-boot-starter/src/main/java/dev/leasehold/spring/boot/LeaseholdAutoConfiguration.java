package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.micrometer.MicrometerMetrics;
import dev.leasehold.spring.integration.LeaseholdLeaderInitiator;
import dev.leasehold.spring.integration.LeaseholdLockRegistry;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.UUID;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.locks.LockRegistry;

/** Client, lock registry, leader initiator, health indicator and metrics, each unless the application has its own. */
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
        PropertyMapper map = PropertyMapper.get();
        String application = environment.getProperty("spring.application.name");
        map.from(properties.clientName() == null ? application : properties.clientName()).to(builder::clientName);
        map.from(properties.ttl()).to(builder::ttl);
        map.from(properties.grace()).to(builder::grace);
        map.from(properties.connectTimeout()).to(builder::connectTimeout);
        map.from(properties.ca()).to(builder::ca);
        map.from(properties.certificate()).to(certificate -> builder.certificate(certificate, properties.key()));
        map.from(properties.serverName()).to(builder::serverName);
        map.from(properties.token()).to(builder::token);
        map.from(properties.tokenFile()).to(builder::tokenFile);
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        LeaseholdClient client = builder.build();
        client.session();
        return client;
    }

    /** Makes the lock registry. */
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    public LeaseholdLockRegistry leaseholdLockRegistry(LeaseholdClient client, LeaseholdProperties properties) {
        return new LeaseholdLockRegistry(client, properties.lockPrefix());
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
}
