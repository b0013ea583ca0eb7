package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Operators' calls against a coordinator. */
@Timeout(300)
class AdminTest {
    private Coordinator coordinator;
    private LeaseholdClient client;
    private Admin admin;

    @BeforeEach
    void start() throws Exception {
        coordinator = Coordinator.start();
        client = LeaseholdClient.builder(coordinator.url()).clientName("tests").metadata("zone", "a").connect();
        admin = client.admin();
    }

    @AfterEach
    void stop() {
        client.close();
        coordinator.close();
    }

    private static <T> T next(BlockingQueue<T> items) throws InterruptedException {
        T item = items.poll(60, TimeUnit.SECONDS);
        assertNotEquals(null, item, "nothing came");
        return item;
    }

    @Test
    void aLockIsShownWithItsHolderAndItsWaiter() throws Exception {
        assertEquals(Optional.empty(), admin.getLock("a").mode());
        byte[] value = "here".getBytes(StandardCharsets.UTF_8);
        Hold hold = client.lock("a").value(value).maxHold(Duration.ofHours(1)).acquire();
        CompletableFuture<Hold> waits = client.semaphore("a", 3).permits(2).acquireAsync();
        LockView view;
        do {
            view = admin.getLock("a");
        } while (view.waiterCount() == 0);
        assertEquals("a", view.name());
        assertEquals(Optional.of(LockSpec.Mode.EXCLUSIVE), view.mode());
        assertEquals(hold.token(), view.token());
        assertEquals(1, view.holderCount());
        Holder holder = view.holders().get(0);
        assertEquals("tests", holder.clientName());
        assertEquals(client.session().info().orElseThrow().sessionId(), holder.sessionId());
        assertEquals(hold.token(), holder.token());
        assertEquals("here", new String(holder.value(), StandardCharsets.UTF_8));
        assertEquals(Optional.of(Duration.ofHours(1)), holder.maxHold());
        assertTrue(holder.ttl().orElseThrow().compareTo(Duration.ofSeconds(11)) < 0);
        assertFalse(holder.isForeign());
        Waiter waiter = view.waiters().get(0);
        assertEquals(Optional.of(LockSpec.Mode.SEMAPHORE), waiter.mode());
        assertEquals(2, waiter.permits());
        assertEquals(1, waiter.position());
        assertEquals(holder.sessionId(), waiter.sessionId());
        waits.cancel(false);
        AcquireException busy = assertThrows(AcquireException.class, () -> client.lock("a").acquire(Duration.ZERO));
        assertEquals("tests", busy.holder().orElseThrow().clientName());
    }

