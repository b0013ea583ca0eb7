package dev.leasehold.shedlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicBoolean;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Locks of ShedLock on a session: they end with their process, and a close waits for their tasks. */
@Timeout(300)
class LeaseholdSessionLockProviderTest {
    private static Coordinator coordinator;
    private static LeaseholdClient other;
    private LeaseholdClient client;
    private LockProvider provider;

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
        provider = new LeaseholdSessionLockProvider(client);
    }

    private static LockConfiguration configuration(String name, Duration least) {
        return new LockConfiguration(ClockProvider.now(), name, Duration.ofMinutes(10), least);
    }

    private static boolean isFree(String name) throws InterruptedException {
        return other.lock("shedlock/" + name).tryAcquire().map(hold -> {
            hold.release();
            return true;
        }).orElse(false);
    }

    @Test
    void aLockIsHeldUntilItIsUnlocked() throws Exception {
        SimpleLock lock = provider.lock(configuration("a", Duration.ZERO)).orElseThrow();
        assertThat(isFree("a")).isFalse();
        assertThat(provider.lock(configuration("a", Duration.ZERO))).isEmpty();
        lock.unlock();
        assertThat(isFree("a")).isTrue();
        SimpleLock longer = provider.lock(configuration("b", Duration.ofMinutes(9))).orElseThrow();
        longer.unlock();
        assertThat(isFree("b")).isFalse();
        client.close();
        // It ends with the session.
        assertThat(isFree("b")).isTrue();
        assertThatThrownBy(() -> provider.lock(configuration("c", Duration.ZERO))).isInstanceOf(LockException.class);
    }

    /** Waits for the latch, and for a little while after it. */
    private static void await(CountDownLatch latch) {
        try {
            latch.await();
            Thread.sleep(2);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aHundredClosesHandTheLockOnWhenTheTaskHasEnded(boolean isOnSession) throws Exception {
        for (int round = 0; round < 100; round++) {
            LeaseholdClient closed = LeaseholdClient.builder(coordinator.url())
                    .connectTimeout(Duration.ofMinutes(1))
                    .closeTimeout(Duration.ofMinutes(1))
                    .build();
            LockProvider one = isOnSession ? new LeaseholdSessionLockProvider(closed) : new LeaseholdLockProvider(closed);
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch closing = new CountDownLatch(1);
            AtomicBoolean isInside = new AtomicBoolean(true);
            FutureTask<Void> task = new FutureTask<>(() -> {
                new DefaultLockingTaskExecutor(one).executeWithLock(
                        (Runnable) () -> {
                            begun.countDown();
                            await(closing);
                            isInside.set(false);
                        },
                        configuration("hundred", Duration.ZERO));
                return null;
            });
            new Thread(task).start();
            begun.await();
            CompletableFuture<Hold> next = other.lock("shedlock/hundred").acquireAsync();
            while (other.admin().getLock("shedlock/hundred").waiterCount() == 0) {
                Thread.sleep(1);
            }
            closing.countDown();
            closed.close();
            Hold hold = next.get();
            assertThat(isInside).isFalse();
            hold.release();
            assertThat(task).succeedsWithin(Duration.ofMinutes(1)).isNull();
        }
    }

    @Test
    void aCloseWaitsForTasksOfBothProviders() throws Exception {
        for (boolean isOnSession : new boolean[] {true, false}) {
            LockProvider one = isOnSession ? provider : new LeaseholdLockProvider(client);
            String name = one.getClass().getSimpleName();
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch goes = new CountDownLatch(1);
            FutureTask<Void> task = new FutureTask<>(() -> {
                new DefaultLockingTaskExecutor(one).executeWithLock(
                        (Runnable) () -> {
                            begun.countDown();
                            await(goes);
                        },
                        configuration(name, Duration.ZERO));
                return null;
            });
            new Thread(task).start();
            begun.await();
            FutureTask<Void> closing = new FutureTask<>(() -> {
                client.close();
                return null;
            });
            new Thread(closing).start();
            assertThat(isFree(name)).isFalse();
            assertThat(closing.isDone()).isFalse();
            goes.countDown();
            task.get();
            closing.get();
            assertThat(isFree(name)).isTrue();
            connect();
        }
    }
}
