package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.Failure.Origin;
import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.v1.AdminServiceGrpc;
import dev.leasehold.v1.GetStatusRequest;
import io.grpc.ConnectivityState;
import io.grpc.LoadBalancerProvider;
import io.grpc.LoadBalancerRegistry;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLException;

/** Connections, made by grpc-java's Netty transport. */
final class Transport {
    /** Interval of probes on a quiet connection of calls, and the time limit of their answers. */
    static final long KEEP_ALIVE_SECONDS = 10;
    /** Longest message, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one. */
    private static final int LONGEST_MESSAGE = 16 << 20;
    /**
     * Most bytes of a session's answers that may be on the way: as many as an opening with resumes takes in one message. A fixed number,
     * because gRPC would otherwise measure the connection all the time.
     */
    static final int UNREAD_ANSWERS = 1 << 20;

    /** Longest time for an answer to a question of what listens somewhere, in milliseconds. */
    private static final int PROBE_TIMEOUT = 1000;
    /** Beginning of a connection of HTTP/2, with empty settings. */
    private static final String PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    /** Errors of a connection that was closed without a word; it is reset if that was before all was read. */
    private static final List<String> WORDLESS = List.of("Network closed for unknown reason", "Connection reset", "Broken pipe");

    private static final String ONLY_HTTP1 =
            "what answers there is no coordinator's gRPC port (7420 by default), and may be its admin port (7421)";

    /** Policy of every channel. */
    private static final String POLICY = "pick_first";

    static {
        keepPolicy();
    }

    private Transport() {}

    /**
     * Registers the policy that every channel needs, if it is missing: in a jar into which others were merged, one list of services has
     * replaced the others of its name.
     */
    private static void keepPolicy() {
        LoadBalancerRegistry registry = LoadBalancerRegistry.getDefaultRegistry();
        if (registry.getProvider(POLICY) != null) {
            return;
        }
        try {
            Class<?> provider = Class.forName("io.grpc.internal.PickFirstLoadBalancerProvider");
            registry.register((LoadBalancerProvider) provider.getDeclaredConstructor().newInstance());
        } catch (ReflectiveOperationException e) {
            // Each attempt to connect says what is missing.
            System.getLogger("dev.leasehold").log(System.Logger.Level.WARNING, "gRPC has no policy " + POLICY, e);
        }
    }

    /** Returns the builder of connections to this address of an endpoint. */
    static NettyChannelBuilder builder(Settings settings, Endpoint endpoint, InetSocketAddress address) {
        NettyChannelBuilder builder = NettyChannelBuilder.forAddress(address)
                .overrideAuthority(settings.credentials().authority(endpoint))
                .userAgent("leasehold-java")
                .maxInboundMessageSize(LONGEST_MESSAGE)
                .flowControlWindow(UNREAD_ANSWERS)
                .disableRetry()
                .disableServiceConfigLookUp()
                .idleTimeout(1, TimeUnit.DAYS)
                // Also not one that the environment names.
                .proxyDetector(target -> null);
        if (endpoint.isEncrypted()) {
            builder.sslContext(settings.credentials().context());
        } else {
            builder.usePlaintext();
        }
        return builder;
    }

    /**
     * Waits until there is a connection. Returns why there is none; null if there is one.
     *
     * @param limit in nanoseconds
     * @param ended ends the wait early
     */
    static Failure ready(ManagedChannel channel, Candidate to, long limit, CompletableFuture<Void> ended) throws InterruptedException {
        String url = to.endpoint().url();
        long until = System.nanoTime() + limit;
        while (true) {
            ConnectivityState state = channel.getState(true);
            if (state == ConnectivityState.READY) {
                return null;
            }
            if (state == ConnectivityState.TRANSIENT_FAILURE || state == ConnectivityState.SHUTDOWN) {
                return reason(channel, to);
            }
            CompletableFuture<Void> changed = new CompletableFuture<>();
            channel.notifyWhenStateChanged(state, () -> changed.complete(null));
            try {
                CompletableFuture.anyOf(changed, ended).get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return noAnswer(url);
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
            if (ended.isDone()) {
                return noAnswer(url);
            }
        }
    }

    private static Failure noAnswer(String url) {
        return Failures.connection(Origin.UNREACHED, url, "no answer in time");
    }

    /** Returns why a connection failed: a call fails at once now, and says it. */
    private static Failure reason(ManagedChannel channel, Candidate to) {
        String url = to.endpoint().url();
        try {
            AdminServiceGrpc.newBlockingStub(channel)
                    .withDeadlineAfter(1, TimeUnit.SECONDS)
                    .getStatus(GetStatusRequest.getDefaultInstance());
            return null;
        } catch (StatusRuntimeException e) {
            Status status = e.getStatus();
            boolean isWordless = WORDLESS.stream().anyMatch(Failures.message(status)::contains);
            if (isWordless && !to.endpoint().isEncrypted() && speaksOnlyHttp1(to.address())) {
                return Failures.connection(Origin.DISTRUST, url, ONLY_HTTP1);
            }
            return Failures.connection(isDistrust(status) ? Origin.DISTRUST : Origin.UNREACHED, url, explain(Failures.message(status)));
        }
    }

    /** Returns whether what listens there answers to HTTP/1, and closes connections of HTTP/2 without a word. */
    private static boolean speaksOnlyHttp1(InetSocketAddress address) {
        try {
            return answer(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == 'H' && answer(address, PREFACE) < 0;
        } catch (IOException e) {
            return false;
        }
    }

    /** Says something. Returns the first character of the answer; -1 if the connection is closed. */
    private static int answer(InetSocketAddress address, String words) throws IOException {
        try (Socket socket = new Socket()) {
            socket.setSoTimeout(PROBE_TIMEOUT);
            socket.connect(address, PROBE_TIMEOUT);
            try {
                socket.getOutputStream().write(words.getBytes(StandardCharsets.ISO_8859_1));
                return socket.getInputStream().read();
            } catch (SocketException e) {
                // It was reset.
                return -1;
            }
        }
    }

    /**
     * Returns whether a connection failed because one side does not trust the other's certificate, or because what answers is no
     * coordinator: nothing that passes by itself.
     */
    private static boolean isDistrust(Status status) {
        for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
            if (cause instanceof SSLException || cause.getClass().getSimpleName().startsWith("Http2Exception")) {
                return true;
            }
        }
        String message = Failures.message(status);
        return message.contains("HTTP/2 client preface") || message.contains("First received frame was not SETTINGS");
    }

    /** Returns the words of a failed connection, with what to do where the cause is known. */
    private static String explain(String message) {
        if (message.contains("not an SSL/TLS record")) {
            return message + ": what answers there does not speak TLS; use http:// or the coordinator's TLS port";
        }
        if (message.contains("First received frame was not SETTINGS")) {
            return message + ": what answers there is no coordinator's gRPC port, or speaks TLS; use https:// there";
        }
        return message;
    }
}
