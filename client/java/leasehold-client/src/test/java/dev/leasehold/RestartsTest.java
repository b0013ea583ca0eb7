package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.leasehold.processes.Coordinator;
import dev.leasehold.processes.Redis;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Calls without a session while the coordinators of one name stop and are killed, one after the other. */
@Timeout(300)
class RestartsTest {
    private static final int THREADS = 10;
    /** Cycles of all threads between two ends of coordinators. */
    private static final int CYCLES = 100;

    @Test
    void eachCallIsMadeAtTheOtherAddressOfAName(@TempDir Path folder) throws Exception {
        try (Redis redis = Redis.start()) {
            Coordinator one = Coordinator.start("--store", redis.url());
            String port = one.address().split(":")[1];
            Coordinator two = Coordinator.start("--store", redis.url(), "--listen", "127.0.0.2:" + port);
            // A name that resolves to both, for that process. It has an underscore, which no host of a URI may have.
            Path hosts = Files.writeString(folder.resolve("hosts"), "127.0.0.1 lock_servers\n127.0.0.2 lock_servers\n");
            Process process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                            "-Djdk.net.hosts.file=" + hosts,
                            "-cp",
                            System.getProperty("java.class.path"),
                            Locker.class.getName(),
                            "http://lock_servers:" + port)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            try (BufferedReader told = process.inputReader()) {
                go(process, told);
                for (int round = 0; round < 3; round++) {
                    one.stop();
                    go(process, told);
                    one = Coordinator.start("--store", redis.url(), "--listen", "127.0.0.1:" + port);
                    two.close();
                    go(process, told);
                    two = Coordinator.start("--store", redis.url(), "--listen", "127.0.0.2:" + port);
                    one.close();
                    go(process, told);
                    one = Coordinator.start("--store", redis.url(), "--listen", "127.0.0.1:" + port);
                }
                process.getOutputStream().close();
                assertEquals("done", told.readLine());
                try (LeaseholdClient looks = LeaseholdClient.builder(one.url()).build()) {
                    for (int i = 0; i < THREADS; i++) {
                        assertEquals(0, looks.admin().getLock("n" + i).holders().size(), "n" + i + " stays locked");
                    }
                }
            } finally {
                process.destroyForcibly();
                one.close();
                two.close();
            }
        }
    }

    @Test
    void aCoordinatorThatStandsStillLeavesTimeForTheOther() throws Exception {
        try (Redis redis = Redis.start();
                Coordinator one = Coordinator.start("--store", redis.url());
                Coordinator two = Coordinator.start("--store", redis.url());
                LeaseholdClient client = LeaseholdClient.builder(one.url() + "," + two.url()).build()) {
            DetachedLock lock = client.detachedLock(LockSpec.exclusive("a")).ttl(Duration.ofSeconds(60)).acquire();
            // One of them has the connection.
            for (Coordinator each : List.of(one, two)) {
                each.signal("STOP");
                lock.renew();
                each.signal("CONT");
            }
            lock.release();
        }
    }

    /** Lets the locker go on for some cycles. */
    private static void go(Process process, BufferedReader told) throws Exception {
        process.getOutputStream().write('\n');
        process.getOutputStream().flush();
        assertEquals("ok", told.readLine());
    }

    /** Program that takes locks and releases them, and prints after some cycles of each line of its input whether a call has failed. */
    static final class Locker {
        private Locker() {}

        /** Locks and unlocks until the end of its input. */
        public static void main(String[] arguments) throws Exception {
            BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
            AtomicInteger cycles = new AtomicInteger();
            AtomicInteger running = new AtomicInteger(THREADS);
            ConcurrentLinkedQueue<Exception> failures = new ConcurrentLinkedQueue<>();
            AtomicBoolean isOver = new AtomicBoolean();
            try (LeaseholdClient client = LeaseholdClient.builder(arguments[0]).build()) {
                for (int i = 0; i < THREADS; i++) {
                    DetachedRequest request = client.detachedLock(LockSpec.exclusive("n" + i)).ttl(Duration.ofSeconds(60));
                    new Thread(() -> {
                                while (!isOver.get()) {
                                    try {
                                        DetachedLock lock = request.acquire();
                                        lock.renew();
                                        lock.release();
                                    } catch (Exception e) {
                                        failures.add(e);
                                    }
                                    cycles.incrementAndGet();
                                }
                                running.decrementAndGet();
                            })
                            .start();
                }
                while (asked.readLine() != null) {
                    for (int end = cycles.get() + CYCLES; cycles.get() < end; ) {
                        Thread.sleep(5);
                    }
                    System.out.println(failures.isEmpty() ? "ok" : failures.size() + " of " + cycles + " failed: " + failures.peek());
                }
                isOver.set(true);
                while (running.get() > 0) {
                    Thread.sleep(5);
                }
            }
            System.out.println("done");
        }
    }
}
