package dev.leasehold.spring.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.LeaseholdClient;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.AbstractCandidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.AbstractLeaderEvent;
import org.springframework.integration.leader.event.OnGrantedEvent;

@Timeout(300)
class LeaseholdLeaderInitiatorTest {
    private static Clients clients;

    private final LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();

    @BeforeAll
    static void start() throws IOException {
        clients = new Clients();
    }

    @AfterAll
    static void stop() {
        clients.close();
    }

    /** Candidate that tells what happens to it. */
    private class Telling extends AbstractCandidate {
        Telling(String id, String role) {
            super(id, role);
        }

        @Override
        public void onGranted(Context context) throws InterruptedException {
            told.add(getId() + " granted");
        }

        @Override
        public void onRevoked(Context context) {
            assertFalse(context.isLeader());
            told.add(getId() + " revoked");
        }
    }

    private void expect(String wanted) throws InterruptedException {
        assertEquals(wanted, Clients.next(told));
    }

    @Test
    void oneLeadsUntilItStops() throws Exception {
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "stop"));
        LeaseholdLeaderInitiator two = new LeaseholdLeaderInitiator(clients.two, new Telling("two", "stop"));
        assertFalse(one.getContext().isLeader());
        one.start();
        expect("one granted");
        assertTrue(one.getContext().isLeader());
        assertEquals("stop", one.getContext().getRole());
        assertEquals("one", new String(clients.two.election("stop").leader().orElseThrow().value()));
        two.start();
        one.stop();
        expect("one revoked");
        assertFalse(one.isRunning());
        expect("two granted");
        // It can be started again, and waits.
        one.start();
        two.destroy();
        expect("two revoked");
        expect("one granted");
        one.stop();
        expect("one revoked");
        assertTrue(clients.two.election("stop").leader().isEmpty());
        assertNull(told.poll());
    }

    @Test
    void aCandidateThatYieldsIsElectedBehindTheOthers() throws Exception {
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "yield"));
        LeaseholdLeaderInitiator two = new LeaseholdLeaderInitiator(clients.two, new Telling("two", "yield"));
        one.start();
        expect("one granted");
        two.start();
        one.getContext().yield();
        expect("one revoked");
        // The other one may not have been a candidate yet.
        String next = Clients.next(told);
        assertTrue(next.endsWith(" granted"), next);
        one.stop();
        two.stop();
    }

    @Test
    void aLossRevokesAndItCampaignsAgain() throws Exception {
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "loss"));
        one.start();
        expect("one granted");
        clients.one.session().close(Duration.ZERO);
        expect("one revoked");
        expect("one granted");
        one.stop();
        expect("one revoked");
    }

    @Test
    void aCloseOfTheClientWaitsForTheCandidate() throws Exception {
        LeaseholdClient closed = LeaseholdClient.builder(clients.coordinator.url()).closeTimeout(Duration.ofSeconds(30)).build();
        CountDownLatch mayEnd = new CountDownLatch(1);
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(closed, new Telling("one", "close") {
            @Override
            public void onRevoked(Context context) {
                told.add("one asked to end");
                try {
                    mayEnd.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                super.onRevoked(context);
            }
        });
        LeaseholdLeaderInitiator two = new LeaseholdLeaderInitiator(clients.two, new Telling("two", "close"));
        one.start();
        expect("one granted");
        two.start();
        Thread closing = new Thread(closed::close);
        closing.start();
        expect("one asked to end");
        assertEquals("one", new String(clients.two.election("close").leader().orElseThrow().value()));
        mayEnd.countDown();
        expect("one revoked");
        expect("two granted");
        closing.join();
        one.stop();
        two.stop();
    }

    @Test
    void workIsInterruptedAndNobodyLeadsBeforeItHasEnded() throws Exception {
        CountDownLatch mayEnd = new CountDownLatch(1);
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "work") {
            @Override
            public void onGranted(Context context) throws InterruptedException {
                super.onGranted(context);
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    told.add("one interrupted");
                    mayEnd.await();
                    throw e;
                }
            }
        });
        LeaseholdLeaderInitiator two = new LeaseholdLeaderInitiator(clients.two, new Telling("two", "work"));
        one.start();
        expect("one granted");
        two.start();
        one.stop(() -> told.add("one stopped"));
        expect("one interrupted");
        assertEquals("one", new String(clients.two.election("work").leader().orElseThrow().value()));
        mayEnd.countDown();
        expect("one revoked");
        String first = Clients.next(told);
        String second = Clients.next(told);
        assertTrue(first.equals("two granted") || second.equals("two granted"), first + ", " + second);
        two.stop();
    }

    @Test
    void workThatFailsYields() throws Exception {
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "fails") {
            private boolean hasFailed;

            @Override
            public void onGranted(Context context) throws InterruptedException {
                super.onGranted(context);
                if (!hasFailed) {
                    hasFailed = true;
                    throw new IllegalStateException("planned");
                }
            }
        });
        one.start();
        expect("one granted");
        expect("one revoked");
        expect("one granted");
        one.stop();
    }

    @Test
    void listenersAreTold() throws Exception {
        LinkedBlockingQueue<Object> events = new LinkedBlockingQueue<>();
        LeaseholdLeaderInitiator one = new LeaseholdLeaderInitiator(clients.one, new Telling("one", "events"));
        one.setApplicationEventPublisher(events::add);
        one.start();
        AbstractLeaderEvent event = (AbstractLeaderEvent) Clients.next(events);
        assertTrue(event instanceof OnGrantedEvent, event.toString());
        assertEquals("events", event.getRole());
        one.stop();
    }
}
