package dev.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.io.IOException;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Two instances of an application, of which one leads; a leader that is killed, stopped, cut off or shut down is replaced. */
class LeaderApplicationTest {
    private static Instance instance(String endpoints) throws IOException {
        return new Instance(LeaderApplication.class, endpoints, "--leasehold.ttl=5s", "--leasehold.leader.role=scheduler");
    }

    @Test
    @Timeout(300)
    void aLeaderIsReplaced() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                Link link = new Link(coordinator.url());
                Instance first = instance(link.url())) {
            first.saysAll("ready", "granted");
            try (Instance second = instance(coordinator.url())) {
                second.says("ready");

                link.cut(true);
                assertThat(first.says("revoked")).as("it noticed before another one was elected").isLessThan(second.says("granted"));
                link.cut(false);

                // By now it waits again, or will before this one's lease has run out.
                second.signal("STOP");
                first.says("granted");
                second.signal("CONT");
                second.says("revoked");

                first.signal("KILL");
                second.says("granted");
                try (Instance third = instance(coordinator.url())) {
                    third.says("ready");
                    second.signal("TERM");
                    assertThat(second.says("revoked")).isLessThan(third.says("granted"));
                }
            }
            // What was killed left nothing behind.
            try (LeaseholdClient client = LeaseholdClient.connect(coordinator.url())) {
                client.lock("scheduler").acquire(Duration.ofMinutes(1)).release();
            }
        }
    }
}
