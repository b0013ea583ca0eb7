package dev.leasehold.spring.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.LockLostException;
import java.io.IOException;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DistributedLock;

@Timeout(300)
class LeaseholdLockRegistryTest {
    private static Clients clients;

    private LeaseholdLockRegistry one;
    private LeaseholdLockRegistry two;

    @BeforeAll
    static void start() throws IOException {
        clients = new Clients();
    }

    @AfterAll
    static void stop() {
        clients.close();
    }

    @BeforeEach
    void make() {
        one = new LeaseholdLockRegistry(clients.one, "registry/");
        two = new LeaseholdLockRegistry(clients.two, "registry/");
    }

    private static <T> T elsewhere(Callable<T> call) throws Exception {
        FutureTask<T> task = new FutureTask<>(call);
        new Thread(task).start();
        return task.get(60, TimeUnit.SECONDS);
    }

    @Test
    void aLockIsReentrantAndExcludesOtherRegistriesAndThreads() throws Exception {
        DistributedLock lock = one.obtain("a");
        lock.lock();
        assertTrue(lock.tryLock());
        lock.unlock();
        assertFalse(two.obtain("a").tryLock());
        assertFalse(elsewhere(() -> one.obtain("a").tryLock()));
        assertTrue(two.obtain("b").tryLock());
        two.obtain("b").unlock();
        lock.unlock();
        assertTrue(two.obtain("a").tryLock());
        two.obtain("a").unlock();
        assertEquals("done", one.executeLocked("a", () -> "done"));
    }

    @Test
    void onlyTheThreadThatLockedUnlocks() throws Exception {
        DistributedLock lock = one.obtain("a");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        lock.lockInterruptibly();
        assertThrows(java.util.concurrent.ExecutionException.class, () -> elsewhere(() -> {
            lock.unlock();
            return null;
        }));
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void aWaitEndsWithTheLockOrItsTime() throws Exception {
        DistributedLock lock = one.obtain("a");
        lock.lock();
        assertFalse(two.obtain("a").tryLock(50, TimeUnit.MILLISECONDS));
        assertFalse(elsewhere(() -> lock.tryLock(50, TimeUnit.MILLISECONDS)));
        CompletableFuture<Boolean> waiting = CompletableFuture.supplyAsync(() -> {
            two.obtain("a").lock();
            two.obtain("a").unlock();
            return true;
        });
        lock.unlock();
        assertTrue(waiting.get(60, TimeUnit.SECONDS));
    }

    @Test
    void anInterruptEndsAWaitAndLeavesNothingLocked() throws Exception {
        DistributedLock lock = one.obtain("a");
        lock.lock();
        CountDownLatch interrupted = new CountDownLatch(1);
        Thread waiting = new Thread(() -> {
            try {
                two.obtain("a").lockInterruptibly();
            } catch (InterruptedException e) {
                interrupted.countDown();
            }
        });
        waiting.start();
        waiting.interrupt();
        assertTrue(interrupted.await(60, TimeUnit.SECONDS));
        lock.unlock();
        assertTrue(two.obtain("a").tryLock(60, TimeUnit.SECONDS));
        two.obtain("a").unlock();
    }

    @Test
    void unlockTellsALoss() {
        DistributedLock lock = one.obtain("lost");
        lock.lock();
        one.renewLock("lost");
        clients.one.session().close(Duration.ZERO);
        assertThrows(IllegalStateException.class, () -> one.renewLock("lost"));
        ConcurrentModificationException lost = assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertInstanceOf(LockLostException.class, lost.getCause());
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void aReentrantTryTellsALossOnce() {
        DistributedLock lock = one.obtain("lost");
        lock.lock();
        clients.one.session().close(Duration.ZERO);
        assertFalse(lock.tryLock());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void aLockForATimeIsLostAfterIt() throws Exception {
        DistributedLock lock = one.obtain("bounded");
        assertTrue(lock.tryLock(Duration.ZERO, Duration.ofHours(1)));
        assertThrows(UnsupportedOperationException.class, () -> one.renewLock("bounded", Duration.ofHours(2)));
        lock.unlock();
        assertTrue(lock.tryLock(Duration.ofMinutes(1), Duration.ofSeconds(1)));
        assertTrue(two.obtain("bounded").tryLock(60, TimeUnit.SECONDS));
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        two.obtain("bounded").unlock();
    }

    @Test
    void onlyUnusedLocksExpire() {
        DistributedLock used = one.obtain("used");
        used.lock();
        DistributedLock unused = one.obtain("unused");
        one.expireUnusedOlderThan(60_000);
        assertSame(unused, one.obtain("unused"));
        one.expireUnusedOlderThan(0);
        assertNotSame(unused, one.obtain("unused"));
        assertSame(used, one.obtain("used"));
        used.unlock();
    }

    /** Spring Integration's own initiator over this registry, which polls with reentrant tries. */
    @Test
    void itsOwnInitiatorIsRevokedAfterALossAndElectedAgain() throws Exception {
        LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();
        LockRegistryLeaderInitiator initiator = new LockRegistryLeaderInitiator(one, new DefaultCandidate("id", "polled") {
            @Override
            public void onGranted(Context context) {
                told.add("granted");
            }

            @Override
            public void onRevoked(Context context) {
                told.add("revoked");
            }
        });
        initiator.setHeartBeatMillis(50);
        initiator.setBusyWaitMillis(50);
        initiator.start();
        assertEquals("granted", Clients.next(told));
        assertFalse(two.obtain("polled").tryLock());
        clients.one.session().close(Duration.ZERO);
        assertEquals("revoked", Clients.next(told));
        assertEquals("granted", Clients.next(told));
        initiator.stop();
        assertEquals("revoked", Clients.next(told));
        assertTrue(two.obtain("polled").tryLock(60, TimeUnit.SECONDS));
        two.obtain("polled").unlock();
    }
}
