package dev.leasehold.shedlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.leasehold.AcquireException;
import dev.leasehold.ErrorKind;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LockEvent;
import dev.leasehold.WatchItem;
import dev.leasehold.Watcher;
import dev.leasehold.processes.Coordinator;
import dev.leasehold.processes.Redis;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.SocketTimeoutException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** ShedLock's own tests of a provider, with its fuzz test, against a coordinator. */
@Timeout(300)
class LeaseholdLockProviderTest extends AbstractExtensibleLockProviderIntegrationTest {
    /** The shortest TTL that a coordinator can be configured to accept. */
    private static final Duration LEAST = Duration.ofMillis(100);

    private static final Duration LONGER_THAN_A_CALL = Duration.ofSeconds(11);

    private static Coordinator coordinator;
    private static LeaseholdClient client;

    private final LeaseholdLockProvider provider = new LeaseholdLockProvider(client);

    @BeforeAll
    static void start() throws IOException {
        coordinator = Coordinator.start("--min-ttl", "100ms");
        client = LeaseholdClient.builder(coordinator.url()).build();
    }

    @AfterAll
    static void stop() {
        client.close();
        coordinator.close();
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return provider;
    }

    private boolean isFree(String name) {
        try {
            client.detachedLock("shedlock/" + name).acquire().release();
            return true;
        } catch (AcquireException e) {
            assertThat(e.kind()).isEqualTo(ErrorKind.BUSY);
            return false;
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    protected void assertUnlocked(String name) {
        assertThat(isFree(name)).isTrue();
    }

    @Override
    protected void assertLocked(String name) {
        assertThat(isFree(name)).isFalse();
    }

    /** ShedLock's asks for 50 ms. */
    @Test
    @Override
    public void shouldTimeout() {
        assertThat(provider.lock(lockConfig(LOCK_NAME1, LEAST, Duration.ZERO))).isPresent();
        sleepFor(LEAST.multipliedBy(2));
        assertUnlocked(LOCK_NAME1);
        provider.lock(lockConfig(LOCK_NAME1, LEAST, Duration.ZERO)).orElseThrow().unlock();
    }

    /** ShedLock's asks for 1 ms. */
    @Test
    @Override
    public void shouldNotBeAbleToExtendExpiredLock() {
        SimpleLock lock = provider.lock(lockConfig(LOCK_NAME1, LEAST, Duration.ZERO)).orElseThrow();
        sleepFor(LEAST.multipliedBy(2));
        assertThat(lock.extend(Duration.ofSeconds(10), Duration.ZERO)).isEmpty();
        assertUnlocked(LOCK_NAME1);
    }

    @Test
    void aRestThatIsTooShortForATtlIsWaitedFor() {
        long begun = System.nanoTime();
        SimpleLock lock = provider.lock(lockConfig(LOCK_NAME1, Duration.ofSeconds(10), Duration.ofMillis(300))).orElseThrow();
        lock.unlock();
        assertThat(Duration.ofNanos(System.nanoTime() - begun)).isGreaterThan(Duration.ofMillis(290));
        assertUnlocked(LOCK_NAME1);
    }

    @Test
    void workThatIsInterruptedStillUnlocks() {
        SimpleLock lock = provider.lock(lockConfig(LOCK_NAME1)).orElseThrow();
        Thread.currentThread().interrupt();
        lock.unlock();
        assertThat(Thread.interrupted()).isTrue();
        assertUnlocked(LOCK_NAME1);
    }

    @Test
    void anInterruptLeavesTheLockUntilItsTimeHasPassed() throws Exception {
        BlockingQueue<LockEvent.Kind> told = new LinkedBlockingQueue<>();
        // The rest of its time is just that, however long the calls take.
        ClockProvider.setClock(Clock.fixed(Instant.now(), ZoneOffset.UTC));
        try (Watcher watcher = client.admin().watch("shedlock/" + LOCK_NAME1, item -> note(item, told), failure -> {})) {
            while (!watcher.isReady()) {
                Thread.sleep(5);
            }
            SimpleLock lock = provider.lock(lockConfig(LOCK_NAME1, Duration.ofSeconds(10), Duration.ofMillis(900))).orElseThrow();
            Thread.currentThread().interrupt();
            lock.unlock();
            assertThat(Thread.interrupted()).isTrue();
            assertThat(told.take()).isEqualTo(LockEvent.Kind.GRANTED);
            assertThat(told.take()).isEqualTo(LockEvent.Kind.EXPIRED);
        } finally {
            ClockProvider.setClock(Clock.systemUTC());
        }
    }

    private static void note(WatchItem item, BlockingQueue<LockEvent.Kind> told) {
        if (item instanceof WatchItem.Event event) {
            told.add(event.event().kind());
        }
    }

    @Test
    void anExtensionOutlastsARestart() throws Exception {
        try (Redis redis = Redis.start()) {
            Coordinator first = Coordinator.start("--store", redis.url());
            String address = first.address();
            try (LeaseholdClient there = LeaseholdClient.builder(first.url()).build()) {
                LeaseholdLockProvider locks = new LeaseholdLockProvider(there);
                SimpleLock lock = locks.lock(lockConfig(LOCK_NAME1, Duration.ofSeconds(60), Duration.ZERO)).orElseThrow();
                first.close();
                FutureTask<Optional<SimpleLock>> extension =
                        new FutureTask<>(() -> lock.extend(Duration.ofSeconds(60), Duration.ZERO));
                try (ServerSocket nobody = new ServerSocket()) {
                    nobody.setReuseAddress(true);
                    nobody.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(address.split(":")[1])));
                    nobody.setSoTimeout(100);
                    new Thread(extension).start();
                    // It tries again and again, for longer than one call.
                    long end = System.nanoTime() + LONGER_THAN_A_CALL.toNanos();
                    while (System.nanoTime() < end && !extension.isDone()) {
                        refuse(nobody);
                    }
                }
                try (Coordinator second = Coordinator.start("--store", redis.url(), "--listen", address)) {
                    SimpleLock extended = extension.get().orElseThrow();
                    assertThat(locks.lock(lockConfig(LOCK_NAME1))).isEmpty();
                    extended.unlock();
                    assertThat(locks.lock(lockConfig(LOCK_NAME1))).isPresent();
                }
            }
        }
    }

    /** Closes the next connection, if one comes soon. */
    private static void refuse(ServerSocket listener) throws IOException {
        try {
            listener.accept().close();
        } catch (SocketTimeoutException e) {
            return;
        }
    }

    @Test
    void aTimeOutOfBoundsIsRefused() {
        assertThatThrownBy(() -> provider.lock(lockConfig(LOCK_NAME1, Duration.ofHours(2), Duration.ZERO)))
                .isInstanceOf(LockException.class)
                .cause()
                .hasMessageContaining("ttl");
    }

    @Test
    void itFailsIfNoCoordinatorCanBeReached() {
        try (LeaseholdClient nobody = LeaseholdClient.builder("http://127.0.0.1:1").build()) {
            assertThatThrownBy(() -> new LeaseholdLockProvider(nobody).lock(lockConfig(LOCK_NAME1)))
                    .isInstanceOf(LockException.class);
        }
    }
}
