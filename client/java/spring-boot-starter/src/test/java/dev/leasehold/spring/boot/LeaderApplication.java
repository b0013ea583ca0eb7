package dev.leasehold.spring.boot;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.context.event.EventListener;
import org.springframework.integration.leader.event.OnGrantedEvent;
import org.springframework.integration.leader.event.OnRevokedEvent;

/** Application whose instances elect a leader. It says on stdout what happens, with the moment by the machine's monotonic clock. */
@SpringBootConfiguration
@EnableAutoConfiguration
class LeaderApplication {
    public static void main(String[] arguments) {
        SpringApplication.run(LeaderApplication.class, arguments);
    }

    private static void say(String what) {
        System.out.println("says " + what + " " + System.nanoTime());
    }

    @EventListener
    void ready(ApplicationReadyEvent event) {
        say("ready");
    }

    @EventListener
    void granted(OnGrantedEvent event) {
        say("granted");
    }

    @EventListener
    void revoked(OnRevokedEvent event) {
        say("revoked");
    }
}
