package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.internal.BootClock;
import dev.leasehold.processes.Coordinator;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Isolated;

/** What programs do at the edges: detached locks, futures that they complete themselves, work that fails, against a coordinator. */
@Isolated("it changes the clock of the process")
@Timeout(300)
class EdgesTest {
    @Test
    void aLockThatWasWaitedForIsHeldForAWholeTtl() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).ttl(Duration.ofHours(1)).connect()) {
            Hold first = client.lock("a").acquire();
            DetachedRequest patient = client.detachedLock("a").ttl(Duration.ofMinutes(5)).waitAtMost(Duration.ofHours(1));
            FutureTask<DetachedLock> waits = new FutureTask<>(patient::acquire);
            new Thread(waits).start();
            while (client.admin().getLock("a").waiterCount() == 0) {
                Thread.sleep(5);
            }
            // For its clock, it waits for longer than the TTL.
            long waited = TimeUnit.MINUTES.toNanos(10);
            BootClock.skew(waited);
            try {
                first.release();
                DetachedLock lock = waits.get();
                assertTrue(lock.validFor().compareTo(Duration.ofMinutes(1)) > 0, () -> "valid for " + lock.validFor());
                lock.release();
            } finally {
                BootClock.skew(-waited);
            }
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
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect();
                LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
            Hold first = client.lock("a").acquire();
            CompletableFuture<Hold> waits = client.lock("a").acquireAsync();
            while (client.admin().getLock("a").waiterCount() == 0) {
                Thread.sleep(10);
            }
            waits.complete(null);
            first.release();
            client.lock("a").waitAtMost(Duration.ofMinutes(1)).acquire().release();
            // Neither does it campaign for an election.
            Term leads = other.election("b").campaign();
            assertTrue(client.election("b").campaignAsync().complete(null));
            leads.resign();
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
                assertThrows(ExecutionException.class, () -> ran.get(60, TimeUnit.SECONDS));
                client.lock("a").waitAtMost(Duration.ofMinutes(1)).acquire().release();
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
                BlockingQueue<LostReason> failed = new LinkedBlockingQueue<>();
                Hold first = client.lock("a").acquire();
                first.onLost(reason -> {
                    failed.add(reason);
                    throw new IllegalStateException("a listener fails");
                });
                first.onLost(lost::complete);
                // What follows may run where the grant arrives, and asks the same session.
                CompletableFuture<Hold> second = client.lock("b")
                        .acquireAsync()
                        .thenCompose(hold -> hold.releaseAsync())
                        .thenCompose(none -> client.lock("c").acquireAsync());
                second.get(60, TimeUnit.SECONDS).release();
                client.close();
                assertEquals(LostReason.SESSION_CLOSED, lost.get(60, TimeUnit.SECONDS));
                assertEquals(LostReason.SESSION_CLOSED, failed.poll(60, TimeUnit.SECONDS));
                try (LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
                    other.lock("a").waitAtMost(Duration.ofMinutes(1)).acquire().release();
                }
                assertNull(failed.poll(), "a listener that failed is not called again");
            }
        }
    }

    @Test
    void workInAnotherLearnsOfItsOwnLoss() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            LockLostException lost = assertThrows(LockLostException.class, () -> client.lock("outer").call(outer -> {
                assertThrows(LockLostException.class, () -> client.lock("inner").call(inner -> {
                    force(client, "inner");
                    assertThrows(InterruptedException.class, () -> Thread.sleep(60_000));
                    // The thread is interrupted for both, and has noticed one.
                    force(client, "outer");
                    while (outer.isHeld()) {
                        Thread.onSpinWait();
                    }
                    return null;
                }));
                assertThrows(InterruptedException.class, () -> Thread.sleep(60_000));
                return null;
            }));
            assertEquals("outer", lost.name());
            // What the work throws besides.
            assertEquals(List.of(), List.of(lost.getSuppressed()));
            assertFalse(Thread.interrupted());
            // The loss of one alone is over with it.
            client.lock("outer").call(outer -> {
                assertThrows(LockLostException.class, () -> client.lock("inner").call(inner -> {
                    force(client, "inner");
                    Thread.sleep(60_000);
                    return null;
                }));
                assertFalse(Thread.currentThread().isInterrupted());
                return null;
            });
        }
    }

    /** Takes a lock from its holder in another thread: the loss may interrupt this one before the operator has an answer. */
    private static void force(LeaseholdClient client, String name) {
        CompletableFuture.runAsync(() -> client.admin().forceRelease(name)).join();
    }

    @Test
    void anInterruptThatComesBesideALossIsKept() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            assertThrows(LockLostException.class, () -> client.lock("a").call(hold -> {
                // Called after the work was interrupted for the loss, too.
                CompletableFuture<LostReason> lost = new CompletableFuture<>();
                hold.onLost(lost::complete);
                Thread.currentThread().interrupt();
                CompletableFuture.runAsync(() -> client.admin().forceRelease("a"));
                // To wait for it would hide the interrupt meanwhile.
                while (!lost.isDone()) {
                    Thread.onSpinWait();
                }
                Thread.sleep(60_000);
                return null;
            }));
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void workThatFailsIsNotAskedToStop() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).executor(Runnable::run).connect()) {
            AtomicBoolean stops = new AtomicBoolean();
            CompletableFuture<Void> campaign = client.election("a").runAsync(term -> {
                term.onStop(() -> stops.set(true));
                return CompletableFuture.failedFuture(new IllegalStateException("broken on purpose"));
            });
            assertThrows(ExecutionException.class, () -> campaign.get(60, TimeUnit.SECONDS));
            assertFalse(stops.get());
        }
    }

    @Test
    void aListenerIsNotCalledAfterTheEnd() throws Exception {
        ExecutorService one = Executors.newSingleThreadExecutor();
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).executor(one).connect()) {
            BlockingQueue<LeaderChange> changes = new LinkedBlockingQueue<>();
            CompletableFuture<Void> busy = new CompletableFuture<>();
            try (Observer observer = client.election("a").observe(changes::add, failure -> {})) {
                assertTrue(changes.poll(60, TimeUnit.SECONDS).leader().isEmpty());
                one.execute(busy::join);
                // What it is told waits behind the task, for which nothing but time can be waited.
                client.election("a").campaign().resign();
                Thread.sleep(200);
            }
            busy.complete(null);
            one.submit(() -> {}).get(60, TimeUnit.SECONDS);
            assertTrue(changes.isEmpty());
        } finally {
            one.shutdownNow();
        }
    }

    @Test
    void listenersThatFailAreToldTheNextEventAndKeepNoThread() throws Exception {
        ExecutorService one = Executors.newSingleThreadExecutor();
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).executor(one).connect()) {
            BlockingQueue<LeaderChange> changes = new LinkedBlockingQueue<>();
            BlockingQueue<WatchItem> items = new LinkedBlockingQueue<>();
            Consumer<LeaseholdException> failed = failure -> {};
            try (Observer observer = client.election("a").observe(change -> fail(changes, change), failed);
                    Watcher watcher = client.admin().watch("b", item -> fail(items, item), failed)) {
                assertTrue(changes.poll(60, TimeUnit.SECONDS).leader().isEmpty());
                // The executor's one thread is free, although both go on.
                client.election("a").campaignAsync().get(60, TimeUnit.SECONDS);
                assertTrue(changes.poll(60, TimeUnit.SECONDS).leader().isPresent());
                client.lock("b").acquireAsync().get(60, TimeUnit.SECONDS);
                WatchItem item;
                do {
                    item = items.poll(60, TimeUnit.SECONDS);
                    assertNotNull(item);
                } while (!(item instanceof WatchItem.Event));
            }
        } finally {
            one.shutdownNow();
        }
    }

    private static <T> void fail(BlockingQueue<T> told, T what) {
        told.add(what);
        throw new IllegalStateException("broken on purpose");
    }

    @Test
    void aCampaignThatIsCancelledOnALossIsNotRepeated() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).connect()) {
            CompletableFuture<Term> leads = new CompletableFuture<>();
            CompletableFuture<Void> work = new CompletableFuture<>();
            CompletableFuture<Void> campaign = client.election("a").runAsync(term -> {
                leads.complete(term);
                return work;
            });
            Term term = leads.get(60, TimeUnit.SECONDS);
            client.admin().forceRelease("a");
            while (term.isHeld()) {
                Thread.sleep(10);
            }
            assertTrue(campaign.cancel(false));
            work.complete(null);
            try (LeaseholdClient other = LeaseholdClient.builder(coordinator.url()).connect()) {
                other.election("a").waitAtMost(Duration.ofMinutes(1)).campaign().resign();
            }
            // Nor does it wait behind that one.
            assertTrue(client.election("a").leader().isEmpty());
        }
    }
}
