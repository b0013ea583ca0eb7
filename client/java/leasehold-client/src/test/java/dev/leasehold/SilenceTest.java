package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Silence of a connection or a process, for less than the TTL. It lasts for longer than probes of HTTP/2, and runs beside other tests. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(300)
class SilenceTest {
    private static final Duration SILENCE = Duration.ofSeconds(25);
    private static final Duration STOP = Duration.ofSeconds(15);

    @Test
    void aSilentConnectionCostsNoLock() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                Relay relay = new Relay();
                LeaseholdClient client = LeaseholdClient.builder(relay.to(coordinator.address()))
                        .ttl(Duration.ofSeconds(45))
                        .connect();
                LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
            Hold hold = client.lock("a").acquire();
            long token = hold.token();
            var rival = other.lock("a").acquireAsync();
            relay.fallSilent();
            for (long end = System.nanoTime() + SILENCE.toNanos(); System.nanoTime() < end; ) {
                hold.check();
                Thread.sleep(50);
            }
            relay.speak();
            // It is renewed when answers come again.
            for (Duration left = hold.validFor(); hold.validFor().compareTo(left) <= 0; ) {
                hold.check();
                Thread.sleep(50);
            }
            assertEquals(token, hold.token());
            assertEquals(token, client.admin().getLock("a").holders().get(0).token());
            assertTrue(!rival.isDone(), "another client has the lock");
            hold.release();
            rival.get().release();
        }
    }

    @Test
    void aStoppedProcessLosesNoLock() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            String classes = System.getProperty("java.class.path");
            Process process = new ProcessBuilder(java, "-cp", classes, Holder.class.getName(), coordinator.url())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            try (BufferedReader told = process.inputReader()) {
                String token = told.readLine();
                var rival = other.lock("a").acquireAsync();
                signal(process, "STOP");
                Thread.sleep(STOP.toMillis());
                signal(process, "CONT");
                process.getOutputStream().write('\n');
                process.getOutputStream().flush();
                assertEquals("held " + token, told.readLine());
                assertTrue(!rival.isDone(), "another client has the lock");
                process.getOutputStream().close();
                rival.get().release();
            } finally {
                process.destroyForcibly();
            }
        }
    }

    private static void signal(Process process, String signal) throws IOException, InterruptedException {
        List<String> kill = List.of("kill", "-" + signal, Long.toString(process.pid()));
        assertEquals(0, new ProcessBuilder(kill).start().waitFor());
    }

    /** Process that holds a lock, and says by its renewal whether it does. */
    static final class Holder {
        private Holder() {}

        /** Prints the token, waits for a line, and prints what it has then. */
        public static void main(String[] arguments) throws Exception {
            BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
            try (LeaseholdClient client =
                            LeaseholdClient.builder(arguments[0]).ttl(Duration.ofSeconds(60)).connect();
                    Hold hold = client.lock("a").acquire()) {
                System.out.println(hold.token());
                asked.readLine();
                hold.check();
                // The coordinator answers this only if the hold is there.
                hold.setValue(new byte[] {1});
                System.out.println("held " + hold.token());
                asked.readLine();
            }
        }
    }
}
