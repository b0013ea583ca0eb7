package dev.leasehold;

import dev.leasehold.internal.Checks;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Output.Granted;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;

/**
 * Common part of a {@link LockRequest} and a {@link MultiLockRequest}. Its settings return a changed copy, so that a request can be kept and
 * used many times. Nothing is sent before one of {@link #run}, {@link #acquire()}, {@link #tryAcquire()} and their like.
 *
 * @param <R> the request itself
 * @param <G> what is granted
 */
public abstract sealed class Request<R extends Request<R, G>, G> permits LockRequest, MultiLockRequest {
    final Acquiring acquiring;

    Request(Acquiring acquiring) {
        this.acquiring = acquiring;
    }

    /** Returns the same request for this acquire. */
    abstract R with(Acquiring changed);

    /** Makes what is granted. */
    abstract G granted(SessionDriver session, List<Granted> grants);

    /** Returns the locks in what is granted. */
    abstract List<Hold> holds(G granted);

    private CompletableFuture<Void> releaseAsync(G granted) {
        return new Holds(holds(granted)).releaseAsync();
    }

    /**
     * Asks for shared holds, whatever the modes were: together with other shared holders, and never with an exclusive one. A request behind a
     * waiting writer waits for that writer. Default: exclusive.
     */
    public R shared() {
        return with(acquiring.locks(acquiring.spec().locks().stream()
                .map(lock -> LockSpec.shared(lock.name()))
                .toList()));
    }

    /**
     * Sets the longest wait: at most 24 h; zero means not to wait. Default: {@link LeaseholdClient.Builder#waitAtMost}, or else as long as it
     * takes, over reconnects too, until the thread is interrupted or the future cancelled.
     */
    public R waitAtMost(Duration wait) {
        return with(acquiring.longestWait(wait));
    }

    /** Attaches a text in UTF-8, as {@link #value(byte[])} does. */
    public R value(String value) {
        return value(Grant.utf8(value));
    }

    /** Attaches a value to each hold for others to see: at most 4 KiB. Default: empty. */
    public R value(byte[] value) {
        return with(acquiring.value(value));
    }

    /**
     * Sets the time for which the name stays closed, or the permits stay taken, if the hold ends uncleanly, that is in any way other than a
     * release: zero to the maximum TTL. Default: zero. For work that can neither be fenced nor be stopped at the moment its lock is lost.
     */
    public R lockDelay(Duration delay) {
        return with(acquiring.lockDelay(delay));
    }

    /**
     * Bounds the time for which a lock is held, however healthy this client is: 1 s to 365 days, counted from its grant. Default: no bound
     * but that of the coordinator's rules. The lock is lost at the end with {@link LostReason#MAX_HOLD}; {@link Hold#endsIn} knows it from
     * the start.
     */
    public R maxHold(Duration bound) {
        return with(acquiring.maxHold(bound));
    }

    /**
     * Asks in the name of an actor. Default: on a thread that runs work under locks ({@link #run}, {@link Election#run} and their like), the
     * actor of that work, and otherwise none; {@link #run} then makes one for its work. So an acquire of what the thread's own work holds
     * fails with {@link ErrorKind#SELF_DEADLOCK} instead of waiting for itself. Requests that return futures have no actor by default.
     */
    public R actor(Actor actor) {
        return with(acquiring.actor(actor));
    }

    /**
     * Allows the actor to hold what it holds already once more, under the same token. The lock comes free when the last of its holds is
     * released. Needs an {@link #actor}, if only that of the work that runs on the thread.
     */
    public R reentrant() {
        return with(acquiring.reentrant());
    }

    /**
     * Waits for the lock, or for all of the locks. If the thread is interrupted first, the request is cancelled; if the coordinator granted it
     * meanwhile, the session gives it back at once. Without {@link #waitAtMost}, a lost connection is not an error: the session asks again on
     * the next one.
     *
     * @throws AcquireException with {@link ErrorKind#TIMED_OUT} if a lock was not free within the wait, {@link ErrorKind#UNAVAILABLE} if no
     *     coordinator answered within it, {@link ErrorKind#CLOSED} if the session is closed, and otherwise with the coordinator's refusal
     * @throws InterruptedException if the thread is interrupted before that
     */
    public G acquire() throws InterruptedException {
        return acquiring.inFlow().acquire(this::granted);
    }

    /** Waits for no longer than this, as {@link #waitAtMost} and {@link #acquire()} do. */
    public G acquire(Duration wait) throws InterruptedException {
        return waitAtMost(wait).acquire();
    }

