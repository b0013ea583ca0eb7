package dev.leasehold.conformance;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.LockRequest;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;

/**
 * One cycle of a thread of the torture client, with the locks, times and frequencies of the Rust client's ({@code
 * tests/torture/src/locks.rs}). Times are in milliseconds.
 *
 * @param permits number of permits; 0 unless the mode is {@code permits}
 * @param longestWait longest wait; null for no bound
 * @param giveUp time after which the client gives up by itself; 0 if it does not
 */
record Cycle(String lock, String mode, int permits, Long longestWait, long giveUp, long lockDelay, long hold, long pause) {
    /** Number of permits of each semaphore. */
    private static final int LIMIT = 4;

    /** Returns the first cycle of a client, for a lock of its own: the time that loading and connecting take is no time in a queue. */
    static Cycle first(String client) {
        return new Cycle("torture/first/" + client, "exclusive", 0, null, 0, 0, 0, 0);
    }

    /** Draws a cycle. A quorum has exclusive locks alone. */
    static Cycle draw(SplittableRandom random, boolean isQuorum) {
        String mode = "exclusive";
        int permits = 0;
        String lock;
        int kind = random.nextInt(isQuorum ? 5 : 11);
        if (kind < 5) {
            lock = "torture/exclusive/" + random.nextInt(4);
        } else if (kind < 8) {
            lock = "torture/mixed/" + random.nextInt(2);
            mode = random.nextInt(10) < 7 ? "shared" : mode;
        } else if (kind == 10) {
            lock = "torture/beside/" + random.nextInt(2);
        } else {
            lock = "torture/permits/" + random.nextInt(2);
            mode = "permits";
            permits = random.nextInt(1, LIMIT);
        }
        int waits = random.nextInt(10);
        return new Cycle(
                lock,
                mode,
                permits,
                waits == 0 ? Long.valueOf(0) : waits < 4 ? Long.valueOf(random.nextLong(50, 20_000)) : null,
                random.nextInt(20) == 0 ? random.nextLong(1, 3000) : 0,
                random.nextInt(10) == 0 ? random.nextLong(100, 500) : 0,
                random.nextInt(20) == 0 ? random.nextLong(1000, 6000) : random.nextLong(1, 300),
                random.nextLong(200));
    }

    LockRequest request(LeaseholdClient client) {
        LockRequest request = client.lock(lock);
        if (mode.equals("permits")) {
            request = client.semaphore(lock, LIMIT).permits(permits);
        } else if (mode.equals("shared")) {
            request = request.shared();
        }
        if (longestWait != null) {
            request = request.waitAtMost(Duration.ofMillis(longestWait));
        }
        return request.lockDelay(Duration.ofMillis(lockDelay));
    }

    /** Returns the fields of the line that says that the client is about to ask. */
    Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("lock", lock);
        fields.put("mode", mode);
        if (permits > 0) {
            fields.put("permits", permits);
            fields.put("limit", LIMIT);
        }
        if (longestWait != null) {
            fields.put("wait", TimeUnit.MILLISECONDS.toMicros(longestWait));
        }
        return fields;
    }

    /** Returns whether a register belongs to the lock: if it is only ever held exclusively. */
    boolean hasRegister() {
        return lock.startsWith("torture/exclusive/");
    }
}
