package dev.leasehold.spring.boot;

import java.util.concurrent.locks.LockSupport;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.event.EventListener;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.OnGrantedEvent;
import org.springframework.integration.leader.event.OnRevokedEvent;

/**
 * Application whose instances elect a leader. It says on stdout what happens, with the moment by the machine's monotonic clock: of a
 * revocation, of which it may be told later, the last one at which it was the leader by its own account.
 */
@SpringBootConfiguration
@EnableAutoConfiguration
class LeaderApplication {
    private volatile long lastLed;

    public static void main(String[] arguments) {
        SpringApplication.run(LeaderApplication.class, arguments);
    }

    private static void say(String what, long at) {
        System.out.println("says " + what + " " + at);
    }

    private void watch(Context context) {
        // The moment is read before the question, and so before a pause in between.
        for (long now = System.nanoTime(); context.isLeader(); now = System.nanoTime()) {
            lastLed = now;
            LockSupport.parkNanos(1_000_000);
        }
    }

    @EventListener
    void ready(ApplicationReadyEvent event) {
        say("ready", System.nanoTime());
    }

    @EventListener
    void granted(OnGrantedEvent event) {
        say("granted", System.nanoTime());
        Thread watch = new Thread(() -> watch(event.getContext()));
        watch.setDaemon(true);
        watch.start();
    }

    @EventListener
    void revoked(OnRevokedEvent event) {
        say("revoked", lastLed);
    }
}
