package dev.leasehold.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.Failure;
import dev.leasehold.HoldState;
import dev.leasehold.LockSpec;
import dev.leasehold.internal.Failures;
import dev.leasehold.v1.AcquireOutcome;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LostLock;
import dev.leasehold.v1.LostReason;
import dev.leasehold.v1.ResumedHold;
import dev.leasehold.v1.ResumedLock;
import dev.leasehold.v1.SessionAcquire;
import dev.leasehold.v1.SessionClosed;
import dev.leasehold.v1.SessionDowngraded;
import dev.leasehold.v1.SessionDraining;
import dev.leasehold.v1.SessionFailure;
import dev.leasehold.v1.SessionGranted;
import dev.leasehold.v1.SessionHeartbeatAck;
import dev.leasehold.v1.SessionLost;
import dev.leasehold.v1.SessionNotGranted;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionQueued;
import dev.leasehold.v1.SessionReleased;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import dev.leasehold.v1.SessionResume;
import dev.leasehold.v1.SessionValueSet;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Machine on virtual time: each test gives the inputs with their times, in milliseconds, and checks all outputs, as words.
 */
final class Rig {
    static final long TTL = 10_000;
    static final long INTERVAL = 3_000;
    /** An acquire's wait without a bound. */
    static final long NO_WAIT = -1;

    final Machine m;
    /** The stream that was connected last. */
    long stream;

    final List<Output.Granted> leases = new ArrayList<>();
    /** The resumes of the last open. */
    List<SessionResume> resumes = List.of();
    /** Of the last stream that was given up. */
    ConnectFailure connectFailure;

    private int drawn;
    private final Map<Object, Integer> callers = new HashMap<>();
    private final Map<Long, Set<Long>> ids = new HashMap<>();

    /** Makes a session that is not connected yet. */
    Rig(long grace) {
        SessionOpen open = SessionOpen.newBuilder().setDisconnectGrace(wire(grace)).build();
        m = new Machine(
                open,
                at(5_000),
                () -> ByteString.copyFromUtf8(String.format("next%012d", ++drawn)),
                (level, message) -> {});
    }

    /** Makes a session that was opened at 0; the open is request 1, and the next request 2. */
    static Rig open() {
        Rig rig = new Rig(0);
        rig.reopen(0);
        return rig;
    }

    /** Makes a session that holds lock1 under owner id 1, as lease 0. The next request is 3. */
    static Rig holding(long grace) {
        Rig rig = new Rig(grace);
        rig.reopen(0);
        rig.acquire(0, 1, NO_WAIT);
        rig.want(rig.grant(0, 2, 1, 1, 0), "acquired 1");
        return rig;
    }

    static long at(long millis) {
        return millis * Moments.MILLIS;
    }

    static com.google.protobuf.Duration wire(long millis) {
        return Moments.wire(at(millis));
    }

    void want(String seen, String... want) {
        assertEquals(String.join("; ", want), seen);
    }

    String connect(long now) {
        stream = m.connected(at(now), "http://test");
        return seen();
    }

    /** Connects a stream and opens it, with nothing to resume. */
    String reopen(long now) {
        want(connect(now), "open");
        return message(now, 1, opensWith());
    }

    /** Says what this version does not know. */
    String unknownMessage(long now, long id) {
        m.message(at(now), stream, SessionResponse.newBuilder().setRequestId(id).build());
        return seen();
    }

    String message(long now, long id, Object response) {
        return messageOn(now, stream, id, response);
    }

    String messageOn(long now, long on, long id, Object response) {
        m.message(at(now), on, response(id, response));
        return seen();
    }

    /** Returns the message with this response. */
    static SessionResponse response(long id, Object response) {
        SessionResponse.Builder message = SessionResponse.newBuilder().setRequestId(id);
        if (response instanceof SessionOpened one) {
            message.setOpened(one);
        } else if (response instanceof SessionQueued one) {
            message.setQueued(one);
        } else if (response instanceof SessionGranted one) {
            message.setGranted(one);
        } else if (response instanceof SessionNotGranted one) {
            message.setNotGranted(one);
        } else if (response instanceof SessionReleased one) {
            message.setReleased(one);
        } else if (response instanceof SessionValueSet one) {
            message.setValueSet(one);
        } else if (response instanceof SessionHeartbeatAck one) {
            message.setHeartbeat(one);
        } else if (response instanceof SessionLost one) {
            message.setLost(one);
        } else if (response instanceof SessionDraining one) {
            message.setDraining(one);
        } else if (response instanceof SessionClosed one) {
            message.setClosed(one);
        } else if (response instanceof SessionFailure one) {
            message.setError(one);
        } else if (response instanceof SessionDowngraded one) {
            message.setDowngraded(one);
        } else {
            throw new IllegalArgumentException("unexpected response " + response);
        }
        return message.build();
    }

