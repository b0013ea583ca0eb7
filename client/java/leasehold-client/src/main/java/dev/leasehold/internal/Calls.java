package dev.leasehold.internal;

import dev.leasehold.ErrorKind;
import dev.leasehold.Failure;
import dev.leasehold.Failure.Origin;
import dev.leasehold.LeaseholdException;
import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.internal.machine.ConnectFailure;
import dev.leasehold.internal.machine.Moments;
import io.grpc.CallOptions;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.Context.CancellableContext;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Calls of a client that need no session: single calls, and streams of events. All go to one address of a coordinator, until that can't be
 * reached, goes away, or its connection breaks; then to another one.
 */
public final class Calls {
    /** Limit of one call, besides the wait that it asks for. */
    static final long CALL_TIMEOUT_SECONDS = 10;

    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    /** Rule for repeating a call at another address. */
    public enum Rule {
        /** The call does no more if it is carried out twice. */
        FREELY,
        /** The call may be repeated only if it was not carried out. */
        UNSENT
    }

    /**
     * Repeats of a call.
     *
     * @param rule rule for repeating it
     * @param longestWait time that the coordinator may take besides, in nanoseconds
     * @param until moment until which it is repeated when every address has failed in a way that may pass
     */
    public record Repeats(Rule rule, long longestWait, long until) {
        /** Returns those of a call that is made once at each address, and waits there for this long. */
        public static Repeats none(Rule rule, long longestWait) {
            return new Repeats(rule, longestWait, Long.MIN_VALUE);
        }

        /** Returns those of a call that does no more if it is carried out twice, and is worth repeating until then. */
        public static Repeats until(long moment) {
            return new Repeats(Rule.FREELY, 0, moment);
        }
    }

    /**
     * Answer to a call.
     *
     * @param answer the coordinator's answer
     * @param sentAt moment at which the request that it answers was sent
     * @param isRepeat whether an earlier request may have been carried out
     */
    public record Answer<A>(A answer, long sentAt, boolean isRepeat) {}

    /** Name of a connection. It keeps the certificates that it was made with for as long as it lives. */
    private record Key(Candidate to, long certificates) {}

    /**
     * Connection in use.
     *
     * @param channel the connection
     * @param to where it leads to
     */
    record Use(ManagedChannel channel, Candidate to) {
        String url() {
            return to.endpoint().url();
        }
    }

    private final Settings settings;
    private final Route route;
    private final Map<Key, ManagedChannel> made = new HashMap<>();
    /** Where calls go; null before the first, and after a failure. */
    private Candidate present;
    /** Number of addresses that were found the last time. */
    private int found = 1;

    private final Bodies bodies = new Bodies();
    /** Acquires that wait. */
    private final Set<CancellableContext> waits = new HashSet<>();
    /** Set when no acquires are taken any more. */
    private boolean isRefusing;

    private final CompletableFuture<Void> closed = new CompletableFuture<>();

    /** Makes the calls of a client. */
    public Calls(Settings settings) {
        this.settings = settings;
        this.route = new Route(settings.endpoints().size(), new Random());
    }

    /** Returns the settings of the client. */
    public Settings settings() {
        return settings;
    }

    /** Returns the connection to the coordinator in use. Fails with {@link ErrorKind#CLOSED} once the client is closed. */
    Use use() throws CallFailedException {
        return use(Set.of());
    }

    /** Returns a connection to an address that is none of these; null if there is none left. Fails if no name has an address. */
    private Use use(Set<Candidate> tried) throws CallFailedException {
        requireOpen();
        Candidate to;
        synchronized (this) {
            to = present;
        }
        if (to == null || tried.contains(to)) {
            to = another(tried);
        }
        return to == null ? null : connection(to);
    }

    private void requireOpen() {
        if (closed.isDone()) {
            throw new LeaseholdException(ErrorKind.CLOSED, "the client was closed", null);
        }
    }

