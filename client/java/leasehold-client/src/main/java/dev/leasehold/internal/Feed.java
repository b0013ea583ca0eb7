package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.LeaseholdException;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Stream of events that outlives its connections and the coordinators that serve it: it is opened again whenever it ends, on a thread of its
 * own. The client's executor calls the listener, for one event after the other; what it throws is logged. One message is asked for at a
 * time, so that the coordinator keeps what is not read.
 *
 * @param <Q> the request
 * @param <A> the events
 */
public final class Feed<Q, A> implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    /** A message, or the end of the stream. */
    private record Item<A>(A message, Failure failure) {}

    private final Calls calls;
    private final MethodDescriptor<Q, A> method;
    private final Q request;
    private final Consumer<A> heard;
    private final Consumer<Failure> broken;
    private final Consumer<Failure> failed;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    /** The stream that is open, if one is. */
    private volatile ClientCall<Q, A> open;

    /**
     * Begins to read.
     *
     * @param heard is told each message
     * @param broken is told why, after each break
     * @param failed is told why a coordinator refuses the stream for good
     */
    public Feed(
            Calls calls,
            MethodDescriptor<Q, A> method,
            Q request,
            Consumer<A> heard,
            Consumer<Failure> broken,
            Consumer<Failure> failed) {
        this.calls = calls;
        this.method = method;
        this.request = request;
        this.heard = heard;
        this.broken = broken;
        this.failed = failed;
        Threads.start("leasehold-feed", this::run);
    }

    private void run() {
        Retrying retrying = new Retrying(calls.settings());
        try {
            while (!isOver()) {
                boolean[] wasHeard = new boolean[1];
                Failure failure = readOnce(retrying, wasHeard);
                if (isOver()) {
                    return;
                }
                // A client that received messages was known, and may be again with a token that was replaced meanwhile.
                boolean mayBeKnown = failure.isUnauthenticated() && wasHeard[0];
                if (isPermanent(failure) && !mayBeKnown) {
                    tell(failed, failure);
                    return;
                }
                LOG.log(System.Logger.Level.DEBUG, "a stream of events broke: {0}", failure);
                tell(broken, failure);
                retrying.pause(failure);
            }
        } catch (InterruptedException e) {
            LOG.log(System.Logger.Level.WARNING, "a stream of events ends, because its thread was interrupted", e);
        }
    }

    private boolean isOver() {
        return ended.isDone() || calls.closed().isDone();
    }

    /** Has the program's executor call a listener, and waits for it, unless the stream or the client is closed meanwhile. */
    private <T> void tell(Consumer<T> listener, T what) throws InterruptedException {
        CompletableFuture<Void> told = CompletableFuture.runAsync(
                () -> {
                    if (isOver()) {
                        return;
                    }
                    try {
                        listener.accept(what);
                    } catch (Throwable e) {
                        LOG.log(System.Logger.Level.WARNING, "a listener of events failed", e);
                    }
                },
                calls.settings().executor());
        try {
            CompletableFuture.anyOf(told, ended, calls.closed()).get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
        // An executor may call the listener on this thread, which only such a listener interrupts.
        Thread.interrupted();
    }

    /** Reads one stream. Returns why it ended. */
    private Failure readOnce(Retrying retrying, boolean[] wasHeard) throws InterruptedException {
        Calls.Use use;
        try {
            use = calls.use();
        } catch (CallFailedException e) {
            return e.failure();
        } catch (LeaseholdException e) {
            return Failures.connection(Failure.Origin.UNREACHED, "", e.getMessage());
        }
        Failure failure = Transport.ready(
                use.channel(), use.to(), TimeUnit.SECONDS.toNanos(Calls.CALL_TIMEOUT_SECONDS), ended);
        if (failure == null) {
            failure = read(use, retrying, wasHeard);
        }
        if (!ended.isDone()) {
            // Another coordinator may serve this stream too.
            calls.moveOn(use, failure);
        }
        return failure;
    }

    private Failure read(Calls.Use use, Retrying retrying, boolean[] wasHeard) throws InterruptedException {
        // One message at a time, and the end.
        BlockingQueue<Item<A>> items = new ArrayBlockingQueue<>(2);
        ClientCall<Q, A> call = use.channel().newCall(method, CallOptions.DEFAULT);
        call.start(
                new ClientCall.Listener<>() {
                    @Override
                    public void onMessage(A message) {
                        items.add(new Item<>(message, null));
                    }

                    @Override
                    public void onClose(Status status, Metadata trailers) {
                        Status end = status.isOk() ? Status.UNAVAILABLE.withDescription("the coordinator ended the stream") : status;
                        items.add(new Item<>(null, Failures.of(use.url(), end, trailers)));
                    }
                },
                calls.headers());
        try {
            call.sendMessage(request);
            call.halfClose();
            call.request(1);
            // Not before: nothing may be sent on a call that is cancelled.
            open = call;
            if (ended.isDone()) {
                call.cancel("closed", null);
            }
            while (true) {
                Item<A> item = items.take();
                if (item.failure != null) {
                    return item.failure;
                }
                if (!wasHeard[0]) {
                    retrying.opened();
                    wasHeard[0] = true;
                }
                tell(heard, item.message);
                call.request(1);
            }
        } finally {
            call.cancel("left", null);
        }
    }

    /**
     * Returns whether asking again would be answered in the same way. What a broken transport says is none of these, and neither is anything
     * that a coordinator says while it, or its store, is in trouble.
     */
    private static boolean isPermanent(Failure failure) {
        if (failure.isTransport()) {
            return failure.origin() == Failure.Origin.DISTRUST;
        }
        return switch (failure.code()) {
            case INVALID_ARGUMENT,
                    NOT_FOUND,
                    ALREADY_EXISTS,
                    PERMISSION_DENIED,
                    UNAUTHENTICATED,
                    FAILED_PRECONDITION,
                    OUT_OF_RANGE,
                    UNIMPLEMENTED -> true;
            default -> false;
        };
    }

    /** Ends the stream. */
    @Override
    public void close() {
        ended.complete(null);
        ClientCall<Q, A> last = open;
        if (last != null) {
            last.cancel("closed", null);
        }
    }

    /** Returns whether it was closed. */
    public boolean isClosed() {
        return ended.isDone();
    }
}
