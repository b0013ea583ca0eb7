package dev.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Applications that are terminated in the middle of their work under a lock of each adapter, with another client in all the queues: it has a
 * lock only after the work under it. {@code STOP_ROUNDS} is their number.
 */
class StopApplicationTest {
    private static final int ROUNDS = Integer.parseInt(System.getenv().getOrDefault("STOP_ROUNDS", "2"));

    @Test
    @Timeout(3600)
    void anApplicationThatIsTerminatedEndsItsWorkFirst(@TempDir Path folder) throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient other = LeaseholdClient.builder(coordinator.url())
                        .ttl(Duration.ofMinutes(1))
                        .connectTimeout(Duration.ofMinutes(1))
                        .connect()) {
            for (int round = 0; round < ROUNDS; round++) {
                try (Instance instance = new Instance(
                        StopApplication.class,
                        coordinator.url(),
                        "--folder=" + folder,
                        "--leasehold.ttl=1m",
                        "--leasehold.close-timeout=1m",
                        "--leasehold.connect-timeout=1m",
                        "--leasehold.leader.role=leader",
                        "--spring.task.scheduling.pool.size=4",
                        // Spring waits for so long before it interrupts the jobs.
                        "--spring.lifecycle.timeout-per-shutdown-phase=100ms")) {
                    instance.saysAll(StopApplication.LOCKS);
                    List<CompletableFuture<Hold>> waits = new ArrayList<>();
                    for (String lock : StopApplication.LOCKS) {
                        waits.add(other.lock(lock).acquireAsync());
                        while (other.admin().getLock(lock).waiterCount() == 0) {
                            Thread.sleep(2);
                        }
                    }
                    instance.signal("TERM");
                    for (int i = 0; i < waits.size(); i++) {
                        Hold hold = waits.get(i).get();
                        assertThat(folder.resolve(StopApplication.LOCKS[i])).doesNotExist();
                        hold.release();
                    }
                    assertThat(instance.exit()).isEqualTo(143);
                }
            }
        }
    }
}
