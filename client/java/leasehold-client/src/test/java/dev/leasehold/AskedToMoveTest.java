package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Session whose coordinator asks it to move, and goes on serving, where no other stream is to be had. It runs beside other tests. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(300)
class AskedToMoveTest {
    @Test
    void aSessionGoesOnWhileItCantMoveAndMovesWhenItCan() throws Exception {
        try (Coordinator coordinator = Coordinator.start("--max-stream-size", "65536");
                Relay relay = new Relay();
                LeaseholdClient client = LeaseholdClient.builder(relay.to(coordinator.address())).connect()) {
            Session session = client.session();
            Hold hold = client.lock("held").acquire();
            relay.isRefusing = true;
            String first = session.info().orElseThrow().sessionId();
            // It is asked after 16 of these, and again after as many more.
            byte[] value = new byte[4096];
            for (int i = 0; i < 100; i++) {
                client.lock("a").value(value).acquire().release();
                hold.check();
            }
            assertEquals(first, session.info().orElseThrow().sessionId());
            assertTrue(session.drainsIn().isEmpty());
            relay.isRefusing = false;
            while (session.info().filter(info -> !info.sessionId().equals(first)).isEmpty()) {
                Thread.sleep(10);
            }
            hold.check();
            assertEquals(hold.token(), client.admin().getLock("held").holders().get(0).token());
            hold.release();
        }
    }
}
