package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;

/** Bean that changes the client's settings before it is made, after the properties. */
@FunctionalInterface
public interface LeaseholdBuilderCustomizer {
    /** Changes the settings. */
    void customize(LeaseholdClient.Builder builder);
}
