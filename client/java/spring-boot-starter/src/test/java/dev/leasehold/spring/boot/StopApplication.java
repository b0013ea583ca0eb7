package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.shedlock.LeaseholdLockProvider;
import dev.leasehold.shedlock.LeaseholdSessionLockProvider;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/**
 * Application that works under a lock of each adapter until it is stopped. For as long as it works under one, a file of that name is in a
 * folder; it says on stdout when it has begun.
 */
@SpringBootConfiguration
@EnableAutoConfiguration
@EnableScheduling
class StopApplication {
    /** Locks, by the names of the files, in the order of the adapters. */
    static final String[] LOCKS = {"detached", "session", "registry", "method", "leader"};

    @Autowired
    private LeaseholdClient client;

    @Autowired
    private LockRegistry<?> locks;

    @Value("${folder}")
    private Path folder;

    public static void main(String[] arguments) {
        SpringApplication.run(StopApplication.class, arguments);
    }

    /** Works until it is interrupted, and needs a while to end then, whatever interrupts it once more. */
    private void work(String lock) throws IOException {
        Path inside = Files.createFile(folder.resolve(lock));
        System.out.println("says " + lock);
        try {
            Thread.sleep(TimeUnit.HOURS.toMillis(1));
        } catch (InterruptedException e) {
            for (long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(30); System.nanoTime() < until; ) {
                LockSupport.parkNanos(1_000_000);
            }
        }
        Files.delete(inside);
    }

    private void shedlock(LockProvider provider, String lock) throws Throwable {
        LockConfiguration configuration = new LockConfiguration(ClockProvider.now(), lock, Duration.ofHours(1), Duration.ZERO);
        new DefaultLockingTaskExecutor(provider).executeWithLock((LockingTaskExecutor.Task) () -> work(lock), configuration);
    }

    @Scheduled(fixedDelay = 1, timeUnit = TimeUnit.HOURS)
    void detached() throws Throwable {
        shedlock(new LeaseholdLockProvider(client, ""), "detached");
    }

    @Scheduled(fixedDelay = 1, timeUnit = TimeUnit.HOURS)
    void session() throws Throwable {
        shedlock(new LeaseholdSessionLockProvider(client, ""), "session");
    }

    @Scheduled(fixedDelay = 1, timeUnit = TimeUnit.HOURS)
    void registry() throws Exception {
        locks.executeLocked("registry", () -> work("registry"));
    }

    @Scheduled(fixedDelay = 1, timeUnit = TimeUnit.HOURS)
    @WithLock("method")
    public void method() throws IOException {
        work("method");
    }

    @Bean
    Candidate candidate() {
        return new DefaultCandidate("one", "leader") {
            @Override
            public void onGranted(Context context) {
                try {
                    work("leader");
                } catch (IOException e) {
                    throw new IllegalStateException(e);
                }
            }
        };
    }
}
