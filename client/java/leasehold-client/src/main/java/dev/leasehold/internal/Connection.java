package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.internal.machine.ConnectFailure;
import dev.leasehold.v1.LockServiceGrpc;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;

/**
 * One connection of a session, with one lease stream on it. The session's mutex guards all of it: gRPC allows one writer at a time. What
 * gRPC is not ready to take waits here, so that heartbeats overtake it.
 */
final class Connection {
    /** Number of requests that are not on their way yet from which a session takes no more acquires from callers. */
    static final int CONGESTED = 1024;

    /** End of a stream: with a failure, or plainly (null). */
    record End(Failure failure) {}

    final Candidate candidate;
    /** Version of the credentials that it was made with, or an earlier one. */
    final long credentials;
    /** The machine's number of the stream; 0 while the machine does not know it. */
    long number;
    /** Set when the session is open elsewhere. */
    boolean isLeaving;
    /** Set when the stream has ended. */
    End end;

    private final SessionDriver session;
    private final ManagedChannel channel;
    private final ClientCall<SessionRequest, SessionResponse> call;
    private boolean isStarted;
    private boolean isCut;
    private final ArrayDeque<SessionRequest> queue = new ArrayDeque<>();
    /** The newest heartbeat that is not sent: an older one is worth nothing beside it. */
    private SessionRequest heartbeat;

    private final CompletableFuture<Void> served = new CompletableFuture<>();
    private final CompletableFuture<ConnectFailure> decided = new CompletableFuture<>();

    Connection(SessionDriver session, Candidate candidate, long credentials, ManagedChannel channel) {
        this.session = session;
        this.candidate = candidate;
        this.credentials = credentials;
        this.channel = channel;
        this.call = channel.newCall(LockServiceGrpc.getSessionMethod(), CallOptions.DEFAULT);
    }

    String url() {
        return candidate.endpoint().url();
    }

    /** Asks for the stream, and sends what is queued. */
    void start(Metadata headers) {
        if (isCut) {
            return;
        }
        isStarted = true;
        call.start(new Listener(), headers);
        // Messages are taken in as they come: none waits for a caller.
        call.request(Integer.MAX_VALUE);
        flush();
    }

    boolean isStarted() {
        return isStarted;
    }

    /** Returns what is completed when the coordinator serves the stream, or the stream has ended. */
    CompletableFuture<Void> served() {
        return served;
    }

    /** Returns what is completed when it is decided whether the session opened on it: with null, or the reason why not. */
    CompletableFuture<ConnectFailure> decided() {
        return decided;
    }

    /** Says whether the session opened on it: null, or why not. Only the first word counts. */
    void decide(ConnectFailure failure) {
        decided.complete(failure);
    }

    void push(SessionRequest request) {
        if (request.hasHeartbeat()) {
            heartbeat = request;
        } else {
            queue.add(request);
        }
        flush();
    }

    /** Returns whether acquires of callers have to wait. */
    boolean isCongested() {
        return queue.size() >= CONGESTED;
    }

    /** Sends what gRPC is ready to take. */
    void flush() {
        while (isStarted && !isCut && end == null && call.isReady()) {
            SessionRequest next = heartbeat;
            heartbeat = null;
            if (next == null) {
                next = queue.poll();
            }
            if (next == null) {
                return;
            }
            call.sendMessage(next);
        }
    }

    /** Lets it say goodbye for a while. */
    void leave() {
        isLeaving = true;
        Threads.after(dev.leasehold.internal.machine.Machine.CLOSE_TIMEOUT, () -> session.input(now -> cut()));
    }

    /** Ends the stream and closes the connection. */
    void cut() {
        if (!isCut) {
            isCut = true;
            if (isStarted) {
                call.cancel("the session has left this stream", null);
            }
            channel.shutdownNow();
        }
    }

    private final class Listener extends ClientCall.Listener<SessionResponse> {
        @Override
        public void onHeaders(Metadata headers) {
            served.complete(null);
        }

        @Override
        public void onMessage(SessionResponse message) {
            session.input(now -> session.received(now, Connection.this, message));
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            Failure failure = status.isOk() ? null : Failures.of(url(), status, trailers);
            session.input(now -> {
                end = new End(failure);
                session.streamEnded(now, Connection.this);
                cut();
            });
            served.complete(null);
        }

        @Override
        public void onReady() {
            session.input(now -> flush());
        }
    }
}
