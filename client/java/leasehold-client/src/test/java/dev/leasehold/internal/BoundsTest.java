package dev.leasehold.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.ErrorKind;
import dev.leasehold.LockSpec;
import dev.leasehold.internal.machine.AcquireSpec;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.v1.AdminServiceGrpc;
import dev.leasehold.v1.GetStatusRequest;
import dev.leasehold.v1.GetStatusResponse;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LockEvent;
import dev.leasehold.v1.LockServiceGrpc;
import dev.leasehold.v1.SessionGranted;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.BindableService;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Bounds of what a client keeps of a program that is slow, and of a coordinator that does not read. */
@Timeout(300)
class BoundsTest {
    private static final int ACQUIRES = 5000;
    private static final ByteString LARGE = ByteString.copyFrom(new byte[4096]);

    private Server server;

    private Settings serve(BindableService service) throws Exception {
        server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
                .addService(service)
                .build()
                .start();
        List<Endpoint> endpoints = Endpoint.parse("http://127.0.0.1:" + server.getPort());
        return new Settings(
                endpoints,
                new Credentials(new Credentials.Options(null, null, null, null, null, null, false), endpoints),
                5 * Moments.SECONDS,
                50 * Moments.MILLIS,
                Moments.SECONDS,
                Moments.NEVER,
                0,
                new Tasks(Threads.perTask()),
                null,
                new Measures(List.of()));
    }

    @AfterEach
    void stop() {
        server.shutdownNow();
    }

    private static AcquireSpec spec(String name) {
        return new AcquireSpec(List.of(LockSpec.exclusive(name)), false, Moments.NEVER, LARGE, 0, 0, 0, false, "");
    }

    private static com.google.protobuf.Duration seconds(long count) {
        return Moments.wire(Moments.nanos(Duration.ofSeconds(count)));
    }

