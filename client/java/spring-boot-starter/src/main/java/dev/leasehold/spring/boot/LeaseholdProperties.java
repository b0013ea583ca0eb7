package dev.leasehold.spring.boot;

import java.nio.file.Path;
import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Properties of the client, of the lock registry and of the leader initiator. Those that have no default are left to the client; see {@link
 * dev.leasehold.LeaseholdClient.Builder}.
 *
 * @param endpoints URLs of coordinators, with commas in between
 * @param clientName name that operators see; by default {@code spring.application.name}
 * @param ttl time for which locks outlive the loss of contact
 * @param grace time for which locks are kept when their stream breaks, so that the session can resume them
 * @param waitAtMost longest wait of acquires that give none
 * @param closeTimeout longest time for which the end of the application waits for work under locks
 * @param connectTimeout longest time of an attempt to connect
 * @param ca PEM file with the CAs that the client trusts
 * @param certificate PEM file with the client's certificate
 * @param key PEM file with the certificate's private key, in PKCS #8
 * @param serverName name that must be in the coordinators' certificates
 * @param token bearer token
 * @param tokenFile file with the bearer token
 * @param allowPlaintextToken whether the token is sent over http to other machines too
 * @param lockPrefix beginning of the names of the registry's locks
 * @param leader settings of the leader initiator
 * @param shedlock settings of ShedLock's provider
 */
@ConfigurationProperties("leasehold")
public record LeaseholdProperties(
        @DefaultValue("http://127.0.0.1:7420") String endpoints,
        String clientName,
        Duration ttl,
        Duration grace,
        Duration waitAtMost,
        Duration closeTimeout,
        Duration connectTimeout,
        Path ca,
        Path certificate,
        Path key,
        String serverName,
        String token,
        Path tokenFile,
        @DefaultValue("false") boolean allowPlaintextToken,
        @DefaultValue("") String lockPrefix,
        @DefaultValue Leader leader,
        @DefaultValue ShedLock shedlock) {
    /**
     * Settings of the leader initiator, which there is if a role is set.
     *
     * @param role the election's name
     * @param id value that others see of this instance while it leads; by default one of its own
     */
    public record Leader(String role, String id) {}

    /**
     * Settings of the lock provider, which there is if ShedLock is.
     *
     * @param prefix beginning of the names of its locks
     * @param session whether the client's session holds them, so that they end with the process, instead of after lockAtMostFor
     */
    public record ShedLock(@DefaultValue("shedlock/") String prefix, @DefaultValue("false") boolean session) {}
}
