package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.Failure.Origin;
import dev.leasehold.internal.machine.Moments;
import io.grpc.CallOptions;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Calls of a client that need no session: single calls, and streams of events. All go to one coordinator, until that can't be reached or its
 * connection breaks; then to the next.
 */
public final class Calls {
    /** Limit of one call. */
    static final long CALL_TIMEOUT_SECONDS = 10;

    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    /** Rule for repeating a call at the next coordinator. */
    public enum Rule {
        /** The call changes nothing. */
        FREELY,
        /** The call may be repeated only if it was not carried out. */
        UNSENT
    }

    /** Name of a connection. It keeps the certificates that it was made with for as long as it lives. */
    private record Key(int endpoint, long certificates) {}

    /**
     * Connection in use.
     *
     * @param channel the connection
     * @param url the coordinator's URL
     * @param moved how often the calls had moved on, for {@link #moveOn}
     */
    record Use(ManagedChannel channel, String url, int moved) {}

    private final Settings settings;
    private final Map<Key, ManagedChannel> made = new HashMap<>();
    /** Number of times that the calls have moved on; modulo the number of endpoints, the one in use. A random one at first. */
    private int moved;

    private final CompletableFuture<Void> closed = new CompletableFuture<>();

    /** Makes the calls of a client. */
    public Calls(Settings settings) {
        this.settings = settings;
        this.moved = ThreadLocalRandom.current().nextInt(settings.endpoints().size());
    }

    /** Returns the settings of the client. */
    public Settings settings() {
        return settings;
    }

    /** Returns the connection to the coordinator in use. */
    synchronized Use use() throws CallFailedException {
        Endpoint endpoint = settings.endpoints().get(moved % settings.endpoints().size());
        if (closed.isDone()) {
            throw new CallFailedException(Failures.connection(Origin.UNREACHED, endpoint.url(), "the client was closed"));
        }
        Key key = new Key(moved % settings.endpoints().size(), settings.credentials().certificates());
        // Old ones end after the calls that they carry.
        List<Key> old = new ArrayList<>();
        for (Map.Entry<Key, ManagedChannel> entry : made.entrySet()) {
            boolean isOld = entry.getKey().certificates != key.certificates;
            // It pauses before its next attempt, for longer and longer. A call that comes now is to find out now.
            boolean hasFailed = entry.getValue().getState(false) == ConnectivityState.TRANSIENT_FAILURE;
            if (isOld || hasFailed) {
                old.add(entry.getKey());
            }
        }
        old.forEach(one -> made.remove(one).shutdown());
        ManagedChannel channel = made.get(key);
        if (channel == null) {
            List<Endpoint.Candidate> candidates = new ArrayList<>();
            List<dev.leasehold.internal.machine.ConnectFailure> failures = new ArrayList<>();
            endpoint.resolve(candidates, failures);
            if (candidates.isEmpty()) {
                throw new CallFailedException(failures.get(0).failure());
            }
            InetSocketAddress address = candidates.get(ThreadLocalRandom.current().nextInt(candidates.size())).address();
            channel = Transport.builder(settings, endpoint, address)
                    // Probed while there are streams, because no message comes for as long as nothing happens.
                    .keepAliveTime(Transport.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                    .keepAliveTimeout(Transport.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                    .build();
            made.put(key, channel);
        }
        return new Use(channel, endpoint.url(), moved);
    }

    /** Sends later calls to the next coordinator, because the connection of one failed that began when they had moved on so often. */
    synchronized void moveOn(int since, Failure failure) {
        // Another call may have moved them on already.
        if (moved == since && settings.endpoints().size() > 1) {
            moved++;
            LOG.log(System.Logger.Level.DEBUG, "calls go to the next coordinator: {0}", failure);
        }
    }

    /** Returns the headers of a call, with the token and what the program's hook adds. */
    Metadata headers() {
        Metadata headers = settings.credentials().headers();
        settings.propagated().forEach((key, value) ->
                headers.put(Metadata.Key.of(key.toLowerCase(Locale.ROOT), Metadata.ASCII_STRING_MARSHALLER), value));
        return headers;
    }

    /** Makes a call, at the next coordinator if the connection to one fails. */
    public <Q, A> A call(Rule rule, MethodDescriptor<Q, A> method, Q request) throws CallFailedException {
        return call(rule, method, request, 0, () -> {});
    }

    /**
     * Makes a call, at the next coordinator if the connection to one fails.
     *
     * @param wait time that the coordinator may take besides, in nanoseconds
     * @param sending is called before each attempt is sent
     */
    public <Q, A> A call(Rule rule, MethodDescriptor<Q, A> method, Q request, long wait, Runnable sending)
            throws CallFailedException {
        for (int left = settings.endpoints().size(); ; left--) {
            try {
                return callOnce(method, request, wait, sending);
            } catch (CallFailedException e) {
                Failure failure = e.failure();
                boolean mayRepeat = rule == Rule.FREELY || failure.origin() == Origin.UNREACHED || failure.isDraining();
                if (left <= 1 || !mayRepeat || !failure.isTransport() && !failure.isDraining()) {
                    throw e;
                }
            }
        }
    }

    private <Q, A> A callOnce(MethodDescriptor<Q, A> method, Q request, long wait, Runnable sending) throws CallFailedException {
        long limit = Moments.after(TimeUnit.SECONDS.toNanos(CALL_TIMEOUT_SECONDS), wait);
        Use use = use();
        Failure failure;
        try {
            failure = Transport.ready(
                    use.channel, use.url, TimeUnit.SECONDS.toNanos(CALL_TIMEOUT_SECONDS), new CompletableFuture<>());
            if (failure == null) {
                sending.run();
                return ClientCalls.blockingUnaryCall(
                        ClientInterceptors.intercept(use.channel, MetadataUtils.newAttachHeadersInterceptor(headers())),
                        method,
                        CallOptions.DEFAULT.withDeadlineAfter(limit, TimeUnit.NANOSECONDS),
                        request);
            }
        } catch (StatusRuntimeException e) {
            failure = Failures.of(use.url, e.getStatus(), e.getTrailers());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CallFailedException(Failures.connection(Origin.UNREACHED, use.url, "the thread was interrupted"));
        }
        if (failure.isTransport() || failure.isDraining()) {
            moveOn(use.moved, failure);
        }
        throw new CallFailedException(failure);
    }

    /** Ends all calls. */
    public synchronized void close() {
        closed.complete(null);
        made.values().forEach(ManagedChannel::shutdownNow);
        made.clear();
    }

    /** Returns a future that is completed when the client is closed. */
    CompletableFuture<Void> closed() {
        return closed;
    }
}