    /** Coordinator that opens the session, grants the first acquire, and reads nothing more before it is told to. */
    private static final class Deaf extends LockServiceGrpc.LockServiceImplBase {
        final BlockingQueue<SessionRequest> read = new LinkedBlockingQueue<>();
        final CompletableFuture<ServerCallStreamObserver<SessionResponse>> stream = new CompletableFuture<>();

        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> answers) {
            ServerCallStreamObserver<SessionResponse> call = (ServerCallStreamObserver<SessionResponse>) answers;
            call.disableAutoRequest();
            // The open, a heartbeat if there is one, and the first acquire.
            call.request(1);
            return new StreamObserver<>() {
                private boolean hasGranted;

                @Override
                public void onNext(SessionRequest request) {
                    read.add(request);
                    SessionResponse.Builder answer = SessionResponse.newBuilder().setRequestId(request.getRequestId());
                    if (request.hasOpen()) {
                        call.onNext(answer.setOpened(SessionOpened.newBuilder()
                                        .setSessionId("s")
                                        .setCoordinator("c")
                                        .setTtl(seconds(3600))
                                        .setHeartbeatInterval(seconds(1200)))
                                .build());
                    } else if (request.hasAcquire() && !hasGranted) {
                        hasGranted = true;
                        call.onNext(answer.setGranted(SessionGranted.newBuilder()
                                        .setValidFor(seconds(3600))
                                        .addLocks(GrantedLock.newBuilder()
                                                .setName("first")
                                                .setOwnerId(ByteString.copyFrom(new byte[16]))
                                                .setFencingToken(7)
                                                .setHoldCount(1)))
                                .build());
                        stream.complete(call);
                    }
                    if (!hasGranted) {
                        call.request(1);
                    }
                }

                @Override
                public void onError(Throwable failure) {}

                @Override
                public void onCompleted() {}
            };
        }
    }

    @Test
    void acquiresWaitForRoomAndReleasesDoNot() throws Exception {
        Deaf coordinator = new Deaf();
        SessionDriver session = new SessionDriver(serve(coordinator), SessionOpen.getDefaultInstance(), true);
        CompletableFuture<AcquireResult> first = new CompletableFuture<>();
        session.acquire(spec("first"), first);
        AcquireResult granted = first.get(60, TimeUnit.SECONDS);
        ServerCallStreamObserver<SessionResponse> stream = coordinator.stream.get(60, TimeUnit.SECONDS);
        coordinator.read.clear();

        List<CompletableFuture<AcquireResult>> calls = new ArrayList<>();
        List<Long> numbers = new ArrayList<>();
        for (int i = 0; i < ACQUIRES; i++) {
            CompletableFuture<AcquireResult> call = new CompletableFuture<>();
            calls.add(call);
            numbers.add(session.acquire(spec("a" + i), call));
        }
        int[] waiting = new int[1];
        session.input(now -> waiting[0] = session.waitingForRoom());
        assertTrue(waiting[0] > ACQUIRES / 2, waiting[0] + " wait for room");
        session.input(now -> assertTrue(session.current.isCongested()));
        // One that is given up is never sent, nor is its end.
        session.abandon(numbers.get(ACQUIRES - 10), calls.get(ACQUIRES - 10));
        session.release(granted.granted().get(0), "");
        // Those that had room by then may be ahead of the release.
        session.input(now -> waiting[0] = session.waitingForRoom());
        assertTrue(waiting[0] > ACQUIRES / 2, waiting[0] + " wait for room");

        stream.request(Integer.MAX_VALUE);
        List<String> names = new ArrayList<>();
        int releasedAfter = -1;
        while (names.size() < ACQUIRES - 1) {
            SessionRequest request = coordinator.read.poll(60, TimeUnit.SECONDS);
            assertTrue(request != null, "only " + names.size() + " acquires came");
            assertFalse(request.hasCancel());
            if (request.hasRelease()) {
                releasedAfter = names.size();
            } else if (request.hasAcquire()) {
                names.add(request.getAcquire().getName());
            }
        }
        assertTrue(releasedAfter >= Connection.CONGESTED, "released after " + releasedAfter);
        assertTrue(releasedAfter <= ACQUIRES - waiting[0], "released after " + releasedAfter);
        for (int i = 0; i < ACQUIRES - 1; i++) {
            assertEquals("a" + (i < ACQUIRES - 10 ? i : i + 1), names.get(i));
        }
        session.close(0);
        session.ended().get(60, TimeUnit.SECONDS);
    }

    @Test
    void acquiresThatWaitForRoomEndWithTheSession() throws Exception {
        SessionDriver session = new SessionDriver(serve(new Deaf()), SessionOpen.getDefaultInstance(), true);
        CompletableFuture<AcquireResult> first = new CompletableFuture<>();
        session.acquire(spec("first"), first);
        first.get(60, TimeUnit.SECONDS);
        CompletableFuture<AcquireResult> last = new CompletableFuture<>();
        for (int i = 0; i < ACQUIRES; i++) {
            last = new CompletableFuture<>();
            session.acquire(spec("a" + i), last);
        }
        session.close(0);
        assertEquals(ErrorKind.CLOSED, last.get(60, TimeUnit.SECONDS).failure().kind());
    }

    @Test
    void whatIsNotReadStaysWithTheCoordinator() throws Exception {
        AtomicInteger sent = new AtomicInteger();
        CompletableFuture<Void> isFull = new CompletableFuture<>();
        Settings settings = serve(new AdminServiceGrpc.AdminServiceImplBase() {
            @Override
            public void watchLocks(WatchLocksRequest request, StreamObserver<WatchLocksResponse> answers) {
                ServerCallStreamObserver<WatchLocksResponse> call = (ServerCallStreamObserver<WatchLocksResponse>) answers;
                call.setOnReadyHandler(() -> {
                    while (call.isReady() && sent.get() < ACQUIRES) {
                        sent.incrementAndGet();
                        call.onNext(WatchLocksResponse.newBuilder()
                                .setEvent(LockEvent.newBuilder().setName("n" + sent.get() + "x".repeat(4000)))
                                .build());
                    }
                    isFull.complete(null);
                });
            }

            @Override
            public void getStatus(GetStatusRequest request, StreamObserver<GetStatusResponse> answer) {
                answer.onNext(GetStatusResponse.getDefaultInstance());
                answer.onCompleted();
            }
        });
        Calls calls = new Calls(settings);
        CompletableFuture<Void> goOn = new CompletableFuture<>();
        BlockingQueue<Integer> heard = new LinkedBlockingQueue<>();
        AtomicInteger number = new AtomicInteger();
        Feed<WatchLocksRequest, WatchLocksResponse> feed = new Feed<>(
                calls,
                AdminServiceGrpc.getWatchLocksMethod(),
                WatchLocksRequest.getDefaultInstance(),
                message -> {
                    heard.add(number.incrementAndGet());
                    assertTrue(message.getEvent().getName().startsWith("n" + number.get() + "x"));
                    goOn.join();
                },
                failure -> {},
                failure -> {});
        assertEquals(1, heard.poll(60, TimeUnit.SECONDS));
        isFull.get(60, TimeUnit.SECONDS);
        // Answers on the same connection come behind whatever else it lets through.
        for (int i = 0; i < 100; i++) {
            calls.call(Calls.Rule.UNSENT, AdminServiceGrpc.getGetStatusMethod(), GetStatusRequest.getDefaultInstance());
        }
        // As many as the windows of the connection hold, and no more until the program goes on.
        assertTrue(sent.get() < 1024, sent.get() + " were sent");
        assertTrue(heard.isEmpty());
        goOn.complete(null);
        for (int i = 2; i <= ACQUIRES; i++) {
            assertEquals(i, heard.poll(60, TimeUnit.SECONDS));
        }
        feed.close();
        calls.close();
    }
}
