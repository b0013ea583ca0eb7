package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.leasehold.processes.Coordinator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/**
 * Calls of a program that passes anything at all, at random, beside one lock that must survive them. {@code HOSTILE_SEED} repeats a run, and
 * {@code HOSTILE_SECONDS} makes it longer.
 */
class HostileTest {
    /** TTL of the lock that is kept, and time to connect: a busy machine may stop this process and the coordinator for seconds. */
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final long SECONDS = Long.parseLong(System.getenv().getOrDefault("HOSTILE_SECONDS", "5"));
    private static final long SEED = Long.parseLong(System.getenv().getOrDefault("HOSTILE_SEED", "1"));
    private static final int FLOWS = 8;
    /** Calls that each flow makes at least, however busy the machine is. */
    private static final int LEAST = 5;
    /** Time after which a call hangs: far longer than any of them waits, since a busy machine lets them wait. */
    private static final long HANGS = 600;

    private static final String HUGE = "x".repeat(5 << 20);

    /** Arguments and calls of one flow, by its seed. */
    private static final class Flow {
        private final Random random;
        private final LeaseholdClient client;
        private final String url;

        Flow(long seed, LeaseholdClient client, String url) {
            this.random = new Random(seed);
            this.client = client;
            this.url = url;
        }

        @SafeVarargs
        private <T> T one(T... of) {
            return of[random.nextInt(of.length)];
        }

        private boolean isOften() {
            return random.nextInt(3) > 0;
        }

        private String text() {
            return one(null, "", "a", "\0", "a\u0085", "\ud800", "\udc00x", "x".repeat(513), "é".repeat(300), HUGE);
        }

        private String name() {
            return isOften() ? one("a", "b", "c", "d/é") : text();
        }

        private Duration time() {
            return one(
                    null,
                    Duration.ZERO,
                    Duration.ofNanos(1),
                    Duration.ofMillis(20),
                    Duration.ofSeconds(-1),
                    Duration.ofDays(2),
                    Duration.ofSeconds(Long.MAX_VALUE),
                    Duration.ofSeconds(Long.MIN_VALUE));
        }

        private int number() {
            return one(1, 2, 1, 2, 0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE, 1_000_001);
        }

        private byte[] value() {
            return one(null, new byte[0], new byte[16], new byte[4097], new byte[5 << 20]);
        }

        private LockSpec spec() {
            return one(
                    () -> LockSpec.exclusive(name()),
                    () -> LockSpec.shared(name()),
                    (java.util.function.Supplier<LockSpec>) () -> LockSpec.semaphore(name(), number()).permits(number()).atLeast(number()).limitRevision(number()))
                    .get();
        }

        private <R extends Request<R, G>, G> R settings(R request) {
            R made = request.waitAtMost(isOften() ? Duration.ofMillis(20) : time());
            return switch (random.nextInt(8)) {
                case 0 -> made.value(value());
                case 1 -> made.lockDelay(time());
                case 2 -> made.maxHold(time());
                case 3 -> made.actor(one(null, new Actor())).reentrant();
                case 4 -> made.reentrant();
                case 5 -> made.shared();
                default -> made;
            };
        }

        private LockRequest request() {
            return settings(isOften()
                    ? client.lock(name())
                    : one(client.semaphore("p", 2).limitRevision(number()).permits(number()), client.semaphore("p", 2).permitsBetween(number(), number())));
        }

        private void use(Hold hold) throws InterruptedException {
            try (hold) {
                switch (random.nextInt(6)) {
                    case 0 -> hold.setValue(value());
                    case 1 -> hold.keep(number());
                    case 2 -> hold.downgrade();
                    case 3 -> hold.onLost(null);
                    case 4 -> hold.release();
                    default -> hold.check();
                }
            }
        }

        private DetachedRequest detached() {
            DetachedRequest made = client.detachedLock(isOften() ? LockSpec.exclusive(name()) : spec());
            return switch (random.nextInt(6)) {
                case 0 -> made.ttl(time());
                case 1 -> made.waitAtMost(time());
                case 2 -> made.value(value());
                case 3 -> made.clientName(text());
                case 4 -> made.lockDelay(time());
                default -> made;
            };
        }

