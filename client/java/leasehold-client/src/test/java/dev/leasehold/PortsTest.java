package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Ports of something else: that passes by no attempt, and the error says what to change. */
@Timeout(300)
class PortsTest {
    @Test
    void theAdminPortIsToldApartAndNotTriedForEver() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.adminAddress()).build()) {
            // It has no wait: it would try for ever.
            AcquireException failed = assertThrows(AcquireException.class, client.lock("a")::acquire);
            assertFalse(failed.isRetryable(), failed::getMessage);
            assertTrue(failed.getMessage().contains("no coordinator's gRPC port"), failed::getMessage);
            AcquireException call = assertThrows(AcquireException.class, client.detachedLock(LockSpec.exclusive("a"))::acquire);
            assertFalse(call.isRetryable(), call::getMessage);
        }
    }

    @Test
    void httpsToAPortWithoutTlsIsNotTriedForEver() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder("https://" + coordinator.address()).build()) {
            AcquireException failed = assertThrows(AcquireException.class, client.lock("a")::acquire);
            assertFalse(failed.isRetryable(), failed::getMessage);
            assertTrue(failed.getMessage().contains("does not speak TLS"), failed::getMessage);
        }
    }
}
