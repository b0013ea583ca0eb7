package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LockServiceGrpc;
import dev.leasehold.v1.LostLock;
import dev.leasehold.v1.SessionDraining;
import dev.leasehold.v1.SessionGranted;
import dev.leasehold.v1.SessionLost;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import io.grpc.ForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Words of streams while a session moves to a coordinator that takes everything over and does not answer. */
@Timeout(300)
class UnansweredMoveTest {
    private static final ByteString OWNER = ByteString.copyFromUtf8("o");

    /** A stream as the coordinator has it, with the id of the lock on it. */
    private record Peer(StreamObserver<SessionResponse> answers, ByteString id) {
        void lost(dev.leasehold.v1.LostReason reason) {
            LostLock lock = LostLock.newBuilder().setName("a").setOwnerId(id).setReason(reason).build();
            answers.onNext(SessionResponse.newBuilder()
                    .setLost(SessionLost.newBuilder().addLocks(lock))
                    .build());
        }
    }

    private interface Event {
        void happens(Peer old, Peer overdue);
    }

    /** A coordinator whose first stream grants a lock and then drains, and which answers on no other. */
    private static final class Mute extends LockServiceGrpc.LockServiceImplBase {
        final BlockingQueue<Peer> streams = new LinkedBlockingQueue<>();

        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> answers) {
            return new StreamObserver<>() {
                @Override
                public void onNext(SessionRequest request) {
                    asked(answers, request);
                }

                @Override
                public void onError(Throwable cause) {}

                @Override
                public void onCompleted() {}
            };
        }

        private void asked(StreamObserver<SessionResponse> answers, SessionRequest request) {
            SessionResponse.Builder answer = SessionResponse.newBuilder().setRequestId(request.getRequestId());
            if (request.hasOpen() && request.getOpen().getResumeCount() > 0) {
                streams.add(new Peer(answers, request.getOpen().getResume(0).getNextOwnerId()));
            } else if (request.hasOpen()) {
                answers.onNext(answer.setOpened(SessionOpened.newBuilder()
                                .setSessionId("s")
                                .setCoordinator("c")
                                .setTtl(seconds(60))
                                .setHeartbeatInterval(seconds(20)))
                        .build());
                streams.add(new Peer(answers, OWNER));
            } else if (request.hasAcquire()) {
                GrantedLock lock = GrantedLock.newBuilder()
                        .setName(request.getAcquire().getName())
                        .setOwnerId(OWNER)
                        .setFencingToken(7)
                        .setHoldCount(1)
                        .build();
                answers.onNext(answer.setGranted(
                                SessionGranted.newBuilder().addLocks(lock).setValidFor(seconds(60)))
                        .build());
                answers.onNext(SessionResponse.newBuilder()
                        .setDraining(SessionDraining.newBuilder().setDeadline(seconds(60)))
                        .build());
            }
        }

        Peer next() throws InterruptedException {
            return streams.poll(60, TimeUnit.SECONDS);
        }
    }

    private static Duration seconds(long seconds) {
        return Duration.newBuilder().setSeconds(seconds).build();
    }

    @Test
    void anEndOfItsStreamEndsTheHold() throws Exception {
        endsTheHold((old, overdue) -> overdue.answers.onCompleted(), LostReason.SESSION_ENDED);
    }

    @Test
    void aLossOnItsStreamEndsTheHold() throws Exception {
        endsTheHold((old, overdue) -> overdue.lost(dev.leasehold.v1.LostReason.LOST_REASON_FORCED), LostReason.FORCED);
    }

    @Test
    void aLossOnTheOldStreamEndsTheHold() throws Exception {
        Event event = (old, overdue) -> {
            old.lost(dev.leasehold.v1.LostReason.LOST_REASON_RESUMED);
            old.lost(dev.leasehold.v1.LostReason.LOST_REASON_DELETED);
        };
        endsTheHold(event, LostReason.DELETED);
    }

    private static void endsTheHold(Event event, LostReason reason) throws Exception {
        Mute mute = new Mute();
        Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
                .addService(mute)
                .intercept(new Beginning())
                .build()
                .start();
        String url = "http://127.0.0.1:" + server.getPort();
        java.time.Duration limit = java.time.Duration.ofSeconds(3);
        try (LeaseholdClient client = LeaseholdClient.builder(url).connectTimeout(limit).connect()) {
            Hold hold = client.lock("a").acquire();
            Peer old = mute.next();
            Peer overdue = mute.next();
            // The next one begins when that has been given up.
            mute.next();
            hold.check();
            event.happens(old, overdue);
            assertEquals(HoldState.LOST, hold.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS));
            assertEquals(Optional.of(reason), hold.lostReason());
        } finally {
            server.shutdownNow();
        }
    }

    /** Begins every stream at once, as coordinators do: the client waits for that before it asks for anything. */
    private static final class Beginning implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            call.sendHeaders(new Metadata());
            return next.startCall(
                    new ForwardingServerCall.SimpleForwardingServerCall<>(call) {
                        @Override
                        public void sendHeaders(Metadata more) {
                            // They are sent.
                        }
                    },
                    headers);
        }
    }
}
