package dev.leasehold;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * Status of a coordinator. Callers who may not inspect every lock see nothing of its store, its counts, its limits and its certificates.
 *
 * @param coordinator its id, as listings show it
 * @param version its version
 * @param uptime time since it started
 * @param isServing whether it serves
 * @param reason why it does not serve, for people; while it serves, what its store has refused in the last minute; empty if neither
 * @param store URL of its store, without passwords
 * @param isStoreUp whether it reaches its store; empty if not shown
 * @param sessionCount number of its sessions; empty if not shown
 * @param holdCount number of locks that they hold; empty if not shown
 * @param waiterCount number of their acquires that wait or are in flight; empty if not shown
 * @param time its wall clock when it answered
 * @param isDraining whether it was told to stop, and waits for its clients to leave
 * @param identity the caller's identity, for example {@code token:ci}; empty if callers need none
 * @param permissions what the caller may do here
 * @param minTtl the smallest TTL that it grants
 * @param defaultTtl the TTL of callers that ask for none
 * @param maxTtl the largest TTL that it grants
 * @param keyPrefix prefix of the Redis keys of locks; empty if not shown
 * @param minReplicas number of replicas that must acknowledge a grant; empty if not shown
 * @param limits its limits, and how much of each is in use
 * @param certificates certificates in force
 */
public record CoordinatorStatus(
        String coordinator,
        String version,
        Duration uptime,
        boolean isServing,
        String reason,
        String store,
        Optional<Boolean> isStoreUp,
        OptionalLong sessionCount,
        OptionalLong holdCount,
        OptionalLong waiterCount,
        Instant time,
        boolean isDraining,
        String identity,
        List<Permission> permissions,
        Duration minTtl,
        Duration defaultTtl,
        Duration maxTtl,
        Optional<String> keyPrefix,
        OptionalInt minReplicas,
        List<Limit> limits,
        List<Certificate> certificates) {

    /**
     * Permission of the caller. The empty prefix stands for every name.
     *
     * @param permission {@code acquire}, {@code inspect} or {@code administer}
     * @param locks prefixes of the names of locks that it is for
     * @param elections prefixes of the names of elections that it is for
     */
    public record Permission(String permission, List<String> locks, List<String> elections) {}

    /**
     * Limit of a coordinator.
     *
     * @param name the setting, such as {@code max-sessions}; or {@code open-files}
     * @param used how much of it is in use
     * @param limit the limit
     */
    public record Limit(String name, long used, long limit) {}

    /**
     * Certificate of a coordinator.
     *
     * @param purpose what it is for: {@code server} (the gRPC port), {@code admin} (the admin port) or {@code store} (to identify itself to
     *     Redis)
     * @param expires when the first certificate of its chain expires
     */
    public record Certificate(String purpose, Instant expires) {}
}