    static AcquireSpec spec(long wait, long actor, boolean isReentrant, long lockDelay, String... names) {
        List<LockSpec> locks = java.util.stream.Stream.of(names).map(LockSpec::exclusive).toList();
        long longest = wait == NO_WAIT ? Moments.NEVER : at(wait);
        return new AcquireSpec(locks, names.length > 1, longest, ByteString.EMPTY, at(lockDelay), 0, actor, isReentrant, "");
    }

    /** Asks for the lock of this number. */
    String acquire(long now, int id, long wait) {
        return ask(now, id, spec(wait, 0, false, 0, "lock" + id));
    }

    String ask(long now, int id, AcquireSpec spec) {
        Consumer<Output.AcquireResult> call = new Consumer<>() {
            @Override
            public void accept(Output.AcquireResult result) {}
        };
        callers.put(call, id);
        m.acquire(at(now), id, spec, call);
        return seen();
    }

    String cancel(long now, long id) {
        m.cancel(at(now), id);
        return seen();
    }

    /** Grants a lock; the owner id is one byte. */
    String grant(long now, long request, int lock, int owner, long acked) {
        return message(now, request, grants(acked, granted(lock, owner, 1)));
    }

    static ByteString owner(int owner) {
        return ByteString.copyFrom(new byte[] {(byte) owner});
    }

    static GrantedLock granted(int lock, int owner, int count) {
        return GrantedLock.newBuilder()
                .setName("lock" + lock)
                .setOwnerId(owner(owner))
                .setFencingToken(7)
                .setHoldCount(count)
                .build();
    }

    static SessionGranted grants(long acked, GrantedLock... locks) {
        return SessionGranted.newBuilder()
                .addAllLocks(List.of(locks))
                .setValidFor(wire(9_900))
                .setAckedHeartbeat(acked)
                .build();
    }

    /** Releases a hold as the hold itself does it: ends its lease first. 0 is no caller. */
    String release(long now, int index, int reply) {
        leases.get(index).lease().end(at(now), Lease.RELEASED);
        m.release(at(now), leases.get(index).key(), "", caller(reply));
        return seen();
    }

    private Consumer<Output.HoldResult> caller(int reply) {
        if (reply == 0) {
            return null;
        }
        Consumer<Output.HoldResult> call = new Consumer<>() {
            @Override
            public void accept(Output.HoldResult result) {}
        };
        callers.put(call, reply);
        return call;
    }

    String change(long now, int index, Change change, int reply) {
        m.change(at(now), leases.get(index).key(), change, "", caller(reply));
        return seen();
    }

    static SessionHeartbeatAck acks(long sequence, long validFor) {
        return SessionHeartbeatAck.newBuilder().setAckedHeartbeat(sequence).setValidFor(wire(validFor)).build();
    }

    String ack(long now, long sequence, long validFor) {
        return message(now, 0, acks(sequence, validFor));
    }

    /** Ends the stream in the way that leads to this end. */
    String ended(long now, Machine.StreamEnd end) {
        Failure failure = switch (end) {
            case LEFT -> Failures.connection(Failure.Origin.BROKEN, "http://test", "broken");
            case STOPPED -> Failures.answer(Status.Code.UNAVAILABLE, "DRAINING", "");
            case DISOWNED -> Failures.answer(Status.Code.UNAUTHENTICATED, "IDENTITY_EXPIRED", "");
            case BY_OPERATOR -> Failures.answer(Status.Code.ABORTED, "SESSION_ENDED", "");
        };
        assertEquals(end, m.streamEndedBy(at(now), stream, failure));
        return seen();
    }

    String attemptFailed(long now, Fate fate) {
        m.attemptFailed(at(now), fate);
        return seen();
    }

    String tick(long now) {
        m.tick(at(now));
        return seen();
    }

    String close(long now) {
        m.close(at(now));
        return seen();
    }

    String connectFailed(long now, boolean isRetryable) {
        Failure failure = Failures.answer(isRetryable ? Status.Code.UNAVAILABLE : Status.Code.UNIMPLEMENTED, "", "");
        m.connectFailed(at(now), ConnectFailure.of("http://test", failure));
        return seen();
    }

    /** Checks the state of a hold, or the reason of its loss. */
    void wantState(long now, int index, String want) {
        Lease.View view = leases.get(index).lease().at(at(now));
        Enum<?> state = view.state() == HoldState.LOST ? view.reason() : view.state();
        assertEquals(want, state.name().toLowerCase(Locale.ROOT));
    }

    void wantDeadline(long now, int index, long want) {
        Lease.View view = leases.get(index).lease().at(at(now));
        assertTrue(view.isAlive());
        assertEquals(want, view.until() / Moments.MILLIS);
    }

    void wantAlarm(long want) {
        assertEquals(at(want), m.alarm());
    }

    /** Returns the next owner id of this resume of the last open. */
    ByteString next(int index) {
        return resumes.get(index).getNextOwnerId();
    }

    ByteString next() {
        return next(0);
    }

    String seen() {
        return m.takeOutputs().stream().map(this::describe).collect(Collectors.joining("; "));
    }