        /** Makes one call, and gives back what it brings. */
        void call() throws InterruptedException, ExecutionException {
            switch (random.nextInt(20)) {
                case 0 -> use(request().acquire());
                case 1 -> {
                    var tried = request().tryAcquire();
                    if (tried.isPresent()) {
                        use(tried.get());
                    }
                }
                case 2 -> request().run(isOften() ? hold -> hold.check() : null);
                case 3 -> request().callAsync(isOften() ? hold -> CompletableFuture.completedFuture(1) : null).get();
                case 4 -> use(request().acquireAsync().get());
                case 5 -> request().acquireAsync().cancel(true);
                case 6 -> settings(client.locks(one(null, new String[] {}, new String[] {"a", "b"}, new String[] {name(), name()}, new String[1001])))
                        .acquire()
                        .close();
                case 7 -> settings(client.locks(one(null, List.of(spec()), Collections.nCopies(1001, spec()), Arrays.asList(spec(), null))))
                        .acquire()
                        .close();
                case 8 -> {
                    try (Term term = client.election(name()).waitAtMost(isOften() ? Duration.ofMillis(20) : time()).campaign()) {
                        term.proclaim(value());
                    }
                }
                case 9 -> client.election(name()).leader();
                case 10 -> client.election(name()).observe(one(null, change -> {}), one(null, failure -> {})).close();
                case 11 -> {
                    DetachedLock lock = detached().acquire();
                    try {
                        lock.renew(isOften() ? Duration.ofSeconds(2) : time());
                    } finally {
                        lock.release();
                    }
                }
                case 12 -> client.attachDetachedLock(name(), number(), isOften() ? new byte[16] : value()).renew();
                case 13 -> client.admin().getLock(name());
                case 14 -> one(
                                () -> client.admin().forceRelease(name()),
                                () -> client.admin().forceReleaseHolder(name(), number()),
                                (Runnable) () -> client.admin().forceReleaseWaiter(name(), number()))
                        .run();
                case 15 -> client.admin().requestRelease(name(), isOften() ? "r" : text(), time());
                case 16 -> one(() -> client.admin().checkToken(name(), number()), (Runnable) () -> client.admin().endSession(text()))
                        .run();
                case 17 -> client.admin().listLocks(isOften() ? "" : text()).findFirst();
                case 18 -> client.admin().watch(isOften() ? "" : text(), one(null, item -> {}), one(null, failure -> {})).close();
                default -> other();
            }
        }

        /** Uses a client with hostile settings, and uses it after its end. */
        private void other() throws InterruptedException {
            LeaseholdClient.Builder builder = LeaseholdClient.builder(isOften() ? url : one(null, "", ",", "ftp://x", "http://", HUGE));
            switch (random.nextInt(9)) {
                case 0 -> builder.ttl(time());
                case 1 -> builder.grace(time());
                case 2 -> builder.clientName(text());
                case 3 -> builder.metadata(text(), text());
                case 4 -> builder.connectTimeout(time());
                case 5 -> builder.backoff(time(), time());
                case 6 -> builder.ca(one(null, Path.of("/none")));
                case 7 -> builder.token(text());
                default -> builder.propagation(carrier -> carrier.put(text(), text()));
            }
            LeaseholdClient made = builder.build();
            try (made) {
                if (isOften()) {
                    made.lock("e").tryAcquire().ifPresent(Hold::close);
                }
            }
            made.close();
            switch (random.nextInt(4)) {
                case 0 -> made.lock("a").acquire();
                case 1 -> made.admin().status();
                case 2 -> made.detachedLock(LockSpec.exclusive("a")).acquire();
                default -> made.election("a").campaign();
            }
        }
    }

    private static boolean isExpected(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        return cause instanceof LeaseholdException || cause instanceof IllegalArgumentException;
    }

    @Test
    void hostileCallsCostOnlyThemselves() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client =
                        LeaseholdClient.builder(coordinator.url()).ttl(PATIENCE).connectTimeout(PATIENCE).connect()) {
            Hold kept = client.lock("kept").acquire();
            AtomicReference<Throwable> fault = new AtomicReference<>();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
            List<Thread> flows = new java.util.ArrayList<>();
            for (int i = 0; i < FLOWS; i++) {
                Flow flow = new Flow(SEED * FLOWS + i, client, coordinator.url());
                Thread thread = new Thread(() -> {
                    for (int calls = 0; (System.nanoTime() < end || calls < LEAST) && fault.get() == null; calls++) {
                        try {
                            flow.call();
                        } catch (Throwable e) {
                            if (!isExpected(e)) {
                                fault.compareAndSet(null, e);
                            }
                        }
                        if (!kept.isHeld()) {
                            fault.compareAndSet(null, new AssertionError("the lock is not held: " + kept.lostReason()));
                        }
                    }
                });
                thread.start();
                flows.add(thread);
            }
            for (Thread flow : flows) {
                flow.join(TimeUnit.SECONDS.toMillis(SECONDS + HANGS));
                assertFalse(flow.isAlive(), () -> "a call hangs, seed " + SEED + ": " + Arrays.toString(flow.getStackTrace()));
            }
            assertNull(fault.get(), () -> "seed " + SEED + ": " + stack(fault.get()));
            assertEquals(kept.token(), client.admin().getLock("kept").holders().get(0).token());
            kept.release();
            client.close();
            for (Thread[] left = ours(); left.length > 0; left = ours()) {
                // A round of attempts to connect, or an observer, ends soon.
                left[0].join(TimeUnit.SECONDS.toMillis(HANGS));
                assertFalse(left[0].isAlive(), "a thread is left: " + left[0] + Arrays.toString(left[0].getStackTrace()));
            }
        }
    }

    private static String stack(Throwable thrown) {
        java.io.StringWriter text = new java.io.StringWriter();
        thrown.printStackTrace(new java.io.PrintWriter(text));
        return text.toString();
    }

    private static Thread[] ours() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("leasehold-") && !thread.getName().equals("leasehold-timer"))
                .toArray(Thread[]::new);
    }
}
