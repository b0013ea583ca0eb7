package dev.leasehold.benchmark;

import dev.leasehold.AcquireException;
import dev.leasehold.ErrorKind;
import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Measures this library, and Redisson beside it, for the benchmark "libraries" of the repository.
 *
 * <pre>Benchmark LIBRARY WORK ENDPOINT CLIENTS SECONDS</pre>
 *
 * <p>LIBRARY is leasehold, redisson or redisson-fair; ENDPOINT is the URL of what it talks to. With the WORK cycles, each of the CLIENTS
 * threads acquires and releases a lock of its own; with handoff, all want one lock. They share one client. After half a second of warm-up
 * it measures for so many SECONDS, and prints one JSON array: the times of all cycles in microseconds, or [token, granted, releasing] of
 * each hold, in microseconds of CLOCK_MONOTONIC.
 */
public final class Benchmark {
    /** In microseconds. */
    private static final long WARM_UP = 500_000;
    /** Longer than any run, so that no renewal is among what is measured. */
    private static final Duration TTL = Duration.ofSeconds(300);

    private Benchmark() {}

    /** Lock that is held. */
    private interface Held {
        long token();

        void release();
    }

    /** Library that is measured. */
    private interface Library {
        /** Acquires a lock, within this time if there is one. Returns null if the time has passed. */
        Held acquire(String name, Duration wait) throws InterruptedException;
    }

    private record LeaseholdHeld(Hold hold) implements Held {
        @Override
        public long token() {
            return hold.token();
        }

        @Override
        public void release() {
            hold.release();
        }
    }

    private record RedissonHeld(RLock lock) implements Held {
        @Override
        public long token() {
            return 0;
        }

        @Override
        public void release() {
            lock.unlock();
        }
    }

    /** Measures, and prints the result. */
    public static void main(String[] arguments) throws InterruptedException, ExecutionException {
        String endpoint = arguments[2];
        Library library = arguments[0].equals("leasehold") ? leasehold(endpoint) : redisson(endpoint, arguments[0].equals("redisson-fair"));
        int clients = Integer.parseInt(arguments[3]);
        long from = now() + WARM_UP;
        long until = from + (long) (Double.parseDouble(arguments[4]) * 1e6);
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        List<Future<List<String>>> parts = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            String own = "bench/" + ProcessHandle.current().pid() + "/" + client;
            parts.add(threads.submit(
                    () -> arguments[1].equals("cycles") ? cycles(library, own, from, until) : handOffs(library, from, until)));
        }
        StringJoiner all = new StringJoiner(",", "[", "]");
        for (Future<List<String>> part : parts) {
            part.get().forEach(all::add);
        }
        System.out.println(all);
        System.out.flush();
        // Threads of the libraries are left.
        Runtime.getRuntime().halt(0);
    }

    private static Library leasehold(String endpoint) throws InterruptedException {
        LeaseholdClient client = LeaseholdClient.builder(endpoint).ttl(TTL).connect();
        return (name, wait) -> {
            try {
                return new LeaseholdHeld(wait == null ? client.lock(name).acquire() : client.lock(name).acquire(wait));
            } catch (AcquireException e) {
                if (e.kind() == ErrorKind.TIMED_OUT) {
                    return null;
                }
                throw e;
            }
        };
    }

    private static Library redisson(String endpoint, boolean isFair) {
        Config config = new Config();
        config.useSingleServer().setAddress(endpoint);
        RedissonClient client = Redisson.create(config);
        return (name, wait) -> {
            RLock lock = isFair ? client.getFairLock(name) : client.getLock(name);
            lock.lock(TTL.toSeconds(), TimeUnit.SECONDS);
            return new RedissonHeld(lock);
        };
    }

    /** Measures acquires with their releases on a lock of its own. Returns their times. */
    private static List<String> cycles(Library library, String name, long from, long until) throws InterruptedException {
        List<String> times = new ArrayList<>();
        while (true) {
            long began = now();
            library.acquire(name, null).release();
            long ended = now();
            if (ended >= until) {
                return times;
            }
            if (ended >= from) {
                times.add(Long.toString(ended - began));
            }
        }
    }

    /** Wants one lock with the others. Returns the token of each hold, when it was granted, and when its release began. */
    private static List<String> handOffs(Library library, long from, long until) throws InterruptedException {
        List<String> holds = new ArrayList<>();
        for (long left = until - now(); left > 0; left = until - now()) {
            Held held = library.acquire("bench/contended", Duration.ofMillis(left / 1000 + 1));
            if (held == null) {
                break;
            }
            long granted = now();
            held.release();
            if (granted >= from) {
                holds.add("[%d,%d,%d]".formatted(held.token(), granted, granted));
            }
        }
        return holds;
    }

    /** Returns the time in microseconds on the clock that all processes of the machine share. */
    private static long now() {
        return System.nanoTime() / 1000;
    }
}
