package dev.leasehold.spring.integration;

import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;

/** Closes of clients, and stops of initiators, in the middle of work: another client has the lock only after the work. */
@Timeout(300)
class CloseTest {
    private static final int ROUNDS = 100;

    /** Work that goes on for a little while after it should end. */
    private static final class Work {
        final CountDownLatch begun = new CountDownLatch(1);
        final CountDownLatch closing = new CountDownLatch(1);
        volatile boolean isInside = true;

        void run() {
            begun.countDown();
            try {
                closing.await();
                Thread.sleep(2);
                isInside = false;
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private interface Close {
        void run() throws InterruptedException;
    }

    private static LeaseholdClient client(Clients clients) {
        return LeaseholdClient.builder(clients.coordinator.url())
                .connectTimeout(Duration.ofMinutes(1))
                .closeTimeout(Duration.ofMinutes(1))
                .build();
    }

    /** Closes while the work runs and another client waits for the lock. */
    private static void close(LeaseholdClient other, String name, Work work, Close close) throws Exception {
        work.begun.await();
        CompletableFuture<Hold> next = other.lock(name).acquireAsync();
        while (other.admin().getLock(name).waiterCount() == 0) {
            Thread.sleep(1);
        }
        work.closing.countDown();
        close.run();
        Hold hold = next.get();
        assertFalse(work.isInside, "two are inside");
        hold.release();
    }

    @Test
    void aHundredClosesHandTheRegistrysLockOnWhenTheWorkHasEnded() throws Exception {
        try (Clients clients = new Clients()) {
            for (int round = 0; round < ROUNDS; round++) {
                LeaseholdClient closed = client(clients);
                Work work = new Work();
                Thread worker = new Thread(() -> {
                    Lock lock = new LeaseholdLockRegistry(closed).obtain("registry");
                    lock.lock();
                    try {
                        work.run();
                    } finally {
                        lock.unlock();
                    }
                });
                worker.start();
                close(clients.two, "registry", work, closed::close);
                worker.join();
            }
        }
    }

    @Test
    void aHundredClosesAndStopsHandTheLeadershipOnWhenTheCandidateHasEnded() throws Exception {
        try (Clients clients = new Clients()) {
            for (int round = 0; round < ROUNDS; round++) {
                LeaseholdClient closed = client(clients);
                Work work = new Work();
                LeaseholdLeaderInitiator initiator = new LeaseholdLeaderInitiator(closed, new DefaultCandidate("one", "leader") {
                    @Override
                    public void onGranted(Context context) {
                        work.begun.countDown();
                    }

                    @Override
                    public void onRevoked(Context context) {
                        work.run();
                    }
                });
                initiator.start();
                close(clients.two, "leader", work, round % 2 == 0 ? closed::close : initiator::stop);
                initiator.stop();
                closed.close();
            }
        }
    }
}