    /**
     * Asks for the lock, or for all of the locks, without waiting. The future fails as {@link #acquire()} does. Cancelling it cancels the
     * request, and so does every other way to complete it, such as {@link CompletableFuture#orTimeout}.
     */
    public CompletableFuture<G> acquireAsync() {
        return acquiring.acquireAsync(this::granted);
    }

    /**
     * Acquires the lock, or all of the locks, if free. Empty if not, or if others wait for one.
     *
     * @throws AcquireException with {@link ErrorKind#UNAVAILABLE} if no coordinator can be asked, or with the coordinator's refusal
     * @throws InterruptedException if the thread is interrupted before the coordinator has answered
     */
    public Optional<G> tryAcquire() throws InterruptedException {
        return ifFree(() -> waitAtMost(Duration.ZERO).acquire());
    }

    /** An acquire that does not wait. */
    interface Try<G> {
        G acquire() throws InterruptedException;
    }

    /** Turns an acquire that finds the locks busy into an empty value. */
    static <G> Optional<G> ifFree(Try<G> asked) throws InterruptedException {
        try {
            return Optional.of(asked.acquire());
        } catch (AcquireException e) {
            if (e.kind() == ErrorKind.BUSY) {
                return Optional.empty();
            }
            throw e;
        }
    }

    /** Acquires if free, without waiting for the answer; see {@link #tryAcquire()}. */
    public CompletableFuture<Optional<G>> tryAcquireAsync() {
        return AsyncScope.ifFree(waitAtMost(Duration.ZERO).acquireAsync(), this::releaseAsync);
    }

    /**
     * Acquires, runs the work on this thread, and releases when the work has returned, also if it throws. If a lock is lost, the thread is
     * interrupted, and the work is waited for: the lock can then be with somebody else, so it should end soon. While a lock is only
     * suspended, the work goes on, and {@link Hold#check} tells it not to act. If the client or the session is closed, the thread is
     * interrupted too, and the close waits for the work before it gives the lock up; see {@link Session#close()}.
     *
     * @throws E what the work throws
     * @throws LockLostException if a lock was lost before the work was done, with what the work threw, if that says more, as a suppressed
     *     exception: the work counts only if it ran under the lock from beginning to end
     * @throws HoldException with {@link ErrorKind#CLOSED} if the work ended with the {@link InterruptedException} of a close
     * @throws InterruptedException if the thread is interrupted while it waits for the lock
     */
    public <E extends Exception> void run(LockBody.Action<? super G, E> work) throws E, InterruptedException {
        call(Scope.returning(work));
    }

    /** Does as {@link #run} does, and returns what the work returns. */
    public <T, E extends Exception> T call(LockBody<? super G, T, E> work) throws E, InterruptedException {
        Checks.given(work, "work");
        Acquiring own = acquiring.ofWork();
        return under(own, own.acquire(this::granted), work);
    }

    private <T, E extends Exception> T under(Acquiring own, G granted, LockBody<? super G, T, E> work) throws E {
        List<Hold> holds = holds(granted);
        return Scope.run(holds, own.spec().actor(), new Holds(holds)::release, () -> work.call(granted));
    }

    /**
     * Does as {@link #run} does if the lock, or all of the locks, are free, and otherwise skips the work; see {@link #tryAcquire()}. For jobs
     * that one of several processes does.
     *
     * @return whether the work ran
     */
    public <E extends Exception> boolean tryRun(LockBody.Action<? super G, E> work) throws E, InterruptedException {
        var returning = Scope.returning(work);
        Acquiring own = acquiring.longestWait(Duration.ZERO).ofWork();
        Optional<G> granted = ifFree(() -> own.acquire(this::granted));
        if (granted.isPresent()) {
            under(own, granted.get(), returning);
        }
        return granted.isPresent();
    }

    /**
     * Acquires, begins the work on the client's executor, and releases when the stage that the work returned is done. The work learns of a
     * loss by {@link Hold#onLost}, and by {@link Hold#onStop} also that this future was cancelled or the session is closed; it is waited for.
     *
     * @return the work's result; fails with {@link LockLostException} if a lock was lost before the work was done, with the work's own
     *     failure as a suppressed exception
     */
    public <T> CompletableFuture<T> callAsync(Function<? super G, ? extends CompletionStage<T>> work) {
        Checks.given(work, "work");
        return AsyncScope.whenGranted(acquireAsync(), this::holds, this::releaseAsync, work);
    }

    /** Returns the names and modes of the locks. */
    @Override
    public String toString() {
        return getClass().getSimpleName() + acquiring.spec().locks();
    }
}
