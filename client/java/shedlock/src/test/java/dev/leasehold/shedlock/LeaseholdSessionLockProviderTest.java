package dev.leasehold.shedlock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
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
        SimpleLock longer = provider.lock(configuration("b", Duration.ofSeconds(2))).orElseThrow();
        longer.unlock();
        assertThat(isFree("b")).isFalse();
        client.close();
        // It ends with the session.
        assertThat(isFree("b")).isTrue();
        assertThatThrownBy(() -> provider.lock(configuration("c", Duration.ZERO))).isInstanceOf(LockException.class);
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
                            try {
                                goes.await();
                            } catch (InterruptedException e) {
                                throw new IllegalStateException(e);
                            }
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
