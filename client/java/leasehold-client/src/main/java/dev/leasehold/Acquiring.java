package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.AcquireSpec;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.internal.machine.Output.Granted;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.Supplier;

/**
 * Common part of requests for one lock, for several, and for a leadership: an acquire, and the session to ask on.
 *
 * @param session source of the session; fails with {@link ErrorKind#CLOSED} if the client is closed
 * @param spec the acquire
 */
record Acquiring(Supplier<SessionDriver> session, AcquireSpec spec) {
    static Acquiring of(Supplier<SessionDriver> session, boolean isSeveral, List<LockSpec> locks, long longestWait) {
        locks.forEach(lock -> Checks.given(lock, "lock"));
        return new Acquiring(
                session,
                new AcquireSpec(List.copyOf(locks), isSeveral, longestWait, ByteString.EMPTY, 0, 0, 0, false, ""));
    }

    private Acquiring with(AcquireSpec changed) {
        return new Acquiring(session, changed);
    }

    Acquiring locks(List<LockSpec> locks) {
        return with(spec.withLocks(locks));
    }

    Acquiring longestWait(Duration wait) {
        // The longest number stands for no bound.
        return with(spec.withLongestWait(Math.min(Moments.nanos(Checks.given(wait, "wait")), Moments.NEVER - 1)));
    }

    Acquiring value(byte[] value) {
        return with(spec.withValue(ByteString.copyFrom(Checks.given(value, "value"))));
    }

    Acquiring lockDelay(Duration delay) {
        return with(spec.withLockDelay(Moments.nanos(Checks.given(delay, "delay"))));
    }

    Acquiring maxHold(Duration bound) {
        long nanos = Moments.nanos(Checks.given(bound, "bound"));
        // Zero stands for no bound.
        return with(spec.withMaxHold(nanos == 0 ? -1 : nanos));
    }

    Acquiring actor(Actor actor) {
        return with(spec.withActor(Checks.given(actor, "actor").number()));
    }

    /**
     * Returns the acquire in the name of the thread's work under locks, so that it can't wait for itself; unless it has an actor, or that work
     * has none.
     */
    Acquiring inFlow() {
        long actor = Scope.actor();
        return spec.actor() != 0 || actor == 0 ? this : with(spec.withActor(actor));
    }

    /** Returns the acquire of work that is to run on this thread: in the name of what runs there, or of an actor of its own. */
    Acquiring ofWork() {
        Acquiring inner = inFlow();
        return inner.spec.actor() == 0 ? inner.actor(new Actor()) : inner;
    }

    Acquiring reentrant() {
        return with(spec.withReentrant());
    }

    String label() {
        return spec.label();
    }

    /** Fails if it can't be asked for. */
    void check() {
        Failure wrong = Checks.acquire(spec);
        if (wrong != null) {
            throw new AcquireException(ErrorKind.INVALID, label(), wrong);
        }
    }

    private SessionDriver checkedSession() {
        check();
        try {
            return session.get();
        } catch (AcquireException e) {
            throw e;
        } catch (LeaseholdException e) {
            throw new AcquireException(e.kind(), label(), e.failure);
        }
    }

    /** Waits for the locks, and makes something of the session and the grants. */
    <T> T acquire(BiFunction<SessionDriver, List<Granted>, T> make) throws InterruptedException {
        SessionDriver on = checkedSession();
        CompletableFuture<AcquireResult> call = new CompletableFuture<>();
        long id = on.acquire(spec.withTraceparent(on.settings().traceparent()), call);
        AcquireResult result;
        try {
            result = Waits.interruptibly(call);
        } catch (InterruptedException e) {
            on.abandon(id, call);
            throw e;
        }
        if (result.failure() != null) {
            throw new AcquireException(result.failure());
        }
        return make.apply(on, result.granted());
    }

    /** Asks for the locks without waiting. To cancel the future, or to complete it in any other way, cancels the request. */
    <T> CompletableFuture<T> acquireAsync(BiFunction<SessionDriver, List<Granted>, T> make) {
        SessionDriver on;
        try {
            on = checkedSession();
        } catch (LeaseholdException e) {
            return CompletableFuture.failedFuture(e);
        }
        CompletableFuture<AcquireResult> call = new CompletableFuture<>();
        CompletableFuture<T> result = new CompletableFuture<>();
        AtomicReference<T> made = new AtomicReference<>();
        call.thenAcceptAsync(
                answer -> {
                    if (answer.failure() != null) {
                        result.completeExceptionally(new AcquireException(answer.failure()));
                    } else {
                        made.set(make.apply(on, answer.granted()));
                        result.complete(made.get());
                    }
                },
                on.settings().executor());
        long id = on.acquire(spec.withTraceparent(on.settings().traceparent()), call);
        result.whenComplete((granted, failure) -> {
            if (failure != null || granted == null || granted != made.get()) {
                // Cancelled or completed by the program, or failed: then nothing is left to give back.
                on.abandon(id, call);
            }
        });
        return result;
    }
}
