package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Closes of clients whose work still runs: nobody else gets a lock before the work under it has ended. */
@Timeout(300)
class CloseTest {
    private static Coordinator coordinator;
    private static LeaseholdClient other;
    private LeaseholdClient client;

    @BeforeAll
    static void start() throws Exception {
        coordinator = Coordinator.start();
        other = LeaseholdClient.connect(coordinator.url());
    }

    @AfterAll
    static void stop() {
        other.close();
        coordinator.close();
    }

    @BeforeEach
    void connect() throws Exception {
        client = LeaseholdClient.builder(coordinator.url()).closeTimeout(Duration.ofSeconds(30)).connect();
    }

    private static <T> FutureTask<T> elsewhere(java.util.concurrent.Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        new Thread(task).start();
        return task;
    }

    /** Work that ignores its interrupt until it is let go. */
    private static void stubborn(CountDownLatch begun, CountDownLatch goes) {
        begun.countDown();
        boolean isInterrupted = false;
        while (true) {
            try {
                goes.await();
                break;
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        assertTrue(isInterrupted, "told to stop");
    }

    private static void waitsFor(String name, long waiters) throws InterruptedException {
        while (other.admin().getLock(name).waiterCount() != waiters) {
            Thread.sleep(5);
        }
    }

    @Test
    void aCloseWaitsForWorkAndFailsWaits() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goes = new CountDownLatch(1);
        AtomicInteger inside = new AtomicInteger();
        FutureTask<String> work = elsewhere(() -> client.lock("a").call(hold -> {
            inside.incrementAndGet();
            stubborn(begun, goes);
            assertEquals(Optional.of(StopReason.CLOSED), hold.stopReason());
            hold.check();
            inside.decrementAndGet();
            return "done";
        }));
        begun.await();
        FutureTask<Hold> waiting = elsewhere(() -> client.lock("a").acquire());
        waitsFor("a", 1);
        Hold detachedBusy = other.lock("d").acquire();
        FutureTask<DetachedLock> detached = elsewhere(() -> client.detachedLock("d").waitAtMost(Duration.ofHours(1)).acquire());
        waitsFor("d", 1);
        FutureTask<Integer> next = elsewhere(() -> other.lock("a").call(hold -> inside.get()));
        waitsFor("a", 2);
        FutureTask<Void> first = elsewhere(() -> {
            client.close();
            return null;
        });
        ExecutionException failed = assertThrows(ExecutionException.class, waiting::get);
        assertEquals(ErrorKind.CLOSED, assertInstanceOf(AcquireException.class, failed.getCause()).kind());
        failed = assertThrows(ExecutionException.class, detached::get);
        assertEquals(ErrorKind.CLOSED, assertInstanceOf(AcquireException.class, failed.getCause()).kind());
        assertEquals(ErrorKind.CLOSED, assertThrows(AcquireException.class, () -> client.lock("b").acquire()).kind());
        FutureTask<Void> second = elsewhere(() -> {
            client.close();
            return null;
        });
        waitsFor("a", 1);
        assertFalse(first.isDone() || second.isDone() || next.isDone());
        goes.countDown();
        assertEquals(0, next.get());
        assertEquals("done", work.get());
        first.get();
        second.get();
        detachedBusy.release();
    }

    @Test
    void workThatGivesUpEndsWithTheClose() throws Exception {
        CountDownLatch begun = new CountDownLatch(2);
        FutureTask<Void> work = elsewhere(() -> {
            client.lock("b").run(hold -> {
                begun.countDown();
                Thread.sleep(60_000);
            });
            return null;
        });
        FutureTask<Void> leads = elsewhere(() -> {
            client.election("e").run(term -> {
                begun.countDown();
                Thread.sleep(60_000);
            });
            return null;
        });
        begun.await();
        client.close();
        for (FutureTask<Void> one : new FutureTask[] {work, leads}) {
            ExecutionException failed = assertThrows(ExecutionException.class, one::get);
            assertEquals(ErrorKind.CLOSED, assertInstanceOf(HoldException.class, failed.getCause()).kind());
        }
        other.lock("b").waitAtMost(Duration.ofSeconds(30)).acquire().release();
    }

    @Test
    void asynchronousWorkIsToldAndAwaited() throws Exception {
        CompletableFuture<String> goes = new CompletableFuture<>();
        CountDownLatch told = new CountDownLatch(1);
        CompletableFuture<String> work = client.lock("c").callAsync(hold -> {
            hold.onStop(told::countDown);
            return goes;
        });
        while (other.admin().getLock("c").holders().isEmpty()) {
            Thread.sleep(5);
        }
        FutureTask<Void> closing = elsewhere(() -> {
            client.close();
            return null;
        });
        told.await();
        assertTrue(other.lock("c").tryAcquire().isEmpty());
        goes.completeExceptionally(new CancellationException("stopped"));
        ExecutionException failed = assertThrows(ExecutionException.class, work::get);
        assertEquals(ErrorKind.CLOSED, assertInstanceOf(HoldException.class, failed.getCause()).kind());
        closing.get();
    }

    @Test
    void theBoundEndsTheWait() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goes = new CountDownLatch(1);
        FutureTask<Void> work = elsewhere(() -> {
            client.lock("f").run(hold -> stubborn(begun, goes));
            return null;
        });
        begun.await();
        client.close(Duration.ofMillis(50));
        goes.countDown();
        ExecutionException failed = assertThrows(ExecutionException.class, work::get);
        LockLostException lost = assertInstanceOf(LockLostException.class, failed.getCause());
        assertSame(LostReason.SESSION_CLOSED, lost.reason());
    }

    @Test
    void aCloseFromInsideWorkDoesNotWaitForItself() throws Exception {
        LockLostException lost = assertThrows(LockLostException.class, () -> client.lock("g").run(hold -> client.close()));
        assertSame(LostReason.SESSION_CLOSED, lost.reason());
        try (LeaseholdClient stopped = LeaseholdClient.connect(coordinator.url())) {
            CountDownLatch begun = new CountDownLatch(1);
            FutureTask<Void> work = elsewhere(() -> {
                stopped.lock("h").run(hold -> {
                    begun.countDown();
                    try {
                        Thread.sleep(60_000);
                    } catch (InterruptedException e) {
                        // The second close at once, while the first waits for this work.
                        stopped.close();
                    }
                });
                return null;
            });
            begun.await();
            stopped.close();
            assertThrows(ExecutionException.class, work::get);
        }
    }

    @Test
    void aPlainHoldIsAwaitedOnlyIfAsked() throws Exception {
        Hold plain = client.lock("i").acquire();
        Hold awaited = client.lock("j").acquire();
        LeaseholdLock lock = client.lock("k").asLock();
        lock.lock();
        assertTrue(awaited.awaitOnClose());
        FutureTask<Void> closing = elsewhere(() -> {
            client.close();
            return null;
        });
        while (awaited.stopReason().isEmpty() || lock.hold().stopReason().isEmpty()) {
            Thread.sleep(5);
        }
        assertTrue(plain.isHeld() && awaited.isHeld());
        awaited.release();
        lock.unlock();
        closing.get();
        assertEquals(Optional.of(LostReason.SESSION_CLOSED), plain.lostReason());
    }
}
