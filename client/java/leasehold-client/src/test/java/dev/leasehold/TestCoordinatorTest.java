package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.testing.TestCoordinator;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Rules that the coordinator for unit tests keeps, by the real client. */
@Timeout(300)
class TestCoordinatorTest {
    private TestCoordinator coordinator;
    private LeaseholdClient one;
    private LeaseholdClient two;

    @BeforeEach
    void start() throws Exception {
        coordinator = TestCoordinator.start();
        one = LeaseholdClient.builder(coordinator.url()).clientName("one").connect();
        two = LeaseholdClient.builder(coordinator.url()).clientName("two").connect();
    }

    @AfterEach
    void stop() {
        one.close();
        two.close();
        coordinator.close();
    }

    private static <T> T soon(CompletableFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    private void waiting(String name, int waiters) throws InterruptedException {
        while (coordinator.waiting(name) != waiters) {
            Thread.sleep(2);
        }
    }

    @Test
    void locksExcludeAndAreHandedOnInOrder() throws Exception {
        Hold first = one.lock("a").value("me").acquire();
        assertEquals("one", coordinator.holders("a").get(0).clientName());
        assertEquals("me", new String(coordinator.holders("a").get(0).value()));
        AcquireException busy = assertThrows(AcquireException.class, () -> two.lock("a").acquire(Duration.ZERO));
        assertEquals("one", busy.holder().orElseThrow().clientName());
        assertEquals(
                ErrorKind.TIMED_OUT, assertThrows(AcquireException.class, () -> two.lock("a").acquire(Duration.ofMillis(20))).kind());
        CompletableFuture<Hold> cancelled = two.lock("a").acquireAsync();
        waiting("a", 1);
        CompletableFuture<Hold> second = two.lock("a").acquireAsync();
        waiting("a", 2);
        CompletableFuture<Hold> third = one.lock("a").shared().acquireAsync();
        waiting("a", 3);
        CompletableFuture<Hold> fourth = two.lock("a").shared().acquireAsync();
        waiting("a", 4);
        cancelled.cancel(false);
        waiting("a", 3);
        first.release();
        Hold next = soon(second);
        assertTrue(next.token() > first.token());
        assertFalse(third.isDone());
        next.setValue("you");
        assertEquals("you", new String(coordinator.holders("a").get(0).value()));
        next.release();
        soon(third);
        soon(fourth);
        assertEquals(2, coordinator.holders("a").size());
    }

    @Test
    void semaphoresAndSeveralLocks() throws Exception {
        Semaphore api = one.semaphore("api", 3);
        Hold most = api.permits(2).acquire();
        assertTrue(api.permits(2).tryAcquire().isEmpty());
        assertEquals(1, api.permitsBetween(1, 2).acquire().permits());
        CompletableFuture<Holds> both = two.locks(List.of(LockSpec.exclusive("x"), LockSpec.semaphore("api", 3))).acquireAsync();
        waiting("x", 1);
        most.release();
        assertEquals(2, soon(both).size());
    }

    @Test
    void aLossIsToldAndAnEndReleases() throws Exception {
        LockLostException lost = assertThrows(LockLostException.class, () -> one.lock("b").run(hold -> {
            assertTrue(coordinator.lose("b"));
            Thread.sleep(60_000);
        }));
        assertEquals(LostReason.FORCED, lost.reason());
        assertFalse(coordinator.lose("b"));
        one.lock("b").acquire();
        CompletableFuture<Hold> next = two.lock("b").acquireAsync();
        waiting("b", 1);
        one.close();
        soon(next);
    }

    @Test
    void flowsAndElections() throws Exception {
        one.lock("c").run(outer -> {
            assertEquals(ErrorKind.SELF_DEADLOCK, assertThrows(AcquireException.class, one.lock("c")::acquire).kind());
            one.lock("c").reentrant().run(inner -> assertEquals(2, inner.count()));
            assertEquals(1, coordinator.holders("c").size());
        });
        Term leads = one.election("d").value("one").campaign();
        CompletableFuture<Term> next = two.election("d").campaignAsync();
        waiting("d", 1);
        coordinator.lose("d");
        assertTrue(soon(next).token() > leads.token());
        // What it does not have fails.
        assertThrows(LeaseholdException.class, one.detachedLock("e")::acquire);
    }
}