    @Test
    void listingsHaveAllPages() throws Exception {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 250; i++) {
            names.add("list/" + i);
        }
        for (int i = 0; i < 250; i += 50) {
            client.locks(names.subList(i, i + 50).toArray(new String[0])).acquire();
        }
        client.lock("other").acquire();
        assertEquals(
                names.stream().sorted().toList(),
                admin.listLocks("list/").map(LockView::name).sorted().toList());
        assertEquals(251, admin.listLocks("").count());
        SessionView session = admin.listSessions().collect(Collectors.toList()).get(0);
        assertEquals("tests", session.clientName());
        assertEquals("a", session.metadata().get("zone"));
        assertEquals(251, session.holdCount());
    }

    @Test
    void holdsAndWaitsAreTakenByForce() throws Exception {
        Hold one = client.lock("f").shared().acquire();
        Hold other = client.lock("f").shared().acquire();
        CompletableFuture<Hold> waits = client.lock("f").acquireAsync();
        LockView view;
        do {
            view = admin.getLock("f");
        } while (view.waiters().isEmpty());
        assertTrue(admin.forceReleaseWaiter("f", view.waiters().get(0).number()));
        ExecutionException ended = assertThrows(ExecutionException.class, () -> waits.get(60, TimeUnit.SECONDS));
        assertEquals(ErrorKind.FORCE_RELEASED, ((AcquireException) ended.getCause()).kind());
        assertTrue(admin.forceReleaseHolder("f", one.token()));
        assertEquals(HoldState.LOST, one.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS));
        assertEquals(Optional.of(LostReason.FORCED), one.lostReason());
        assertEquals(HoldState.HELD, other.state());
        assertTrue(admin.forceRelease("f"));
        assertEquals(HoldState.LOST, other.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS));
        assertFalse(admin.forceRelease("f"));
    }

    @Test
    void tokensAreChecked() throws Exception {
        assertEquals(new Admin.TokenCheck(false, 0), admin.checkToken("t", 1));
        Hold hold = client.lock("t").acquire();
        assertEquals(new Admin.TokenCheck(true, hold.token()), admin.checkToken("t", hold.token()));
        hold.release();
        Hold later = client.lock("t").acquire();
        assertEquals(new Admin.TokenCheck(false, later.token()), admin.checkToken("t", hold.token()));
    }

    @Test
    void aSessionIsEnded() throws Exception {
        Hold hold = client.lock("s").acquire();
        String id = client.session().info().orElseThrow().sessionId();
        Admin.SessionEnd end = admin.endSession(id);
        assertEquals(new Admin.SessionEnd(true, 1, 1, 0), end);
        assertEquals(HoldState.LOST, hold.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS));
        assertFalse(admin.endSession(id).isEnded());
    }

    @Test
    void theStatusIsThatOfTheCoordinator() throws Exception {
        client.lock("c").acquire();
        CoordinatorStatus status = admin.status();
        assertTrue(status.isServing() && status.isStoreUp().orElseThrow() && !status.isDraining(), status.toString());
        assertEquals(LeaseholdClient.VERSION, status.version());
        assertEquals(client.session().info().orElseThrow().coordinator(), status.coordinator());
        assertEquals(1, status.sessionCount().orElseThrow());
        assertEquals(1, status.holdCount().orElseThrow());
        assertEquals(
                List.of("acquire", "inspect", "administer"),
                status.permissions().stream().map(CoordinatorStatus.Permission::permission).toList());
        assertTrue(status.minTtl().compareTo(status.defaultTtl()) < 0 && status.defaultTtl().compareTo(status.maxTtl()) < 0);
        assertTrue(status.limits().stream().anyMatch(limit -> limit.name().equals("max-sessions")));
        assertEquals(List.of(), status.certificates());
    }

    @Test
    void refusalsAreErrors() {
        CallException refused = assertThrows(CallException.class, () -> admin.getLock(""));
        assertEquals(ErrorKind.INVALID, refused.kind());
        assertEquals("INVALID_FIELD", refused.failure().orElseThrow().reason());
        coordinator.close();
        assertEquals(ErrorKind.UNAVAILABLE, assertThrows(CallException.class, admin::status).kind());
    }

    @Test
    void aHolderIsAskedToRelease() throws Exception {
        Hold hold = client.lock("r").acquire();
        BlockingQueue<ReleaseRequest> asked = new LinkedBlockingQueue<>();
        hold.onReleaseRequest(asked::add);
        CompletableFuture<Optional<ReleaseRequest>> awaited = CompletableFuture.supplyAsync(() -> {
            try {
                return hold.awaitReleaseRequest();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        assertEquals(Optional.empty(), hold.releaseRequest());
        assertEquals(1, admin.requestRelease("r", "maintenance", Duration.ofMinutes(1)));
        ReleaseRequest first = next(asked);
        assertEquals("maintenance", first.reason());
        assertTrue(first.timeLeft().orElseThrow().compareTo(Duration.ofMinutes(1)) <= 0);
        assertEquals("maintenance", awaited.get(60, TimeUnit.SECONDS).orElseThrow().reason());
        hold.check();
        assertEquals(1, admin.requestReleaseOfHolder("r", hold.token(), "again", Duration.ZERO));
        ReleaseRequest second = next(asked);
        assertEquals("again", second.reason());
        assertEquals(Optional.empty(), second.timeLeft());
        // A listener that comes later learns of the last one.
        BlockingQueue<ReleaseRequest> late = new LinkedBlockingQueue<>();
        hold.onReleaseRequest(late::add);
        assertEquals("again", next(late).reason());
        assertEquals(0, admin.requestReleaseOfHolder("r", hold.token() + 1, "", Duration.ZERO));
        hold.release();
        assertEquals(Optional.empty(), hold.awaitReleaseRequest());
    }

    @Test
    void aListenerThatIsCalledOffLearnsOfNoRequest() throws Exception {
        ExecutorService one = Executors.newSingleThreadExecutor();
        try (LeaseholdClient asked = LeaseholdClient.builder(coordinator.url()).executor(one).connect()) {
            Hold hold = asked.lock("o").acquire();
            BlockingQueue<ReleaseRequest> before = new LinkedBlockingQueue<>();
            BlockingQueue<ReleaseRequest> off = new LinkedBlockingQueue<>();
            BlockingQueue<ReleaseRequest> after = new LinkedBlockingQueue<>();
            hold.onReleaseRequest(before::add);
            Runnable callOff = hold.onReleaseRequest(off::add);
            hold.onReleaseRequest(after::add);
            callOff.run();
            assertEquals(1, admin.requestRelease("o", "", Duration.ZERO));
            // One of the others comes after it, whatever the order is.
            next(before);
            next(after);
            assertTrue(off.isEmpty());
        } finally {
            one.shutdown();
        }
    }

    @Test
    void aSlowListenerLearnsOfTheLastOfSeveralRequests() throws Exception {
        Hold hold = client.lock("slow").acquire();
        BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        CompletableFuture<Void> goOn = new CompletableFuture<>();
        hold.onReleaseRequest(request -> {
            asked.add(request.reason());
            goOn.join();
        });
        admin.requestRelease("slow", "first", Duration.ZERO);
        assertEquals("first", next(asked));
        for (int i = 0; i < 100; i++) {
            admin.requestRelease("slow", "more", Duration.ZERO);
        }
        admin.requestRelease("slow", "last", Duration.ZERO);
        while (!hold.releaseRequest().orElseThrow().reason().equals("last")) {
            Thread.onSpinWait();
        }
        goOn.complete(null);
        assertEquals("last", next(asked));
        assertTrue(asked.isEmpty());
    }

    @Test
    void aWaitForARequestEndsWithTheHold() throws Exception {
        Hold hold = client.lock("e").acquire();
        BlockingQueue<Optional<ReleaseRequest>> ended = new LinkedBlockingQueue<>();
        Thread waits = new Thread(() -> {
            try {
                ended.add(hold.awaitReleaseRequest());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        waits.start();
        assertTrue(admin.forceRelease("e"));
        assertEquals(Optional.empty(), next(ended));
        waits.join();
    }

    private static String word(WatchItem item) {
        return item instanceof WatchItem.Event event
                ? event.event().kind() + " " + event.event().name()
                : item instanceof WatchItem.Lock lock ? "lock " + lock.lock().name() : item.getClass().getSimpleName();
    }

    @Test
    void aWatcherIsToldASnapshotAndThenEvents() throws Exception {
        Hold held = client.lock("w/held").acquire();
        client.lock("other").acquire();
        BlockingQueue<WatchItem> items = new LinkedBlockingQueue<>();
        try (Watcher watcher = admin.watch("w/", items::add, failure -> {})) {
            assertEquals("lock w/held", word(next(items)));
            assertEquals("Ready", word(next(items)));
            assertTrue(watcher.isReady());
            client.lock("w/a").run(hold -> {});
            assertEquals("GRANTED w/a", word(next(items)));
            WatchItem.Event released = assertInstanceOf(WatchItem.Event.class, next(items));
            assertEquals(LockEvent.Kind.RELEASED, released.event().kind());
            assertEquals("tests", released.event().holder().orElseThrow().clientName());
            assertEquals(0, released.event().holderCount());
            assertTrue(admin.forceRelease("w/held"));
            assertEquals("FORCED w/held", word(next(items)));
            assertEquals(HoldState.LOST, held.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void anOutageIsOneGap() throws Exception {
        client.close();
        BlockingQueue<WatchItem> items = new LinkedBlockingQueue<>();
        try (LeaseholdClient watching = LeaseholdClient.builder(coordinator.url()).build()) {
            Watcher watcher = watching.admin().watch("", items::add, failure -> {});
            assertEquals("Ready", word(next(items)));
            coordinator.close();
            WatchItem.Gap gap = assertInstanceOf(WatchItem.Gap.class, next(items));
            assertTrue(gap.message().startsWith("the stream broke: "), gap.message());
            assertFalse(watcher.isReady());
            String[] address = coordinator.address().split(":");
            try (ServerSocket mute = new ServerSocket()) {
                mute.setReuseAddress(true);
                mute.bind(new InetSocketAddress(address[0], Integer.parseInt(address[1])));
                // Attempts of the watcher, which tell nothing new.
                for (int i = 0; i < 3; i++) {
                    mute.accept().close();
                }
            }
            try (Coordinator again = Coordinator.start("--listen", coordinator.address())) {
                assertEquals("Ready", word(next(items)));
                assertTrue(watcher.isReady());
                watcher.close();
                assertFalse(watcher.isReady());
            }
        }
    }

    @Test
    void aWatcherIsRefusedOnce() throws Exception {
        BlockingQueue<LeaseholdException> failures = new LinkedBlockingQueue<>();
        try (Watcher watcher = admin.watch("x".repeat(600), item -> {}, failures::add)) {
            assertEquals(ErrorKind.INVALID, next(failures).kind());
            assertFalse(watcher.isReady());
        }
    }
}
