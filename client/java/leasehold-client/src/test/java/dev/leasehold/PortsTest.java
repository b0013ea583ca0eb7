package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.processes.Coordinator;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
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
    void aPortThatResetsConnectionsOfHttp2IsToldApart() throws Exception {
        try (ServerSocket port = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                LeaseholdClient client = LeaseholdClient.builder("127.0.0.1:" + port.getLocalPort()).build()) {
            Thread serving = new Thread(() -> serveHttp1(port));
            serving.start();
            AcquireException failed = assertThrows(AcquireException.class, client.lock("a")::acquire);
            assertFalse(failed.isRetryable(), failed::getMessage);
            assertTrue(failed.getMessage().contains("no coordinator's gRPC port"), failed::getMessage);
        }
    }

    /** Answers to HTTP/1, and resets other connections, until the socket is closed. */
    private static void serveHttp1(ServerSocket port) {
        while (true) {
            try (Socket socket = port.accept()) {
                if (socket.getInputStream().read() == 'G') {
                    socket.getOutputStream().write("HTTP/1.1 200 OK\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                } else {
                    socket.setSoLinger(true, 0);
                }
            } catch (IOException e) {
                if (port.isClosed()) {
                    return;
                }
            }
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
