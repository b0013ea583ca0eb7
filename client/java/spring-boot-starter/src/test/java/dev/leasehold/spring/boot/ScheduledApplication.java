package dev.leasehold.spring.boot;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.shedlock.LeaseholdLockProvider;
import java.util.ConcurrentModificationException;
import java.util.Optional;
import java.util.concurrent.locks.Lock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import net.javacrumbs.shedlock.support.LockException;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.event.EventListener;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.OnGrantedEvent;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/**
 * Application with jobs by Spring's scheduler: under locks of ShedLock one at every second and one at an interval, and at an interval one under
 * a lock of the registry and one of the leader's. It says on stdout which attempts fail, and when a job began and ended, by the machine's
 * wall clock in milliseconds: of the last two, only if the lock was held, and the instance led, from before the beginning until after the
 * end.
 */
@SpringBootConfiguration
@EnableAutoConfiguration
@EnableScheduling
@EnableSchedulerLock(defaultLockAtMostFor = "30s")
class ScheduledApplication {
    /** Less than any limit of a call or of an attempt to connect. */
    private static final long PATIENCE = 4_000_000_000L;

    @Autowired
    private LockRegistry<?> locks;

    /** The leadership that this instance was granted last. */
    private volatile Context term;

    public static void main(String[] arguments) {
        SpringApplication.run(ScheduledApplication.class, arguments);
    }

    private static synchronized void say(String what, long... numbers) {
        StringBuilder line = new StringBuilder("says ").append(what);
        for (long number : numbers) {
            line.append(' ').append(number);
        }
        System.out.println(line);
    }

    @Bean
    LockProvider lockProvider(LeaseholdClient client) {
        LockProvider provider = new LeaseholdLockProvider(client);
        return configuration -> lock(provider, configuration);
    }

    /** Says that an attempt failed, unless it was tried for so long that a busy machine may be the reason. */
    private static void sayFailed(long begun) {
        if (System.nanoTime() - begun < PATIENCE) {
            say("failed");
        }
    }

    private static Optional<SimpleLock> lock(LockProvider provider, LockConfiguration configuration) {
        long begun = System.nanoTime();
        try {
            Optional<SimpleLock> lock = provider.lock(configuration);
            if (lock.isPresent()) {
                say(configuration.getName() + "-locked", System.currentTimeMillis(), configuration.getLockAtLeastUntil().toEpochMilli());
            }
            return lock;
        } catch (LockException e) {
            sayFailed(begun);
            throw e;
        }
    }

    private interface Check {
        boolean holds();
    }

    /** Runs a job, which counts if the check holds when it has ended. */
    private static void work(String job, Check counts) throws InterruptedException {
        long begun = System.currentTimeMillis();
        Thread.sleep(100);
        long ended = System.currentTimeMillis();
        if (counts.holds()) {
            say(job + "-ran", begun, ended);
        }
    }

    @Scheduled(cron = "* * * * * *")
    @SchedulerLock(name = "report", lockAtLeastFor = "900ms")
    void report() throws InterruptedException {
        work("report", () -> true);
    }

    @Scheduled(fixedDelay = 200)
    @SchedulerLock(name = "sweep", lockAtLeastFor = "1500ms")
    void sweep() throws InterruptedException {
        work("sweep", () -> true);
    }

    @Scheduled(fixedDelay = 200)
    void guarded() throws InterruptedException {
        long begun = System.nanoTime();
        try {
            Lock lock = locks.obtain("guarded");
            if (lock.tryLock()) {
                work("guarded", () -> {
                    lock.unlock();
                    return true;
                });
            }
        } catch (ConcurrentModificationException e) {
            say("lost");
        } catch (RuntimeException e) {
            sayFailed(begun);
        }
    }

    @EventListener
    void granted(OnGrantedEvent event) {
        term = event.getContext();
    }

    @Scheduled(fixedDelay = 200)
    void led() throws InterruptedException {
        Context led = term;
        if (led != null && led.isLeader()) {
            work("led", led::isLeader);
        }
    }
}
