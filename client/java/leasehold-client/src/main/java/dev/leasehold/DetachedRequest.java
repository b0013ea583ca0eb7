package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.CallFailedException;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Failures;
import dev.leasehold.internal.machine.AcquireFailure;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.AcquireRequest;
import dev.leasehold.v1.AcquireResponse;
import dev.leasehold.v1.LockMode;
import dev.leasehold.v1.LockServiceGrpc;
import io.grpc.Status;
import java.time.Duration;
import java.util.Locale;
import java.util.UUID;

/**
 * Request for a lock that no session holds: nobody renews it but {@link DetachedLock#renew}, and it outlives this process until its TTL has
 * passed. Its settings return a changed copy.
 */
public final class DetachedRequest {
    private static final int OWNER_ID = 16;

    private final Calls calls;
    private final AcquireRequest request;
    private final LockSpec spec;

    DetachedRequest(Calls calls, LockSpec spec) {
        this(calls, spec, AcquireRequest.newBuilder().setWait(Moments.wire(0)).build());
    }

    private DetachedRequest(Calls calls, LockSpec spec, AcquireRequest request) {
        this.calls = calls;
        this.spec = spec;
        this.request = request;
    }

    private DetachedRequest with(AcquireRequest.Builder changed) {
        return new DetachedRequest(calls, spec, changed.build());
    }

    /** Sets the time for which it is held without a renewal: 1 s to 1 h unless the coordinator is configured otherwise. Default: 10 s. */
    public DetachedRequest ttl(Duration ttl) {
        return with(request.toBuilder().setTtl(Moments.wire(Moments.nanos(ttl))));
    }

    /** Sets the longest wait. Default: zero, that is not to wait. */
    public DetachedRequest waitAtMost(Duration wait) {
        return with(request.toBuilder().setWait(Moments.wire(Moments.nanos(wait))));
    }

    /** Attaches a value for others to see: at most 4 KiB. Default: empty. */
    public DetachedRequest value(byte[] value) {
        return with(request.toBuilder().setValue(ByteString.copyFrom(value)));
    }

    /** Sets the name that operators see. Default: empty. */
    public DetachedRequest clientName(String name) {
        return with(request.toBuilder().setClientName(name));
    }

    /** Sets the time for which the name stays closed if the lock ends in another way than by a release. Default: zero. */
    public DetachedRequest lockDelay(Duration delay) {
        return with(request.toBuilder().setLockDelay(Moments.wire(Moments.nanos(delay))));
    }

    /**
     * Asks for the lock. If the connection breaks before the answer, the client asks the next coordinator once each, under the same request
     * key: what the first has granted is taken over.
     *
     * @throws AcquireException with {@link ErrorKind#BUSY}, {@link ErrorKind#TIMED_OUT}, {@link ErrorKind#UNAVAILABLE}, or the coordinator's
     *     refusal
     */
    public DetachedLock acquire() {
        long askedAt = BootClock.now();
        try {
            DetachedLock granted = ask();
            measure("granted", askedAt);
            return granted;
        } catch (AcquireException e) {
            measure(e.kind().name().toLowerCase(Locale.ROOT), askedAt);
            throw e;
        }
    }

    private void measure(String outcome, long askedAt) {
        Duration after = Duration.ofNanos(Moments.since(BootClock.now(), askedAt));
        calls.settings().measures().tell(to -> to.acquireEnded(outcome, after));
    }

    private DetachedLock ask() {
        if (!spec.invalidField().isEmpty()) {
            throw new AcquireException(
                    ErrorKind.INVALID, spec.name(), Failures.invalidField(spec.invalidField(), "must be at least 1"));
        }
        AcquireRequest asked = request.toBuilder()
                .setName(spec.name())
                .setMode(switch (spec.mode()) {
                    case EXCLUSIVE -> LockMode.LOCK_MODE_EXCLUSIVE;
                    case SHARED -> LockMode.LOCK_MODE_SHARED;
                    case SEMAPHORE -> LockMode.LOCK_MODE_SEMAPHORE;
                })
                .setPermits(spec.permits())
                .setLimit(spec.limit())
                .setLimitRevision(spec.limitRevision())
                .setPermitsAtLeast(spec.permitsAtLeast())
                .setRequestKey(UUID.randomUUID().toString())
                .build();
        long wait = Moments.nanos(asked.getWait());
        long[] sentAt = new long[1];
        AcquireResponse answer;
        try {
            answer = ask(Calls.Rule.FREELY, asked, sentAt);
        } catch (CallFailedException e) {
            if (e.failure().kind() != ErrorKind.PERMISSION_DENIED) {
                throw new AcquireException(e.failure().kind(), spec.name(), e.failure());
            }
            // Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
            try {
                answer = ask(Calls.Rule.UNSENT, asked.toBuilder().clearRequestKey().build(), sentAt);
            } catch (CallFailedException again) {
                throw new AcquireException(again.failure().kind(), spec.name(), again.failure());
            }
        }
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
                        Moments.after(sentAt[0], ttl));
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
                boolean isBusy = answer.getOutcome() == dev.leasehold.v1.AcquireOutcome.ACQUIRE_OUTCOME_BUSY;
                throw new AcquireException(new AcquireFailure(
                        spec.name(),
                        isBusy ? ErrorKind.BUSY : ErrorKind.TIMED_OUT,
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

    private AcquireResponse ask(Calls.Rule rule, AcquireRequest asked, long[] sentAt) throws CallFailedException {
        long wait = Moments.nanos(asked.getWait());
        return calls.call(rule, LockServiceGrpc.getAcquireMethod(), asked, wait, () -> sentAt[0] = BootClock.now());
    }
}
