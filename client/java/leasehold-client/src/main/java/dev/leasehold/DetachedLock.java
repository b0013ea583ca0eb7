package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.Bodies;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.CallFailedException;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.v1.LockServiceGrpc;
import dev.leasehold.v1.ReleaseRequest;
import dev.leasehold.v1.ReleaseResponse;
import dev.leasehold.v1.RenewRequest;
import dev.leasehold.v1.RenewResponse;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

/**
 * Lock that no session holds. Renew it well before {@link #validFor} has passed; otherwise it ends, whatever this process does. It is not
 * released when this process ends. All methods may be called from any thread.
 */
public final class DetachedLock {
    private final Calls calls;
    private final String name;
    private final long token;
    private final ByteString ownerId;
    private final int permits;
    private volatile com.google.protobuf.Duration ttl;
    private volatile long heldUntil;
    private volatile Bodies.Body body;

    DetachedLock(
            Calls calls,
            String name,
            long token,
            ByteString ownerId,
            int permits,
            com.google.protobuf.Duration ttl,
            long heldUntil) {
        this.calls = calls;
        this.name = name;
        this.token = token;
        this.ownerId = ownerId;
        this.permits = permits;
        this.ttl = ttl;
        this.heldUntil = heldUntil;
    }

    /** Returns the lock's name. */
    public String name() {
        return name;
    }

    /** Returns the fencing token; see {@link Grant#token}. */
    public long token() {
        return token;
    }

    /** Returns how many permits of a semaphore were granted; 0 for other locks. */
    public int permits() {
        return permits;
    }

    /** Returns the owner id, with which another process can take the lock up. Secret: whoever has it can release the lock. */
    public byte[] ownerId() {
        return ownerId.toByteArray();
    }

    /** Returns whether it is held at this moment, by this process's own clock. */
    public boolean isHeld() {
        return !validFor().isZero();
    }

    /** Returns the time left until it ends unless it is renewed. */
    public Duration validFor() {
        return Duration.ofNanos(Moments.since(heldUntil, BootClock.now()));
    }

    /** Makes a call on a thread that may have been interrupted before: work that is interrupted must still give its lock back. */
    private <Q, A> Calls.Answer<A> call(MethodDescriptor<Q, A> method, Q request, long until) {
        boolean wasInterrupted = Thread.interrupted();
        try {
            return calls.call(Calls.Repeats.until(until), method, () -> request);
        } catch (CallFailedException e) {
            throw new HoldException(name, e.failure().kind(), e.failure());
        } catch (InterruptedException e) {
            wasInterrupted = true;
            throw new HoldException(name, ErrorKind.UNCONFIRMED, null);
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Renews it, for the TTL from now on. If no coordinator answers, it is repeated at all of them for as long as the lock is held, at most
     * ten seconds. An interrupt ends the call only if it comes while that runs.
     *
     * @throws LockLostException if it is not held any more
     * @throws HoldException if no coordinator confirmed the renewal; the lock is then held for as long as before, and perhaps longer
     */
    public void renew() {
        RenewRequest.Builder request = RenewRequest.newBuilder().setName(name).setOwnerId(ownerId);
        com.google.protobuf.Duration asked = ttl;
        if (asked != null) {
            request.setTtl(asked);
        }
        Calls.Answer<RenewResponse> answered = call(LockServiceGrpc.getRenewMethod(), request.build(), heldUntil);
        RenewResponse answer = answered.answer();
        if (!answer.getRenewed()) {
            heldUntil = BootClock.now();
            throw new LockLostException(name, token, LostReason.UNKNOWN);
        }
        heldUntil = Moments.after(answered.sentAt(), Moments.nanos(answer.getTtl()));
    }

    /** Renews it as {@link #renew()} does, for another TTL from now on, which later renewals keep. */
    public void renew(Duration time) {
        long nanos = Moments.nanos(Checks.given(time, "time"));
        Failure wrong = Checks.positive(nanos, "ttl");
        if (wrong != null) {
            throw new HoldException(name, ErrorKind.INVALID, wrong);
        }
        ttl = Moments.wire(nanos);
        renew();
    }

    /** Renews it as {@link #renew()} does, on a thread of its own, which cancelling the future interrupts. */
    public CompletableFuture<Void> renewAsync() {
        return async(this::renew);
    }

    /** Gives it back as {@link #release} does, on a thread of its own, which cancelling the future interrupts. */
    public CompletableFuture<Void> releaseAsync() {
        return async(this::release);
    }

    private CompletableFuture<Void> async(Runnable call) {
        return Waits.onThread(calls.settings().executor(), Executors.callable(call, null), none -> {});
    }

    /**
     * Lets a close of the client wait until {@link #release} has returned, since it could not be released after that. A close by the calling
     * thread does not wait.
     *
     * @return whether it will; false if a close has begun, in which case nothing should be begun under the lock
     */
    public boolean awaitOnClose() {
        body = calls.bodies().begin(name, () -> {});
        return body != null;
    }

    /** Lets a close of the client wait no longer, though it may not be released. Does nothing without {@link #awaitOnClose}. */
    public void workEnded() {
        Bodies.Body ended = body;
        if (ended != null) {
            ended.end();
        }
    }

    /** Returns the lock's name, its token, and the time left. */
    @Override
    public String toString() {
        return "DetachedLock[" + name + ", token " + token + ", valid for " + validFor() + "]";
    }

    /**
     * Gives it back. If no coordinator answers, it is repeated at all of them for as long as the lock would be held, at most ten seconds. An
     * interrupt ends the call only if it comes while that runs.
     *
     * @throws LockLostException if it was not held any more
     * @throws HoldException if no coordinator confirmed the release; it may have been carried out
     */
    public void release() {
        long until = heldUntil;
        heldUntil = BootClock.now();
        ReleaseRequest request = ReleaseRequest.newBuilder().setName(name).setOwnerId(ownerId).build();
        Calls.Answer<ReleaseResponse> answered;
        try {
            answered = call(LockServiceGrpc.getReleaseMethod(), request, until);
        } finally {
            workEnded();
        }
        // A repeated one finds nothing if the first was carried out.
        if (!answered.answer().getReleased() && !answered.isRepeat()) {
            throw new LockLostException(name, token, LostReason.UNKNOWN);
        }
    }
}