    /** Chooses the address for this call and later ones; null if there is none but these. */
    private Candidate another(Set<Candidate> tried) throws CallFailedException {
        List<Candidate> candidates = new ArrayList<>();
        List<ConnectFailure> failures = new ArrayList<>();
        for (Endpoint endpoint : settings.endpoints()) {
            endpoint.resolve(candidates, failures);
        }
        if (candidates.isEmpty() && tried.isEmpty()) {
            throw new CallFailedException(failures.get(0).failure());
        }
        synchronized (this) {
            found = candidates.size();
            if (present == null || tried.contains(present)) {
                present = route.round(candidates, BootClock.now()).stream()
                        .filter(one -> !tried.contains(one))
                        .findFirst()
                        .orElse(null);
            }
            return present;
        }
    }

    private synchronized int found() {
        return found;
    }

    private synchronized Use connection(Candidate to) {
        requireOpen();
        Key key = new Key(to, settings.credentials().certificates());
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
            channel = Transport.builder(settings, to.endpoint(), to.address())
                    // Probed while there are calls, because no message comes for as long as nothing happens.
                    .keepAliveTime(Transport.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                    .keepAliveTimeout(Transport.KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                    .build();
            made.put(key, channel);
        }
        return new Use(channel, to);
    }

    /** Sends later calls to another address, because this one failed. */
    synchronized void moveOn(Use failed, Failure failure) {
        route.failed(failed.to, BootClock.now());
        made.values().remove(failed.channel);
        failed.channel.shutdown();
        if (failed.to.equals(present)) {
            present = null;
            LOG.log(System.Logger.Level.DEBUG, "calls go to another address: {0}", failure);
        }
    }

    /** Returns the headers of a call, with the token and what the program's hook adds. */
    Metadata headers() {
        Metadata headers = settings.credentials().headers();
        settings.propagated().forEach((key, value) ->
                headers.put(Metadata.Key.of(key.toLowerCase(Locale.ROOT), Metadata.ASCII_STRING_MARSHALLER), value));
        return headers;
    }

    /** Makes a call, at every address until one answers. An interrupt ends it, and is kept. */
    public <Q, A> A call(Rule rule, MethodDescriptor<Q, A> method, Q request) throws CallFailedException {
        try {
            return call(Repeats.none(rule, 0), method, () -> request).answer();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CallFailedException(Failures.connection(Origin.UNREACHED, "", "the thread was interrupted"));
        }
    }

    /**
     * Makes a call, at every address until one answers, and again after a pause if it is to be repeated for longer.
     *
     * @param request makes the request, each time that it is sent
     */
    public <Q, A> Answer<A> call(Repeats repeats, MethodDescriptor<Q, A> method, Supplier<Q> request)
            throws CallFailedException, InterruptedException {
        Call<Q, A> call = new Call<>(repeats, method, request);
        Pauses pauses = new Pauses(settings.backoffMin(), settings.backoffMax());
        for (Failure failure = call.round(); failure != null; failure = call.round()) {
            long now = BootClock.now();
            long last = Math.min(repeats.until, call.end);
            if (!call.mayPass || now >= last) {
                throw new CallFailedException(failure);
            }
            long pause = pauses.pauseAsAsked(now, Moments.nanos(failure.retryAfter()));
            TimeUnit.NANOSECONDS.sleep(Math.min(pause, last - now));
        }
        return call.answer;
    }

    /** One call, until an address answers. */
    private final class Call<Q, A> {
        private final Repeats repeats;
        private final MethodDescriptor<Q, A> method;
        private final Supplier<Q> request;
        private final long waitEnds;
        private final long end;
        private Answer<A> answer;
        /** Set when a request had no answer, and may have been carried out. */
        private boolean isRepeat;
        /** Set when something failed that may pass. */
        private boolean mayPass;

        Call(Repeats repeats, MethodDescriptor<Q, A> method, Supplier<Q> request) {
            this.repeats = repeats;
            this.method = method;
            this.request = request;
            waitEnds = Moments.after(BootClock.now(), repeats.longestWait);
            end = Moments.after(waitEnds, TimeUnit.SECONDS.toNanos(CALL_TIMEOUT_SECONDS));
        }

        /** Makes it at each address until one answers. Returns the last failure; null if there is an answer. */
        Failure round() throws CallFailedException, InterruptedException {
            Set<Candidate> tried = new HashSet<>();
            Failure last = null;
            while (true) {
                Use use;
                try {
                    use = use(tried);
                } catch (CallFailedException e) {
                    mayPass = true;
                    return e.failure();
                }
                if (use == null || last != null && BootClock.now() >= end) {
                    return last;
                }
                tried.add(use.to);
                last = attempt(use, found() - tried.size());
                if (last == null) {
                    return null;
                }
                mayPass |= last.isRetryable();
            }
        }

        /**
         * Makes it at one address. Returns why it is to be made at another one, or again; null if there is an answer.
         *
         * @param others number of addresses that are left
         */
        private Failure attempt(Use use, int others) throws CallFailedException, InterruptedException {
            long now = BootClock.now();
            long rest = Moments.since(end, Math.max(now, waitEnds));
            // An address that does not answer leaves time for the others.
            long share = repeats.rule == Rule.FREELY ? rest / (1 + Math.max(0, others)) : rest;
            Failure failure;
            try {
                failure = Transport.ready(use.channel, use.to, Math.min(share, settings.connectTimeout()), closed);
                if (failure == null) {
                    Q asked = request.get();
                    long sentAt = BootClock.now();
                    long limit = Moments.after(Moments.since(waitEnds, sentAt), share);
                    A heard = ClientCalls.blockingUnaryCall(
                            ClientInterceptors.intercept(use.channel, MetadataUtils.newAttachHeadersInterceptor(headers())),
                            method,
                            CallOptions.DEFAULT.withDeadlineAfter(limit, TimeUnit.NANOSECONDS),
                            asked);
                    answer = new Answer<>(heard, sentAt, isRepeat);
                    return null;
                }
            } catch (StatusRuntimeException e) {
                failure = Failures.of(use.url(), e.getStatus(), e.getTrailers());
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            requireNotRefused();
            boolean isElsewhere = failure.isTransport() || failure.isDraining();
            if (isElsewhere) {
                moveOn(use, failure);
            }
            boolean isForNow = failure.isRetryable() && BootClock.now() < repeats.until;
            isRepeat |= failure.origin() == Origin.BROKEN || !isElsewhere;
            if (!isElsewhere && !isForNow || isRepeat && repeats.rule == Rule.UNSENT) {
                throw new CallFailedException(failure);
            }
            return failure;
        }
    }

    /** Returns the work that runs under detached locks. */
    public Bodies bodies() {
        return bodies;
    }

    /**
     * Refuses acquires, those that wait too. What is returned is completed when no work runs under detached locks any more, or after this
     * time in nanoseconds.
     */
    public CompletableFuture<Void> refuse(long timeout) {
        List<CancellableContext> refused;
        synchronized (this) {
            isRefusing = true;
            refused = List.copyOf(waits);
        }
        refused.forEach(wait -> wait.cancel(null));
        return bodies.close(timeout);
    }

    /** Makes a call of an acquire, which ends with {@link ErrorKind#CLOSED} when a close begins. */
    public <Q, A> Answer<A> acquire(Repeats repeats, MethodDescriptor<Q, A> method, Supplier<Q> request)
            throws CallFailedException, InterruptedException {
        CancellableContext context = Context.current().withCancellation();
        synchronized (this) {
            if (isRefusing) {
                throw new LeaseholdException(ErrorKind.CLOSED, "the client was closed", null);
            }
            waits.add(context);
        }
        Context outer = context.attach();
        try {
            return call(repeats, method, request);
        } finally {
            context.detach(outer);
            synchronized (this) {
                waits.remove(context);
            }
            context.cancel(null);
        }
    }

    private synchronized void requireNotRefused() {
        if (isRefusing && Context.current().isCancelled()) {
            throw new LeaseholdException(ErrorKind.CLOSED, "the client was closed", null);
        }
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
