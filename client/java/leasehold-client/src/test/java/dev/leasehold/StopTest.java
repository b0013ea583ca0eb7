package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.leasehold.processes.Coordinator;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Programs that are stopped in the middle of their work, with another client in the queue: never are two inside. */
@Timeout(600)
class StopTest {
    private static final int ROUNDS = Integer.parseInt(System.getenv().getOrDefault("STOP_ROUNDS", "3"));

    /** Program that works under a lock until SIGTERM, as the README shows; its arguments are a URL, and a file that is there while it works. */
    static final class Program {
        public static void main(String[] arguments) throws Exception {
            LeaseholdClient client = LeaseholdClient.builder(arguments[0]).connectTimeout(Duration.ofSeconds(60)).connect();
            Runtime.getRuntime().addShutdownHook(new Thread(client::close));
            try {
                while (true) {
                    client.lock("job").run(hold -> work(Path.of(arguments[1])));
                }
            } catch (LeaseholdException e) {
                assertEquals(ErrorKind.CLOSED, e.kind());
            }
        }
    }

    /** Work that needs a while to end when it is interrupted. */
    private static void work(Path inside) throws Exception {
        Files.createFile(inside);
        System.out.println("inside");
        try {
            Thread.sleep(60_000);
        } catch (InterruptedException e) {
            Thread.sleep(50);
        }
        Files.delete(inside);
    }

    private static void isFree(Path inside) throws IOException {
        Files.createFile(inside);
        Files.delete(inside);
    }

    @Test
    void aProgramThatIsTerminatedEndsItsWorkFirst(@TempDir Path folder) throws Exception {
        Path inside = folder.resolve("inside");
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient other = LeaseholdClient.connect(coordinator.url())) {
            for (int round = 0; round < ROUNDS; round++) {
                Process program = new ProcessBuilder(
                                java, "-cp", System.getProperty("java.class.path"), Program.class.getName(), coordinator.url(), inside.toString())
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
                BufferedReader lines = program.inputReader();
                assertEquals("inside", lines.readLine());
                CompletableFuture<Hold> next = other.lock("job").acquireAsync();
                while (other.admin().getLock("job").waiterCount() == 0) {
                    Thread.sleep(2);
                }
                program.destroy();
                Hold hold = next.get();
                isFree(inside);
                hold.release();
                assertEquals(143, program.waitFor());
            }
        }
    }

    @Test
    void aHundredClosesHandTheLockOnWhenTheWorkHasEnded(@TempDir Path folder) throws Exception {
        Path inside = folder.resolve("inside");
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient other = LeaseholdClient.connect(coordinator.url())) {
            for (int round = 0; round < 100; round++) {
                LeaseholdClient client =
                        LeaseholdClient.builder(coordinator.url()).connectTimeout(Duration.ofSeconds(60)).build();
                CountDownLatch begun = new CountDownLatch(1);
                Thread worker = new Thread(() -> {
                    try {
                        client.lock("job").run(hold -> {
                            Files.createFile(inside);
                            begun.countDown();
                            try {
                                Thread.sleep(60_000);
                            } catch (InterruptedException e) {
                                Thread.sleep(2);
                            }
                            Files.delete(inside);
                        });
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                });
                worker.start();
                begun.await();
                CompletableFuture<Hold> next = other.lock("job").acquireAsync();
                // Some closes come before the other client is in the queue.
                while (round % 4 != 0 && other.admin().getLock("job").waiterCount() == 0) {
                    Thread.sleep(1);
                }
                client.close();
                Hold hold = next.get();
                isFree(inside);
                hold.release();
                worker.join();
            }
        }
    }
}
