package dev.leasehold.testing;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.*;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Coordinator for unit tests, in memory, on a free port of this machine. The real client talks to it, so that holds, tokens, errors and losses
 * are those of the real one.
 *
 * <p>It has exclusive and shared locks, semaphores and several locks at once, queues in order, reentrant holds and self-deadlocks, values,
 * rising fencing tokens, the release of what a session holds when that ends, and elections as far as they are locks with values. It has no
 * detached locks, deadlocks of several actors, grace, resumption on another stream, lock-delays, longest times of holds, revisions of limits, downgrades,
 * observers, permissions and operators' calls: what it does not have fails or, where it is only a setting, is left out. A lock does not
 * expire; {@link #lose} takes it away.
 */
public final class TestCoordinator implements AutoCloseable {
    private static final long TTL = TimeUnit.SECONDS.toNanos(10);

    private final SecureRandom random = new SecureRandom();
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "leasehold-test-coordinator");
        thread.setDaemon(true);
        return thread;
    });
    private final Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .directExecutor()
            .addService(new Locks())
            .build();
    private final List<Held> held = new ArrayList<>();
    /** Acquires that wait, in order. */
    private final List<Asked> queue = new ArrayList<>();
    private long lastToken;

    /**
     * Holder of a lock.
     *
     * @param clientName name of its client
     * @param token fencing token
     * @param value what the holder attached to its hold
     * @param permits permits of a semaphore; 0 in other modes
     */
    public record Holder(String clientName, long token, byte[] value, int permits) {}

    /** An acquire. */
    private record Asked(Stream session, long id, SessionAcquire request, List<LockSpec> locks) {
        static List<LockSpec> locks(SessionAcquire asked) {
            List<String> names = asked.getName().isEmpty() ? asked.getNamesList() : List.of(asked.getName());
            LockSpec.Builder one = LockSpec.newBuilder()
                    .setMode(asked.getMode())
                    .setPermits(asked.getPermits())
                    .setPermitsAtLeast(asked.getPermitsAtLeast())
                    .setLimit(asked.getLimit());
            return names.isEmpty() ? asked.getLocksList() : names.stream().map(name -> one.setName(name).build()).toList();
        }
    }

    private static final class Held {
        final Asked by;
        final long token;
        final ByteString owner;
        LockSpec lock;
        ByteString value;
        int count = 1;

        Held(Asked by, LockSpec lock, long token, byte[] owner) {
            this.by = by;
            this.lock = lock;
            this.token = token;
            this.owner = ByteString.copyFrom(owner);
            this.value = by.request.getValue();
        }
    }

    private TestCoordinator() {}

    /** Starts one. */
    public static TestCoordinator start() {
        TestCoordinator made = new TestCoordinator();
        try {
            made.server.start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return made;
    }

    /** Returns its URL, for {@link dev.leasehold.LeaseholdClient#connect}. */
    public String url() {
        return "http://127.0.0.1:" + server.getPort();
    }

    /** Takes a lock from all its holders, which lose it with {@link dev.leasehold.LostReason#FORCED}. Returns whether there was one. */
    public synchronized boolean lose(String name) {
        List<Held> lost = of(name);
        lost.forEach(one -> lose(one, LostReason.LOST_REASON_FORCED));
        return !lost.isEmpty();
    }

    /** Returns the holders of a lock, in the order of their grants. */
    public synchronized List<Holder> holders(String name) {
        return of(name).stream()
                .map(one -> new Holder(one.by.session.open.getClientName(), one.token, one.value.toByteArray(), one.lock.getPermits()))
                .toList();
    }

    /** Returns how many acquires wait for a lock. */
    public synchronized int waiting(String name) {
        return (int) queue.stream().filter(asked -> asked.locks.stream().anyMatch(lock -> lock.getName().equals(name))).count();
    }

    /** Stops it: sessions break, and their locks are lost. */
    @Override
    public void close() {
        timer.shutdownNow();
        server.shutdownNow();
    }

    private List<Held> of(String name) {
        return held.stream().filter(one -> one.lock.getName().equals(name)).toList();
    }

    private synchronized void lose(Held one, LostReason reason) {
        if (held.remove(one)) {
            LostLock lost = LostLock.newBuilder().setName(one.lock.getName()).setOwnerId(one.owner).setReason(reason).build();
            one.by.session.send(0, SessionResponse.newBuilder().setLost(SessionLost.newBuilder().addLocks(lost)));
        }
        serve();
    }

    /** Returns what the actor of the acquire holds of a lock; null for nothing. */
    private Held own(Asked asked, String name) {
        long actor = asked.request.getActor();
        return of(name).stream()
                .filter(one -> actor != 0 && one.by.session == asked.session && one.by.request.getActor() == actor)
                .findFirst()
                .orElse(null);
    }

    /** Returns how many permits could be granted now, or 1 for a lock of another mode; 0 for none. */
    private int free(LockSpec lock) {
        List<Held> holders = of(lock.getName());
        return switch (lock.getMode()) {
            case LOCK_MODE_SEMAPHORE -> {
                int left = lock.getLimit() - holders.stream().mapToInt(one -> one.lock.getPermits()).sum();
                int least = lock.getPermitsAtLeast() == 0 ? lock.getPermits() : lock.getPermitsAtLeast();
                yield left < least ? 0 : Math.min(left, lock.getPermits());
            }
            case LOCK_MODE_SHARED -> holders.stream().allMatch(one -> one.lock.getMode() == LockMode.LOCK_MODE_SHARED) ? 1 : 0;
            default -> holders.isEmpty() ? 1 : 0;
        };
    }

    /** Grants what can be granted, in order. */
    private void serve() {
        Set<String> blocked = new HashSet<>();
        for (Asked asked : List.copyOf(queue)) {
            boolean isFree = asked.locks.stream()
                    .allMatch(lock -> own(asked, lock.getName()) != null || !blocked.contains(lock.getName()) && free(lock) > 0);
            if (isFree && queue.remove(asked)) {
                asked.session.granted(asked.id, asked.locks.stream().map(lock -> grant(asked, lock)).toList());
            } else {
                asked.locks.forEach(lock -> blocked.add(lock.getName()));
            }
        }
    }

    private Held grant(Asked asked, LockSpec lock) {
        Held own = own(asked, lock.getName());
        if (own != null) {
            own.count++;
            return own;
        }
        boolean isSemaphore = lock.getMode() == LockMode.LOCK_MODE_SEMAPHORE;
        byte[] owner = new byte[16];
        random.nextBytes(owner);
        Held made = new Held(asked, isSemaphore ? lock.toBuilder().setPermits(free(lock)).build() : lock, ++lastToken, owner);
        held.add(made);
        return made;
    }

    /** Grants an acquire, lets it wait, or ends it. */
    private void ask(Asked asked) {
        queue.add(asked);
        serve();
        long wait = Moments.nanos(asked.request.getWait());
        if (asked.request.hasWait() && wait == 0) {
            end(asked, AcquireOutcome.ACQUIRE_OUTCOME_BUSY);
        } else if (asked.request.hasWait()) {
            timer.schedule(() -> end(asked, AcquireOutcome.ACQUIRE_OUTCOME_TIMED_OUT), wait, TimeUnit.NANOSECONDS);
        }
    }

    private synchronized void end(Asked asked, AcquireOutcome outcome) {
        if (queue.remove(asked)) {
            SessionNotGranted.Builder ended = SessionNotGranted.newBuilder().setOutcome(outcome);
            of(asked.locks.get(0).getName()).stream().limit(1).forEach(one -> ended.getHolderBuilder().setClientName(one.by.session.open.getClientName()));
            asked.session.send(asked.id, SessionResponse.newBuilder().setNotGranted(ended));
            serve();
        }
    }

    /** Changes a hold. Returns null if it is not there. */
    private synchronized Held change(String name, ByteString owner, Consumer<Held> change) {
        Held found = of(name).stream().filter(one -> one.owner.equals(owner)).findFirst().orElse(null);
        if (found != null) {
            change.accept(found);
            held.removeIf(one -> one.count == 0);
            serve();
        }
        return found;
    }

    /** Stream of a session. */
    private final class Stream implements StreamObserver<SessionRequest> {
        private final StreamObserver<SessionResponse> out;
        private SessionOpen open = SessionOpen.getDefaultInstance();
        private Duration ttl = Moments.wire(TTL);
        private long heard;

        Stream(StreamObserver<SessionResponse> out) {
            this.out = out;
        }

        private void send(long to, SessionResponse.Builder answer) {
            out.onNext(answer.setRequestId(to).build());
        }

        @Override
        public void onNext(SessionRequest request) {
            synchronized (TestCoordinator.this) {
                SessionResponse.Builder answer = SessionResponse.newBuilder();
                answer(request.getRequestId(), request, answer);
                if (answer.getResponseCase() != SessionResponse.ResponseCase.RESPONSE_NOT_SET) {
                    send(request.getRequestId(), answer);
                }
                if (answer.hasClosed()) {
                    out.onCompleted();
                }
            }
        }

        private void answer(long number, SessionRequest request, SessionResponse.Builder answer) {
            switch (request.getRequestCase()) {
                case OPEN -> {
                    open = request.getOpen();
                    ttl = open.hasTtl() ? open.getTtl() : ttl;
                    SessionOpened.Builder opened = answer.getOpenedBuilder();
                    opened.setSessionId("test-" + hashCode()).setCoordinator("test").setTtl(ttl).setValidFor(ttl);
                    opened.setHeartbeatInterval(Moments.wire(Moments.nanos(ttl) / 3));
                    open.getResumeList().forEach(resume -> opened.addRefused(
                            LostLock.newBuilder().setName(resume.getName()).setOwnerId(resume.getNextOwnerId())));
                }
                case ACQUIRE -> acquire(number, request.getAcquire(), answer);
                case CANCEL -> List.copyOf(queue).stream()
                        .filter(asked -> asked.session == this && asked.id == request.getCancel().getAcquireRequestId())
                        .forEach(asked -> end(asked, AcquireOutcome.ACQUIRE_OUTCOME_CANCELLED));
                case RELEASE -> {
                    Held one = change(request.getRelease().getName(), request.getRelease().getOwnerId(), found -> found.count--);
                    answer.getReleasedBuilder().setReleased(one != null).setHoldCount(one == null ? 0 : one.count);
                }
                case SET_VALUE -> {
                    SessionSetValue set = request.getSetValue();
                    Held one = change(set.getName(), set.getOwnerId(), found -> found.value = set.getValue());
                    answer.getValueSetBuilder().setValueSet(one != null);
                }
                case HEARTBEAT -> {
                    heard = request.getHeartbeat().getSequence();
                    answer.getHeartbeatBuilder().setAckedHeartbeat(heard).setValidFor(ttl);
                }
                case CLOSE -> {
                    gone();
                    answer.setClosed(SessionClosed.getDefaultInstance());
                }
                default -> answer.getErrorBuilder()
                        .setCode(Status.Code.UNIMPLEMENTED.value())
                        .setMessage("the coordinator for tests does not do this");
            }
        }

        private void acquire(long number, SessionAcquire request, SessionResponse.Builder answer) {
            Asked asked = new Asked(this, number, request, Asked.locks(request));
            for (LockSpec lock : asked.locks) {
                Held own = own(asked, lock.getName());
                if (own != null && (!request.getReentrant() || own.lock.getMode() == LockMode.LOCK_MODE_SHARED
                        && lock.getMode() != LockMode.LOCK_MODE_SHARED)) {
                    answer.getErrorBuilder()
                            .setCode(Status.Code.FAILED_PRECONDITION.value())
                            .setReason(request.getReentrant() ? "UPGRADE_REFUSED" : "SELF_DEADLOCK")
                            .setMessage("the actor holds lock \"" + lock.getName() + "\" already");
                    return;
                }
            }
            ask(asked);
            if (queue.contains(asked)) {
                answer.getQueuedBuilder().setPosition(queue.size());
            }
        }

        private void granted(long number, List<Held> grants) {
            SessionGranted.Builder granted = SessionGranted.newBuilder().setValidFor(ttl).setAckedHeartbeat(heard);
            for (Held one : grants) {
                granted.addLocksBuilder()
                        .setName(one.lock.getName())
                        .setOwnerId(one.owner)
                        .setFencingToken(one.token)
                        .setHoldCount(one.count)
                        .setPermits(one.lock.getPermits());
            }
            send(number, SessionResponse.newBuilder().setGranted(granted));
        }

        /** Releases everything, and forgets what waits. */
        private void gone() {
            synchronized (TestCoordinator.this) {
                queue.removeIf(asked -> asked.session == this);
                held.removeIf(one -> one.by.session == this);
                serve();
            }
        }

        @Override
        public void onError(Throwable broken) {
            gone();
        }

        @Override
        public void onCompleted() {
            gone();
            out.onCompleted();
        }
    }

    private final class Locks extends LockServiceGrpc.LockServiceImplBase {
        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> out) {
            return new Stream(out);
        }
    }
}
