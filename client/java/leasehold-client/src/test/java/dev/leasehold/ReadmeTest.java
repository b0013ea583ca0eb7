package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.micrometer.MicrometerMetrics;
import dev.leasehold.opentelemetry.LeaseholdOpenTelemetry;
import dev.leasehold.testing.TestCoordinator;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.opentelemetry.api.OpenTelemetry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Examples of the README: compiled here, and compared with it. Whole programs are run by {@code client/java/check readme} instead. */
class ReadmeTest {
    private static final List<String> rows = List.of("one", "two");
    private static final MeterRegistry registry = new SimpleMeterRegistry();
    private static final OpenTelemetry telemetry = OpenTelemetry.noop();

    private interface Examples {
        void run() throws Exception;
    }

    /** Examples in the order of the README; none is run. */
    private static final List<Examples> EXAMPLES = List.of(
            () -> {
                LeaseholdClient client = LeaseholdClient.connect("http://127.0.0.1:7420"); // or several, with commas in between
                client.lock("orders/42").run(hold -> work(hold.token())); // the thread is interrupted if the lock is lost
                try (Hold hold = client.lock("orders/42").acquire(Duration.ofSeconds(5))) {
                    for (String row : rows) {
                        hold.check(); // reads the clock
                        write(row, hold.token());
                    }
                }
                Optional<Hold> free = client.lock("orders/42").tryAcquire();
                free.ifPresent(Hold::release);
                boolean ran = client.lock("report").tryRun(hold -> work(hold.token()));
                show(ran);
                client.semaphore("api", 10).permits(2).run(hold -> call());
                client.locks(List.of(LockSpec.exclusive("a"), LockSpec.shared("b"), LockSpec.semaphore("c", 10).permits(2))).run(holds -> show(holds));
                client.election("scheduler").value("10.0.0.7").run(term -> lead(term));
                try (Observer observer = client.election("scheduler").observe(change -> show(change.leader()), failure -> show(failure))) {
                    work(0);
                }
                CompletableFuture<String> result = client.lock("orders/42").callAsync(hold -> workLater(hold.token()));
                show(result);
                LockRequest reentrant = client.lock("orders/42").reentrant();
                reentrant.run(outer -> reentrant.run(inner -> work(inner.token())));
                LeaseholdLock orders = client.lock("orders/42").asLock(); // keep it, and share it between threads
                orders.lock();
                try {
                    work(orders.hold().token());
                } finally {
                    orders.unlock();
                }
                Optional<DetachedLock> detached = client.detachedLock("import").ttl(Duration.ofMinutes(10)).value("job 7").tryAcquire();
                show(detached);
                Runtime.getRuntime().addShutdownHook(new Thread(client::close));
                Admin admin = client.admin();
                admin.listLocks("orders/").forEach(lock -> show(lock.holders()));
                admin.requestRelease("orders/42", "maintenance", Duration.ofMinutes(1)); // asks; holders may heed it
                admin.forceRelease("orders/42"); // takes it from them
                try (Hold asked = client.lock("orders/42").acquire()) {
                    asked.onReleaseRequest(request -> show(request.reason())); // or asked.awaitReleaseRequest()
                }
                try (Watcher watcher = client.admin().watch("orders/", item -> show(item), failure -> show(failure))) {
                    work(0);
                }
                LeaseholdClient measured = LeaseholdClient.builder("http://127.0.0.1:7420").metrics(new MicrometerMetrics(registry)).build();
                LeaseholdClient traced = LeaseholdOpenTelemetry.instrument(LeaseholdClient.builder("http://127.0.0.1:7420"), telemetry).build();
                show(List.of(measured, traced));
            });

    @Test
    void theUnitTestOfTheReadmePasses() throws Exception {
        try (TestCoordinator coordinator = TestCoordinator.start(); LeaseholdClient tested = LeaseholdClient.connect(coordinator.url())) {
            assertThrows(LockLostException.class, () -> tested.lock("report").run(hold -> {
                coordinator.lose("report");
                Thread.sleep(60_000); // interrupted by the loss
            }));
            assertEquals(List.of(), coordinator.holders("report"));
        }
    }

    private static void work(long token) {}

    private static void write(String row, long token) {}

    private static void call() {}

    private static void lead(Term term) {}

    private static void show(Object what) {}

    private static CompletableFuture<String> workLater(long token) {
        return CompletableFuture.completedFuture("done");
    }

    private static String squeezed(String code) {
        return code.replaceAll("\\s+", " ");
    }

    @Test
    void everyExampleOfTheReadmeIsCompiled() throws IOException {
        String source = squeezed(Files.readString(Path.of("src/test/java/dev/leasehold/ReadmeTest.java")));
        String readme = Files.readString(Path.of("../README.md"));
        Matcher blocks = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(readme);
        int found = 0;
        while (blocks.find()) {
            if (blocks.group(1).startsWith("package ")) {
                continue;
            }
            found++;
            assertTrue(source.contains(squeezed(blocks.group(1)).trim()), "not compiled: " + blocks.group(1));
        }
        assertTrue(found >= 10 && !EXAMPLES.isEmpty());
    }
}
