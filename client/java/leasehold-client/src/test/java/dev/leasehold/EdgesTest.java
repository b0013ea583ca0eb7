package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.testing.Coordinator;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What programs do at the edges: detached locks, futures that they complete themselves, work that fails, against a coordinator. */
@Timeout(30)
class EdgesTest {
    @Test
    void aLockThatWasWaitedForIsHeldForAWholeTtl() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            Hold first = client.lock("a").acquire();
            DetachedRequest request = client.detachedLock(LockSpec.exclusive("a"));
            DetachedRequest patient = request.ttl(Duration.ofSeconds(2)).waitAtMost(Duration.ofSeconds(20));
            CompletableFuture<DetachedLock> waits = CompletableFuture.supplyAsync(patient::acquire);
            // Longer than the TTL.
            Thread.sleep(2500);
            first.release();
            DetachedLock lock = waits.join();
            assertTrue(lock.validFor().compareTo(Duration.ofSeconds(1)) > 0, () -> "valid for " + lock.validFor());
            lock.release();
        }
    }

    @Test
    void aLockIsAcquiredWhereThePermissionsBoundHolds(@TempDir Path folder) throws Exception {
        String token = "lh_" + "A".repeat(43);
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(token.getBytes(StandardCharsets.US_ASCII));
        Path tokens = Files.writeString(folder.resolve("tokens"), "ci sha256:" + HexFormat.of().formatHex(hash) + "\n");
        List<String> lines = List.of(
                "token-file = \"" + tokens + "\"",
                "[[permission]]",
                "identities = [\"token:*\"]",
                "allow = [\"acquire\"]",
                "locks = [\"\"]",
                "max-hold = \"5s\"");
        Path file = Files.write(folder.resolve("leasehold.toml"), lines);
        try (Coordinator coordinator = Coordinator.start("--config", file.toString());
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).token(token).connect()) {
            DetachedLock lock = client.detachedLock(LockSpec.exclusive("a")).acquire();
            assertTrue(lock.isHeld() && lock.validFor().compareTo(Duration.ofSeconds(5)) <= 0);
            lock.release();
        }
    }

    @Test
    void aLeaderThatLosesAnotherLockEndsWithThat() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            LockLostException lost = assertThrows(LockLostException.class, () -> client.election("a").run(term -> {
                Hold other = client.lock("b").acquire();
                client.admin().forceRelease("b");
                while (other.isHeld()) {
                    Thread.sleep(10);
                }
                other.check();
            }));
            assertEquals("b", lost.name());
        }
    }

    @Test
    void aFutureThatTheProgramCompletesGivesItsLockBack() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            Hold first = client.lock("a").acquire();
            CompletableFuture<Hold> waits = client.lock("a").acquireAsync();
            while (client.admin().getLock("a").waiterCount() == 0) {
                Thread.sleep(10);
            }
            waits.complete(null);
            first.release();
            client.lock("a").waitAtMost(Duration.ofSeconds(20)).acquire().release();
            // Neither does it campaign for an election.
            assertTrue(client.election("b").campaignAsync().complete(null));
            client.election("b").campaign().resign();
        }
    }

    @Test
    void workThatReturnsNoStageGivesItsLockBack() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            for (boolean throwsError : new boolean[] {false, true}) {
                CompletableFuture<Object> ran = client.lock("a").callAsync(hold -> {
                    if (throwsError) {
                        throw new AssertionError("broken");
                    }
                    return null;
                });
                assertThrows(ExecutionException.class, () -> ran.get(10, TimeUnit.SECONDS));
                client.lock("a").waitAtMost(Duration.ofSeconds(20)).acquire().release();
            }
        }
    }

    @Test
    void anExecutorThatTakesNothingOrRunsAtOnceCostsNoLock() throws Exception {
        List<Executor> executors = List.of(Runnable::run, task -> {
            throw new RejectedExecutionException("full");
        });
        for (Executor executor : executors) {
            try (Coordinator coordinator = Coordinator.start()) {
                CompletableFuture<LostReason> lost = new CompletableFuture<>();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).executor(executor).connect();
                client.lock("a").acquire().onLost(lost::complete);
                // What follows may run where the grant arrives, and asks the same session.
                CompletableFuture<Hold> second = client.lock("b")
                        .acquireAsync()
                        .thenCompose(hold -> hold.releaseAsync())
                        .thenCompose(none -> client.lock("c").acquireAsync());
                second.get(10, TimeUnit.SECONDS).release();
                client.close();
                assertEquals(LostReason.SESSION_CLOSED, lost.get(10, TimeUnit.SECONDS));
                try (LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
                    other.lock("a").waitAtMost(Duration.ofSeconds(10)).acquire().release();
                }
            }
        }
    }
}
