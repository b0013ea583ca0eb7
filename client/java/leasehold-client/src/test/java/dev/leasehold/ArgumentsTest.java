package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** Arguments out of bounds, and uses at the wrong time: each fails one call, with an error that names the field. */
@Timeout(300)
class ArgumentsTest {
    private static Coordinator coordinator;
    private static LeaseholdClient client;

    @BeforeAll
    static void start() throws Exception {
        coordinator = Coordinator.start();
        client = LeaseholdClient.builder(coordinator.url()).connect();
    }

    @AfterAll
    static void stop() {
        client.close();
        coordinator.close();
    }

    private static void isInvalid(String field, Executable call) {
        LeaseholdException failed = assertThrows(LeaseholdException.class, call, field);
        assertEquals(ErrorKind.INVALID, failed.kind(), failed::toString);
        assertEquals(field, failed.failure().orElseThrow().violations().get(0).field());
        assertTrue(failed.getMessage().length() < 1500, "a message that can be read");
    }

    @Test
    void whatIsOutOfBoundsFailsOneCall() throws Exception {
        Hold kept = client.lock("kept").acquire();
        for (String name : List.of("", "x".repeat(513), "x".repeat(5 << 20), "a\u0007", "\ud800", "é".repeat(257))) {
            isInvalid("name", client.lock(name)::acquire);
            isInvalid("name", client.election(name)::campaign);
            isInvalid("name", client.detachedLock(LockSpec.exclusive(name))::acquire);
            isInvalid("name", () -> client.admin().getLock(name));
        }
        LockRequest request = client.lock("a");
        isInvalid("wait", request.waitAtMost(Duration.ofSeconds(-1))::acquire);
        isInvalid("wait", request.waitAtMost(Duration.ofSeconds(Long.MAX_VALUE))::acquire);
        isInvalid("value", request.value(new byte[5 << 20])::acquire);
        isInvalid("lock_delay", request.lockDelay(Duration.ofSeconds(-1))::acquire);
        isInvalid("max_hold", request.maxHold(Duration.ZERO)::acquire);
        isInvalid("locks", client.locks()::acquire);
        isInvalid("locks", client.locks("a", "a")::acquire);
        isInvalid("locks", client.locks(IntStream.range(0, 1001).mapToObj(Integer::toString).toArray(String[]::new))::acquire);
        isInvalid("limit", client.semaphore("s", 1_000_001).permits(1)::acquire);
        isInvalid("ttl", client.detachedLock(LockSpec.exclusive("a")).ttl(Duration.ZERO)::acquire);
        isInvalid("value", () -> kept.setValue(new byte[4097]));
        isInvalid("token", () -> client.admin().forceReleaseHolder("a", -1));
        ExecutionException failed = assertThrows(ExecutionException.class, () -> client.lock("").acquireAsync().get());
        assertInstanceOf(AcquireException.class, failed.getCause());
        kept.check();
        kept.release();
    }

    @Test
    void nullIsAnArgumentAtOnce() throws Exception {
        Hold kept = client.lock("null").acquire();
        for (Executable call : List.<Executable>of(
                () -> client.lock(null),
                () -> client.locks((String[]) null),
                () -> client.locks(Collections.singletonList(null)),
                () -> client.semaphore(null, 1),
                () -> client.election(null),
                () -> client.lock("a").waitAtMost(null),
                () -> client.lock("a").value((byte[]) null),
                () -> client.lock("a").actor(null),
                () -> client.lock("a").run(null),
                () -> client.detachedLock((LockSpec) null),
                () -> client.attachDetachedLock("a", 1, new byte[3]),
                () -> client.admin().getLock(null),
                () -> client.admin().watch("", null, failure -> {}),
                () -> client.election("a").observe(null, failure -> {}),
                () -> kept.setValue((String) null),
                () -> kept.onLost(null))) {
            assertThrows(IllegalArgumentException.class, call);
        }
        kept.check();
        kept.release();
    }

    @Test
    void aWrongSettingIsAnErrorOfTheBuilder() {
        for (UnaryOperator<LeaseholdClient.Builder> wrong : List.<UnaryOperator<LeaseholdClient.Builder>>of(
                builder -> builder.ttl(null),
                builder -> builder.ttl(Duration.ZERO),
                builder -> builder.ttl(Duration.ofSeconds(-1)),
                builder -> builder.grace(Duration.ofSeconds(-1)),
                builder -> builder.clientName("x".repeat(257)),
                builder -> builder.metadata("", "v"),
                builder -> builder.connectTimeout(Duration.ZERO),
                builder -> builder.ca(Path.of("ca.pem")),
                builder -> builder.serverName("a"),
                builder -> builder.executor(null))) {
            assertThrows(IllegalArgumentException.class, () -> wrong.apply(LeaseholdClient.builder(coordinator.url())).build());
        }
        assertThrows(IllegalArgumentException.class, () -> LeaseholdClient.builder(null));
        for (String url : List.of("ftp://host", "http://", "http:a://b", "http://user@host", "host:0", "host/path", "host?query", "a/#b")) {
            assertThrows(IllegalArgumentException.class, () -> LeaseholdClient.builder(url).build(), url);
        }
    }

    @Test
    void aHookThatAddsAnythingFailsNoCall() throws Exception {
        Map<String, String> odd = Map.of("traceparent", "x".repeat(5000), "no header", "v", "é", "v", "authorization", "v", "a-bin", "v");
        try (LeaseholdClient traced = LeaseholdClient.builder(coordinator.url())
                .propagation(carrier -> {
                    carrier.putAll(odd);
                    carrier.put(null, null);
                })
                .connect()) {
            traced.lock("traced").acquire().release();
            assertTrue(traced.admin().status().isServing());
        }
    }

    @Test
    void aClosedClientSaysSo() throws Exception {
        LeaseholdClient closed = LeaseholdClient.builder(coordinator.url()).connect();
        closed.close();
        closed.close();
        for (Executable call : List.<Executable>of(
                closed.lock("a")::acquire,
                closed.lock("a")::tryAcquire,
                closed.election("a")::campaign,
                closed.detachedLock(LockSpec.exclusive("a"))::acquire)) {
            assertEquals(ErrorKind.CLOSED, assertThrows(AcquireException.class, call).kind());
        }
        assertEquals(ErrorKind.CLOSED, assertThrows(LeaseholdException.class, closed.admin()::status).kind());
    }

    @Test
    void anInterruptEndsADetachedWait() throws Exception {
        Hold held = client.lock("held").acquire();
        DetachedRequest waits = client.detachedLock(LockSpec.exclusive("held")).waitAtMost(Duration.ofHours(1));
        Thread waiter = Thread.currentThread();
        Thread interrupter = new Thread(() -> {
            while (client.admin().getLock("held").waiters().isEmpty()) {
                Thread.onSpinWait();
            }
            waiter.interrupt();
        });
        interrupter.start();
        assertThrows(InterruptedException.class, waits::acquire);
        interrupter.join();
        while (!client.admin().getLock("held").waiters().isEmpty()) {
            Thread.sleep(5);
        }
        held.release();
    }
}