    private String describe(Output output) {
        if (output instanceof Output.Send send) {
            return sent(send.stream(), send.request());
        }
        if (output instanceof Output.Acquired acquired) {
            int caller = callers.get(acquired.call());
            if (acquired.result().failure() != null) {
                return "failed " + caller + " "
                        + acquired.result().failure().kind().name().toLowerCase(Locale.ROOT).replace('_', ' ');
            }
            leases.addAll(acquired.result().granted());
            return "acquired " + caller;
        }
        if (output instanceof Output.HoldDone done) {
            String outcome = done.result().outcome() == Output.HoldOutcome.DONE
                    ? ""
                    : " " + done.result().outcome().name().toLowerCase(Locale.ROOT);
            return "done " + callers.get(done.call()) + outcome;
        }
        if (output instanceof Output.HangUp hangUp) {
            connectFailure = hangUp.failure();
            return "hang up";
        }
        return output.getClass().getSimpleName().toLowerCase(Locale.ROOT);
    }

    private String sent(long on, SessionRequest request) {
        long id = request.getRequestId();
        boolean isNew = ids.computeIfAbsent(on, none -> new HashSet<>()).add(id);
        assertTrue(id != 0 && (isNew || request.hasOpen()), "request id " + id + " of stream " + on + " is used twice");
        return switch (request.getRequestCase()) {
            case OPEN -> {
                resumes = request.getOpen().getResumeList();
                yield "open";
            }
            case ACQUIRE -> {
                SessionAcquire asked = request.getAcquire();
                String wait = asked.hasWait() ? " for " + Moments.nanos(asked.getWait()) / Moments.MILLIS : "";
                yield "acquire " + id + " " + asked.getName() + String.join("+", asked.getNamesList()) + wait;
            }
            case CANCEL -> "cancel " + request.getCancel().getAcquireRequestId();
            case RELEASE -> {
                ByteString owner = request.getRelease().getOwnerId();
                yield "release " + id + " of " + (owner.size() == 1 ? "" + (owner.byteAt(0) & 0xff) : owner.toStringUtf8());
            }
            case SET_VALUE -> "set value " + id;
            case DOWNGRADE -> "downgrade " + id;
            case REDUCE -> "reduce " + id + " to " + request.getReduce().getPermits();
            case HEARTBEAT -> "heartbeat " + request.getHeartbeat().getSequence();
            case CLOSE -> "close";
            case REQUEST_NOT_SET -> throw new IllegalArgumentException("an empty request");
        };
    }

    /** Answers an open: each of these next owner ids is resumed as a hold. */
    static SessionOpened opensWith(ByteString... resumed) {
        SessionOpened.Builder opened = SessionOpened.newBuilder()
                .setSessionId("s")
                .setCoordinator("c")
                .setTtl(wire(TTL))
                .setHeartbeatInterval(wire(INTERVAL))
                .setValidFor(wire(9_900));
        for (ByteString next : resumed) {
            opened.addResumed(ResumedLock.newBuilder()
                    .setName("lock1")
                    .setOwnerId(next)
                    .setHold(ResumedHold.newBuilder().setFencingToken(7).setHoldCount(1)));
        }
        return opened.build();
    }

    /** Answers an open that resumes a place, which is the first in the queue of lock1. */
    static SessionOpened opensInPlace(ByteString next) {
        return opensWith().toBuilder()
                .addResumed(ResumedLock.newBuilder().setName("lock1").setOwnerId(next).setPosition(1))
                .build();
    }

    static SessionOpened refuses(ByteString next, LostReason reason) {
        return opensWith().toBuilder()
                .addRefused(LostLock.newBuilder().setName("lock1").setOwnerId(next).setReason(reason))
                .build();
    }

    static SessionLost loses(int owner, LostReason reason) {
        return SessionLost.newBuilder()
                .addLocks(LostLock.newBuilder().setName("lock1").setOwnerId(owner(owner)).setReason(reason))
                .build();
    }

    static SessionDraining drains() {
        return SessionDraining.newBuilder().setDeadline(wire(8_000)).build();
    }

    /** Asks the session to move; the coordinator goes on serving. */
    static SessionDraining asksToMove() {
        return SessionDraining.newBuilder().setKeepsServing(true).build();
    }

    static SessionReleased releasedAs(boolean isReleased) {
        return SessionReleased.newBuilder().setReleased(isReleased).build();
    }

    static SessionQueued queuedAs(String ticket) {
        return SessionQueued.newBuilder().setPosition(1).setTicket(ByteString.copyFromUtf8(ticket)).build();
    }

    static SessionNotGranted notGrantedAs(AcquireOutcome outcome) {
        return SessionNotGranted.newBuilder().setOutcome(outcome).build();
    }

    static SessionFailure failsWith(Status.Code code, String reason) {
        return SessionFailure.newBuilder().setCode(code.value()).setReason(reason).build();
    }

    static List<Integer> numbers(int to) {
        return IntStream.range(0, to).boxed().toList();
    }
}
