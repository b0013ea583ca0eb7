package dev.leasehold.conformance;

import dev.leasehold.Actor;
import dev.leasehold.Election;
import dev.leasehold.Entry;
import dev.leasehold.LockRequest;
import dev.leasehold.LockSpec;
import dev.leasehold.MultiLockRequest;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** One line of the runner, whose names have underscores. */
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
    Long waitMs;
    long lockDelayMs;
    String actor;
    boolean reentrant;
    long cleanupMs;
    String failWith;
    List<String> endpoints;
    String clientName;
    long ttlMs;
    long graceMs;
    long connectTimeoutMs;
    long backoffMinMs;
    long backoffMaxMs;
    Tls tls;
    String tokenFile;

    /** Files of TLS. */
    static final class Tls {
        String ca;
        String cert;
        String key;
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
            return LockSpec.semaphore(name, limit).permits(permits);
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
        return settings(asked, by);
    }

    /** Returns the request for several locks. */
    MultiLockRequest several(Entry client, Actor by) {
        return settings(client.locks(names.stream().map(this::spec).toList()), by);
    }

    private <R extends dev.leasehold.Request<R, G>, G> R settings(R request, Actor by) {
        R asked = request.value(bytes()).lockDelay(millis(lockDelayMs));
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
