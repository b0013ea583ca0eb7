package com.example;

import dev.leasehold.LeaseholdClient;
import dev.leasehold.spring.boot.WithLock;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootVersion;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.event.EventListener;
import org.springframework.integration.leader.event.OnGrantedEvent;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** Application that uses everything that the starter makes, prints what worked, and ends. */
@SpringBootApplication
@EnableScheduling
@EnableSchedulerLock(defaultLockAtMostFor = "10m")
public class Smoke {
    private static final CountDownLatch SCHEDULED = new CountDownLatch(1);
    private static final CountDownLatch LOCKED = new CountDownLatch(1);
    private static final CountDownLatch LEADS = new CountDownLatch(1);

    private final LeaseholdClient client;

    Smoke(LeaseholdClient client) {
        this.client = client;
    }

    @Scheduled(fixedDelay = 60_000)
    @SchedulerLock(name = "task")
    public void task() {
        SCHEDULED.countDown();
    }

    @Scheduled(fixedDelay = 60_000)
    @WithLock("annotated")
    public void annotated() {
        check(!client.admin().getLock("annotated").holders().isEmpty(), "annotated lock");
        LOCKED.countDown();
    }

    @EventListener
    void granted(OnGrantedEvent event) {
        LEADS.countDown();
    }

    private static void check(boolean isGood, String what) {
        if (!isGood) {
            System.out.println("failed: " + what);
            System.exit(1);
        }
    }

    private static void await(CountDownLatch latch, String what) throws InterruptedException {
        check(latch.await(60, TimeUnit.SECONDS), what);
    }

    public static void main(String[] arguments) throws Exception {
        ConfigurableApplicationContext made = SpringApplication.run(Smoke.class, arguments);
        LeaseholdClient client = made.getBean(LeaseholdClient.class);
        Lock lock = made.getBean(LockRegistry.class).obtain("registry");
        lock.lock();
        check(client.lock("registry").tryAcquire().isEmpty(), "lock registry");
        lock.unlock();
        await(SCHEDULED, "ShedLock");
        await(LOCKED, "@WithLock");
        await(LEADS, "leader initiator");
        check(made.getBean(LockProvider.class) != null, "lock provider");
        Object health = made.getBean("leaseholdHealthIndicator");
        Object status = health.getClass().getMethod("health").invoke(health);
        check(status.toString().contains("UP"), "health: " + status);
        made.close();
        System.out.println("works with " + Map.of("Spring Boot", SpringBootVersion.getVersion(), "Java", Runtime.version().feature()));
    }
}
