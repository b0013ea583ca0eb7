package dev.leasehold.recipes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.AcquireException;
import dev.leasehold.DetachedLock;
import dev.leasehold.ErrorKind;
import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockBody;
import dev.leasehold.LockLostException;
import dev.leasehold.LockSpec;
import dev.leasehold.Term;
import dev.leasehold.processes.Coordinator;
import dev.leasehold.testing.TestCoordinator;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Recipes that the documentation quotes word for word, between comments of their names, each with its test. */
@Timeout(300)
class RecipesTest {
    private static Coordinator coordinator;
    private static LeaseholdClient client;
    private static final List<String> done = new ArrayList<>();

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

    private static void work(String what) {
        done.add(what);
    }

    private static void took(String... what) {
        assertEquals(List.of(what), done);
        done.clear();
    }

    // recipe: lock
    static void underALock(LeaseholdClient client) throws InterruptedException {
        // Released at the end, also after an exception. The thread is interrupted if the lock is lost.
        client.lock("orders/42").run(hold -> work("order 42"));
    }
    // end recipe

    // recipe: try
    static boolean unlessBusy(LeaseholdClient client) throws InterruptedException {
        // False, without an error, if somebody else has the lock.
        return client.lock("report").tryRun(hold -> work("report"));
    }
    // end recipe

    // recipe: wait
    static void withinFiveSeconds(LeaseholdClient client) throws InterruptedException {
        try {
            client.lock("orders/42").waitAtMost(Duration.ofSeconds(5)).run(hold -> work("order 42"));
        } catch (AcquireException e) {
            if (e.kind() != ErrorKind.TIMED_OUT) {
                throw e;
            }
            work("another order"); // e.getMessage() says who has it
        }
    }
    // end recipe

    // recipe: shared
    static void readersAndAWriter(LeaseholdClient client) throws InterruptedException {
        client.lock("settings").shared().run(hold -> work("read")); // beside other readers
        client.lock("settings").run(hold -> work("write")); // alone
    }
    // end recipe

    // recipe: semaphore
    static void atMostTenAtOnce(LeaseholdClient client) throws InterruptedException {
        client.semaphore("api", 10).permit().run(hold -> work("call"));
        client.semaphore("api", 10).permits(2).run(hold -> work("large call"));
    }
    // end recipe

    // recipe: several
    static void transfer(LeaseholdClient client) throws InterruptedException {
        // All together or none, so that the order of the names does not matter.
        client.locks("account/1", "account/2").run(holds -> work("transfer"));
        client.locks(List.of(LockSpec.exclusive("account/1"), LockSpec.shared("rates"))).run(holds -> work("convert"));
    }
    // end recipe

    // recipe: election
    static void leadAgainAndAgain(LeaseholdClient client) throws InterruptedException {
        client.election("scheduler").value("10.0.0.7").run(RecipesTest::lead); // until the thread is interrupted
    }

    static void lead(Term term) throws InterruptedException {
        while (true) {
            term.check(); // fails once another process may lead
            work("lead");
            Thread.sleep(1000); // interrupted by a loss
        }
    }
    // end recipe

    // recipe: once-per-period
    static boolean oncePerHour(LeaseholdClient client) throws InterruptedException {
        // No session holds this lock: it stays for an hour, whatever becomes of this process.
        Optional<DetachedLock> turn = client.detachedLock("hourly/report").ttl(Duration.ofHours(1)).tryAcquire();
        if (turn.isEmpty()) {
            return false;
        }
        try {
            work("hourly report");
            return true;
        } catch (RuntimeException e) {
            turn.get().release(); // another attempt may follow within the hour
            throw e;
        }
    }
    // end recipe

    // recipe: fencing
    static void writeFenced(LeaseholdClient client, Storage storage) throws InterruptedException {
        client.lock("orders/42").run(hold -> storage.write("order 42", hold.token()));
    }

    static class Storage {
        private long newest;

        synchronized void write(String row, long token) {
            if (token < newest) {
                throw new IllegalStateException("a newer holder has written");
            }
            newest = token;
            work(row);
        }
    }
    // end recipe

    // recipe: stop
    static void workUntilStopped(LeaseholdClient client) throws InterruptedException {
        // At SIGTERM: work is interrupted and awaited, for ten seconds at most, and then its locks are released.
        Runtime.getRuntime().addShutdownHook(new Thread(client::close));
        try {
            while (true) {
                client.lock("queue").run(hold -> work("one item"));
            }
        } catch (LeaseholdException e) {
            if (e.kind() != ErrorKind.CLOSED) {
                throw e;
            }
        }
    }
    // end recipe

    // recipe: unit-test
    static void aReportThatLosesItsLockIsNotSent() throws InterruptedException {
        try (TestCoordinator coordinator = TestCoordinator.start();
                LeaseholdClient client = LeaseholdClient.connect(coordinator.url())) {
            Reports reports = new Reports(client);
            assertThrows(LockLostException.class, () -> reports.send(hold -> {
                coordinator.lose("report");
                Thread.sleep(60_000); // interrupted by the loss
            }));
            assertEquals(0, reports.sent);
            try (Hold busy = client.lock("report").acquire()) {
                assertFalse(reports.send(hold -> {}));
            }
            assertTrue(reports.send(hold -> assertEquals(hold.token(), coordinator.holders("report").get(0).token())));
            assertEquals(1, reports.sent);
        }
    }

    static class Reports {
        private final LeaseholdClient client;
        int sent;

        Reports(LeaseholdClient client) {
            this.client = client;
        }

        boolean send(LockBody.Action<Hold, InterruptedException> upload) throws InterruptedException {
            return client.lock("report").tryRun(hold -> {
                upload.run(hold);
                sent++;
            });
        }
    }
    // end recipe

    @Test
    void locks() throws Exception {
        underALock(client);
        took("order 42");
        assertTrue(unlessBusy(client));
        took("report");
        try (Hold busy = client.lock("report").acquire()) {
            assertFalse(unlessBusy(client));
        }
        took();
        withinFiveSeconds(client);
        took("order 42");
        readersAndAWriter(client);
        took("read", "write");
        atMostTenAtOnce(client);
        took("call", "large call");
        transfer(client);
        took("transfer", "convert");
        Storage storage = new Storage();
        writeFenced(client, storage);
        took("order 42");
        assertThrows(IllegalStateException.class, () -> storage.write("late", 0));
    }

    @Test
    void onceInAPeriod() throws Exception {
        assertTrue(oncePerHour(client));
        assertFalse(oncePerHour(client));
        took("hourly report");
        client.admin().forceRelease("hourly/report");
    }

    @Test
    void leadersAndStops() throws Exception {
        LeaseholdClient own = LeaseholdClient.connect(coordinator.url());
        FutureTask<Void> leads = new FutureTask<>(() -> {
            leadAgainAndAgain(own);
            return null;
        });
        new Thread(leads).start();
        while (client.election("scheduler").leader().isEmpty()) {
            Thread.sleep(5);
        }
        own.close();
        assertThrows(java.util.concurrent.ExecutionException.class, leads::get);
        LeaseholdClient stopped = LeaseholdClient.connect(coordinator.url());
        CountDownLatch ended = new CountDownLatch(1);
        new Thread(() -> {
            try {
                workUntilStopped(stopped);
                ended.countDown();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }).start();
        while (client.admin().getLock("queue").token() == 0) {
            Thread.sleep(5);
        }
        stopped.close();
        ended.await();
        done.clear();
    }

    @Test
    void unitTest() throws Exception {
        aReportThatLosesItsLockIsNotSent();
    }
}
