package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Threads that ask for what they hold, skip what is busy, and wait by the client's default. */
@Timeout(300)
class FlowTest {
    private static Coordinator coordinator;
    private static LeaseholdClient client;

    @BeforeAll
    static void start() throws Exception {
        coordinator = Coordinator.start();
        client = LeaseholdClient.connect(coordinator.url());
    }

    @AfterAll
    static void stop() {
        client.close();
        coordinator.close();
    }

    private static void deadlocks(LockRequest request) {
        assertEquals(ErrorKind.SELF_DEADLOCK, assertThrows(AcquireException.class, request::acquire).kind());
        assertEquals(ErrorKind.SELF_DEADLOCK, assertThrows(AcquireException.class, () -> request.run(hold -> {})).kind());
    }

    @Test
    void workThatAsksForItsOwnLockFailsAtOnce() throws Exception {
        client.lock("a").run(outer -> {
            deadlocks(client.lock("a"));
            client.lock("b").run(inner -> {
                deadlocks(client.lock("a"));
                deadlocks(client.lock("b"));
            });
            client.lock("b").acquire().release();
            client.lock("a").reentrant().run(again -> assertEquals(2, again.count()));
            client.locks("c", "d").run(both -> deadlocks(client.lock("d")));
        });
        client.election("e").campaign().run(term -> deadlocks(client.lock("e")));
        // An actor that the program gives wins.
        Actor actor = new Actor();
        client.lock("a").actor(actor).run(outer -> {
            assertEquals(actor.number(), client.admin().getLock("a").holders().get(0).actor());
            client.lock("a").actor(actor).reentrant().run(inner -> assertEquals(2, inner.count()));
        });
    }

    private static long actorOf(String name) {
        return client.admin().getLock(name).holders().get(0).actor();
    }

    @Test
    void whatTheThreadOfWorkAcquiresHasItsActorAndNothingElseHas() throws Exception {
        LockRequest other = client.lock("o");
        client.lock("n").run(work -> {
            long actor = actorOf("n");
            assertTrue(actor > 0);
            other.run(inner -> assertEquals(actor, actorOf("o")));
            Hold plain = other.acquire();
            assertEquals(actor, actorOf("o"));
            plain.release();
            LeaseholdLock lock = other.asLock();
            lock.lock();
            assertEquals(actor, actorOf("o"));
            lock.unlock();
            Hold future = other.acquireAsync().get(60, TimeUnit.SECONDS);
            assertEquals(0, actorOf("o"));
            future.release();
            DetachedLock detached = client.detachedLock("o").acquire();
            // A number of the coordinator's.
            assertTrue(actorOf("o") != actor);
            detached.release();
            Term term = client.election("o").campaign();
            assertTrue(actorOf("o") > 0 && actorOf("o") != actor);
            term.resign();
            CompletableFuture.runAsync(() -> {
                try {
                    other.run(inner -> assertTrue(actorOf("o") > 0 && actorOf("o") != actor));
                    Hold ofAnother = other.acquire();
                    assertEquals(0, actorOf("o"));
                    ofAnother.release();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }).get(60, TimeUnit.SECONDS);
            // What has another actor or none waits for the work, or finds its lock busy.
            assertTrue(client.detachedLock("n").tryAcquire().isEmpty());
            assertTrue(client.lock("n").tryAcquireAsync().get(60, TimeUnit.SECONDS).isEmpty());
        });
        Hold after = other.acquire();
        assertEquals(0, actorOf("o"));
        after.release();
    }

    @Test
    void aPlainHoldDoesNotMarkItsThread() throws Exception {
        Hold plain = client.lock("f").acquire();
        assertEquals(0, client.admin().getLock("f").holders().get(0).actor());
        CompletableFuture<Hold> waits = client.lock("f").acquireAsync();
        plain.release();
        waits.get(60, TimeUnit.SECONDS).release();
    }

    @Test
    void aBusyLockIsSkipped() throws Exception {
        AtomicBoolean ran = new AtomicBoolean();
        Hold busy = client.lock("g").acquire();
        assertFalse(client.lock("g").tryRun(hold -> ran.set(true)));
        assertFalse(ran.get());
        busy.release();
        assertTrue(client.lock("g").tryRun(hold -> ran.set(hold.isHeld())));
        assertTrue(ran.get());
        assertTrue(client.lock("g").tryAcquire().map(hold -> {
            hold.release();
            return true;
        }).orElse(false), "given back");
    }

    @Test
    void theClientsDefaultBoundsWaits() throws Exception {
        Hold busy = client.lock("h").acquire();
        try (LeaseholdClient bounded =
                LeaseholdClient.builder(coordinator.url()).waitAtMost(Duration.ofMillis(100)).connect()) {
            for (LockRequest request : new LockRequest[] {bounded.lock("h"), bounded.lock("h").shared()}) {
                assertEquals(ErrorKind.TIMED_OUT, assertThrows(AcquireException.class, request::acquire).kind());
            }
            assertEquals(ErrorKind.TIMED_OUT, assertThrows(AcquireException.class, bounded.locks("h", "i")::acquire).kind());
            CompletableFuture<Hold> longer = bounded.lock("h").waitAtMost(Duration.ofMinutes(1)).acquireAsync();
            // A candidate waits all the same.
            CompletableFuture<Term> term = bounded.election("h").campaignAsync();
            while (client.admin().getLock("h").waiterCount() < 2) {
                Thread.sleep(5);
            }
            busy.release();
            longer.get(60, TimeUnit.SECONDS).release();
            term.get(60, TimeUnit.SECONDS).resign();
        }
    }

    @Test
    void aLockOfThreadsIsReentrantAndTellsItsLoss() throws Exception {
        LeaseholdLock lock = client.lock("j").asLock();
        lock.lock();
        assertTrue(lock.tryLock());
        lock.unlock();
        assertTrue(lock.hold().isHeld());
        CompletableFuture<Boolean> other = CompletableFuture.supplyAsync(lock::tryLock);
        assertFalse(other.get(60, TimeUnit.SECONDS));
        assertFalse(client.lock("j").asLock().tryLock(), "another lock of the same name");
        client.admin().forceRelease("j");
        while (lock.hold().isHeld()) {
            Thread.sleep(5);
        }
        assertEquals(LostReason.FORCED, assertThrows(LockLostException.class, lock::unlock).reason());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::hold);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        assertTrue(lock.tryLock(Long.MAX_VALUE, TimeUnit.DAYS));
        lock.unlock();
    }

