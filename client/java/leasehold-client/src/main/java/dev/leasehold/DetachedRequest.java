package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.CallFailedException;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.Failures;
import dev.leasehold.internal.Named;
import dev.leasehold.internal.machine.AcquireFailure;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.AcquireRequest;
import dev.leasehold.v1.AcquireResponse;
import dev.leasehold.v1.LockServiceGrpc;
import io.grpc.Status;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * Request for a lock that no session holds: nobody renews it but {@link DetachedLock#renew}, and it outlives this process until its TTL has
 * passed. Its settings return a changed copy.
 */
public final class DetachedRequest {
    private static final int OWNER_ID = 16;

    private final Calls calls;
    private final AcquireRequest request;
    private final LockSpec spec;
    /** What a check found wrong; null if nothing is. */
    private final Failure wrong;

    DetachedRequest(Calls calls, LockSpec spec) {
        this(calls, spec, AcquireRequest.newBuilder().setWait(Moments.wire(0)).build(), Checks.lock(Checks.given(spec, "spec")));
    }

    private DetachedRequest(Calls calls, LockSpec spec, AcquireRequest request, Failure wrong) {
        this.calls = calls;
        this.spec = spec;
        this.request = request;
        this.wrong = wrong;
    }

    private DetachedRequest with(AcquireRequest.Builder changed, Failure found) {
        return new DetachedRequest(calls, spec, changed.build(), wrong == null ? found : wrong);
    }

    /** Sets the time for which it is held without a renewal: 1 s to 1 h unless the coordinator is configured otherwise. Default: 10 s. */
    public DetachedRequest ttl(Duration ttl) {
        long nanos = Moments.nanos(Checks.given(ttl, "ttl"));
        return with(request.toBuilder().setTtl(Moments.wire(nanos)), Checks.positive(nanos, "ttl"));
    }

    /** Sets the longest wait. Default: zero, that is not to wait. */
    public DetachedRequest waitAtMost(Duration wait) {
        long nanos = Moments.nanos(Checks.given(wait, "wait"));
        return with(request.toBuilder().setWait(Moments.wire(nanos)), Checks.longestWait(nanos));
    }

    /** Attaches a value for others to see: at most 4 KiB. Default: empty. */
    public DetachedRequest value(byte[] value) {
        Failure wrong = Checks.value(Checks.given(value, "value").length);
        return wrong == null ? with(request.toBuilder().setValue(ByteString.copyFrom(value)), null) : with(request.toBuilder(), wrong);
    }

    /** Attaches a text in UTF-8, as {@link #value(byte[])} does. */
    public DetachedRequest value(String value) {
        return value(Grant.utf8(value));
    }

    /** Sets the name that operators see. Default: the client's. */
    public DetachedRequest clientName(String name) {
        Failure wrong = Checks.text(Checks.given(name, "name"), "client_name");
        return wrong == null ? with(request.toBuilder().setClientName(name), null) : with(request.toBuilder(), wrong);
    }

    /** Sets the time for which the name stays closed if the lock ends in another way than by a release. Default: zero. */
    public DetachedRequest lockDelay(Duration delay) {
        long nanos = Moments.nanos(Checks.given(delay, "delay"));
        return with(request.toBuilder().setLockDelay(Moments.wire(nanos)), Checks.time(nanos, "lock_delay"));
    }

    /**
     * Asks for the lock. If a coordinator can't be reached, goes away, or its connection breaks before the answer, the client asks at every
     * other address, under the same request key: what the first has granted is taken over. If the thread is interrupted first, the
     * coordinator gives up the wait; a grant that crosses that is held until its TTL has passed.
     *
     * @throws AcquireException with {@link ErrorKind#BUSY}, {@link ErrorKind#TIMED_OUT}, {@link ErrorKind#UNAVAILABLE} if no coordinator
     *     answered, {@link ErrorKind#CLOSED} if the client is closed, or with the coordinator's refusal
     * @throws InterruptedException if the thread is interrupted before the answer
     */
    public DetachedLock acquire() throws InterruptedException {
        long askedAt = BootClock.now();
        try {
            DetachedLock granted = ask();
            measure("granted", askedAt);
            return granted;
        } catch (AcquireException e) {
            measure(e.kind().name().toLowerCase(Locale.ROOT), askedAt);
            throw e;
        } catch (InterruptedException e) {
            measure("cancelled", askedAt);
            throw e;
        }
    }

    /** Acquires the lock if it is free, whatever {@link #waitAtMost} says; see {@link #acquire()}. Empty if not, or if others wait for it. */
    public Optional<DetachedLock> tryAcquire() throws InterruptedException {
        return Request.ifFree(waitAtMost(Duration.ZERO)::acquire);
    }

    /**
     * Asks for the lock as {@link #acquire()} does, on a thread of its own. Cancelling the future, or completing it in any other way, ends the
     * request, and gives back what was granted meanwhile.
     */
    public CompletableFuture<DetachedLock> acquireAsync() {
        return Waits.onThread(calls.settings().executor(), this::acquire, DetachedLock::release);
    }

    /** Acquires the lock if it is free, as {@link #acquireAsync()} does without a wait. */
    public CompletableFuture<Optional<DetachedLock>> tryAcquireAsync() {
        return Waits.onThread(calls.settings().executor(), this::tryAcquire, granted -> granted.ifPresent(DetachedLock::release));
    }

    /** Returns the lock's name and mode. */
    @Override
    public String toString() {
        return "DetachedRequest[" + spec + "]";
    }

    private void measure(String outcome, long askedAt) {
        Duration after = Duration.ofNanos(Moments.since(BootClock.now(), askedAt));
        calls.settings().measures().tell(to -> to.acquireEnded(outcome, after));
    }

    private DetachedLock ask() throws InterruptedException {
        if (wrong != null) {
            throw new AcquireException(ErrorKind.INVALID, Checks.shown(spec.name()), wrong);
        }
        AcquireRequest asked = request.toBuilder()
                .setName(spec.name())
                .setMode(Named.mode(spec.mode()))
                .setPermits(spec.permits())
                .setLimit(spec.limit())
                .setLimitRevision(spec.limitRevision())
                .setPermitsAtLeast(spec.permitsAtLeast())
                .setRequestKey(UUID.randomUUID().toString())
                .build();
        long wait = Moments.nanos(asked.getWait());
        Calls.Answer<AcquireResponse> answered;
        try {
            answered = ask(Calls.Rule.FREELY, asked);
        } catch (AcquireException e) {
            if (e.kind() != ErrorKind.PERMISSION_DENIED) {
                throw e;
            }
            // Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
            answered = ask(Calls.Rule.UNSENT, asked.toBuilder().clearRequestKey().build());
        }
        AcquireResponse answer = answered.answer();
        switch (answer.getOutcome()) {
            case ACQUIRE_OUTCOME_GRANTED:
                if (answer.getOwnerId().size() != OWNER_ID) {
                    break;
                }
                long ttl = Moments.nanos(answer.getTtl());
                DetachedLock lock = new DetachedLock(
                        calls,
                        spec.name(),
                        answer.getFencingToken(),
                        answer.getOwnerId(),
                        answer.getPermits() == 0 ? spec.permits() : answer.getPermits(),
                        asked.hasTtl() ? asked.getTtl() : null,
                        Moments.after(answered.sentAt(), ttl));
                // It waited: the TTL counts from the grant, which may have come just now, or a while ago.
                if (lock.validFor().toNanos() < ttl / 2) {
                    try {
                        lock.renew();
                    } catch (LeaseholdException e) {
                        // It is held for as long as the grant says.
                    }
                }
                return lock;
            case ACQUIRE_OUTCOME_BUSY, ACQUIRE_OUTCOME_TIMED_OUT:
                // A request that is repeated at the end of its wait does not wait.
                throw new AcquireException(new AcquireFailure(
                        spec.name(),
                        wait == 0 ? ErrorKind.BUSY : ErrorKind.TIMED_OUT,
                        wait,
                        answer.hasHolder() ? answer.getHolder() : null,
                        0,
                        null,
                        null));
            default:
                break;
        }
        String message = "the coordinator answered " + answer.getOutcome() + " without what belongs to it";
        throw new AcquireException(ErrorKind.REFUSED, spec.name(), Failures.answer(Status.Code.INTERNAL, "", message));
    }

    private Calls.Answer<AcquireResponse> ask(Calls.Rule rule, AcquireRequest asked) throws InterruptedException {
        long wait = Moments.nanos(asked.getWait());
        long end = Moments.after(BootClock.now(), wait);
        try {
            return calls.acquire(Calls.Repeats.none(rule, wait), LockServiceGrpc.getAcquireMethod(), () -> asked.toBuilder()
                    .setWait(Moments.wire(Moments.since(end, BootClock.now())))
                    .build());
        } catch (CallFailedException e) {
            throw new AcquireException(AcquireFailure.refused(e.failure()).of(spec.name()));
        } catch (LeaseholdException e) {
            throw new AcquireException(e.kind(), spec.name(), e.failure);
        }
    }
}
