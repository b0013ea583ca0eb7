package dev.leasehold.conformance;

import com.google.gson.annotations.SerializedName;
import dev.leasehold.Actor;
import dev.leasehold.Election;
import dev.leasehold.Entry;
import dev.leasehold.LockRequest;
import dev.leasehold.LockSpec;
import dev.leasehold.MultiLockRequest;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** One line of the runner. */
final class Request {
    long id;
    String op = "";
    String as;
    String on;
    String h;
    long of;
    long ms;
    String value = "";
    String message;
    String election;
    List<String> names = List.of();
    String mode;
    Integer permits;
    Integer limit;

    @SerializedName("wait_ms")
    Long waitMs;

    @SerializedName("lock_delay_ms")
    long lockDelayMs;

    String actor;
    boolean reentrant;

    @SerializedName("cleanup_ms")
    long cleanupMs;

    @SerializedName("fail_with")
    String failWith;

    List<String> endpoints;

    @SerializedName("client_name")
    String clientName;

    @SerializedName("ttl_ms")
    long ttlMs;

    @SerializedName("grace_ms")
    long graceMs;

    @SerializedName("connect_timeout_ms")
    long connectTimeoutMs;

    @SerializedName("backoff_min_ms")
    long backoffMinMs;

    @SerializedName("backoff_max_ms")
    long backoffMaxMs;

    Tls tls;

    @SerializedName("token_file")
    String tokenFile;

    /** Files of TLS. */
    static final class Tls {
        String ca;
        String cert;
        String key;

        @SerializedName("server_name")
        String serverName;
    }

    static Duration millis(long ms) {
        return Duration.ofMillis(ms);
    }

    byte[] bytes() {
        return value == null ? new byte[0] : value.getBytes(StandardCharsets.UTF_8);
    }

    private LockSpec spec(String name) {
        if (permits != null && limit != null) {
            return LockSpec.permits(name, permits, limit);
        }
        return "shared".equals(mode) ? LockSpec.shared(name) : LockSpec.exclusive(name);
    }

    /** Returns the request for one lock or for permits. */
    LockRequest one(Entry client, Actor by) {
        LockRequest asked = client.lock(names.get(0));
        if (permits != null && limit != null) {
            asked = client.semaphore(names.get(0), limit).permits(permits);
        } else if ("shared".equals(mode)) {
            asked = asked.shared();
        }
        asked = asked.value(bytes()).lockDelay(millis(lockDelayMs));
        if (waitMs != null) {
            asked = asked.waitAtMost(millis(waitMs));
        }
        if (by != null) {
            asked = asked.actor(by);
        }
        return reentrant ? asked.reentrant() : asked;
    }

    /** Returns the request for several locks. */
    MultiLockRequest several(Entry client, Actor by) {
        MultiLockRequest asked =
                client.locks(names.stream().map(this::spec).toList()).value(bytes()).lockDelay(millis(lockDelayMs));
        if (waitMs != null) {
            asked = asked.waitAtMost(millis(waitMs));
        }
        if (by != null) {
            asked = asked.actor(by);
        }
        return reentrant ? asked.reentrant() : asked;
    }

    Election candidate(Entry client) {
        Election asked = client.election(election).value(bytes());
        return waitMs == null ? asked : asked.waitAtMost(millis(waitMs));
    }
}