    @Test
    void detachedLocksTryReturnFuturesAndTakeTexts() throws Exception {
        DetachedRequest request = client.detachedLock("k").ttl(Duration.ofSeconds(30)).value("me");
        DetachedLock lock = request.acquireAsync().get(60, TimeUnit.SECONDS);
        assertEquals("me", new String(client.admin().getLock("k").holders().get(0).value()));
        assertTrue(request.tryAcquire().isEmpty());
        assertTrue(request.tryAcquireAsync().get(60, TimeUnit.SECONDS).isEmpty());
        CompletableFuture<DetachedLock> waits = request.waitAtMost(Duration.ofHours(1)).acquireAsync();
        while (client.admin().getLock("k").waiterCount() == 0) {
            Thread.sleep(5);
        }
        waits.cancel(false);
        while (client.admin().getLock("k").waiterCount() > 0) {
            Thread.sleep(5);
        }
        DetachedLock attached = client.attachDetachedLock("k", lock.token(), lock.ownerId(), Duration.ofMinutes(1));
        attached.renewAsync().get(60, TimeUnit.SECONDS);
        assertTrue(attached.validFor().compareTo(Duration.ofSeconds(30)) > 0, () -> "valid for " + attached.validFor());
        assertTrue(attached.toString().startsWith("DetachedLock[k, token "), attached::toString);
        attached.releaseAsync().get(60, TimeUnit.SECONDS);
    }

    @Test
    void textsAreShortAndSecretsAreNotShown() throws Exception {
        try (LeaseholdClient told = LeaseholdClient.builder(coordinator.url()).token("secret").connect()) {
            assertEquals("LeaseholdClient[" + coordinator.url() + "]", told.toString());
            assertTrue(told.session().toString().startsWith("Session["), told.session()::toString);
            Hold hold = told.lock("l").value("me").acquire();
            assertEquals("Hold[l, token " + hold.token() + ", held]", hold.toString());
            hold.release();
            assertEquals("Hold[l, token " + hold.token() + ", released]", hold.toString());
            Term term = told.election("m").value("me").campaign();
            Leader leader = told.election("m").leader().orElseThrow();
            String change = new LeaderChange(java.util.Optional.of(leader), false).toString();
            assertTrue(change.contains("Leader[me, token " + term.token()), change);
            term.proclaim("you");
            assertEquals("you", told.election("m").leader().orElseThrow().text());
            assertEquals("LockRequest[l (EXCLUSIVE)]", told.lock("l").toString());
        }
    }
}
