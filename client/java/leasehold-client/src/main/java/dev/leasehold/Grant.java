package dev.leasehold;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.Bodies;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Change;
import dev.leasehold.internal.machine.Lease;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.internal.machine.Output.Granted;
import dev.leasehold.internal.machine.Output.HoldResult;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Common part of a {@link Hold} and a {@link Term}. All methods may be called from any thread.
 */
public abstract sealed class Grant implements AutoCloseable permits Hold, Term {
    final SessionDriver session;
    final Granted granted;
    private final AtomicReference<CompletableFuture<HoldResult>> releasing = new AtomicReference<>();
    private volatile Bodies.Body body;
    private final CompletableFuture<StopReason> stop = new CompletableFuture<>();

    Grant(SessionDriver session, Granted granted) {
        this.session = session;
        this.granted = granted;
    }

    /** Returns the lock's name. */
    public String name() {
        return granted.lease().name();
    }

    /**
     * Returns the fencing token: greater than that of every earlier grant of this name. Pass it to whatever the lock protects, and let that
     * refuse a smaller token than the largest it has seen: then a holder that was paused and does not know yet that it lost the lock can do
     * no harm.
     */
    public long token() {
        return granted.lease().token();
    }

    /**
     * Returns if the lock is held, and otherwise fails. It reads the clock, so that it is right also after a pause of the garbage collector
     * or of the whole process, when timers are late. Cheap enough to call before every step.
     *
     * @throws LockLostException if the lock is lost
     * @throws HoldException if it is suspended, or was released; see {@link HoldException#kind()}
     */
    public void check() {
        Lease.View view = granted.lease().at(BootClock.now());
        switch (view.state()) {
            case HELD -> {}
            case SUSPENDED -> throw new HoldException(name(), ErrorKind.SUSPENDED, null);
            case RELEASED -> throw new HoldException(name(), ErrorKind.RELEASED, null);
            case LOST -> throw new LockLostException(name(), token(), view.reason());
        }
    }

    /** Returns whether the lock is held, suspended, lost or released, by the clock at this moment. */
    public HoldState state() {
        return granted.lease().at(BootClock.now()).state();
    }

    /** Returns whether the lock is held at this moment. */
    public boolean isHeld() {
        return state() == HoldState.HELD;
    }

    /** Returns why the lock was lost, if it was. */
    public Optional<LostReason> lostReason() {
        return Optional.ofNullable(granted.lease().at(BootClock.now()).reason());
    }

    /** Returns the time left until the lock is lost unless a heartbeat is answered before; zero while it is not held. */
    public Duration validFor() {
        long now = BootClock.now();
        Lease.View view = granted.lease().at(now);
        return view.state() == HoldState.HELD ? Duration.ofNanos(Moments.since(view.until(), now)) : Duration.ZERO;
    }

    /**
     * Returns the time left until the lock is lost, held or suspended, unless a coordinator answers before; zero once it is lost. For work
     * that continues during a suspension and must end with the loss.
     */
    public Duration lostIn() {
        long now = BootClock.now();
        Lease.View view = granted.lease().at(now);
        return view.isAlive() ? Duration.ofNanos(Moments.since(view.until(), now)) : Duration.ZERO;
    }

    /**
     * Returns the time left until the lock ends because it may be held no longer ({@link LockRequest#maxHold}), whatever is answered; empty
     * if it has no such bound.
     */
    public Optional<Duration> endsIn() {
        long endsAt = granted.lease().endsAt();
        return endsAt == Moments.NEVER ? Optional.empty() : Optional.of(Duration.ofNanos(Moments.since(endsAt, BootClock.now())));
    }

    /** Returns the last request of an operator to release the lock, if there is one. Nothing happens if it is not heeded. */
    public Optional<ReleaseRequest> releaseRequest() {
        return Optional.ofNullable(granted.lease().releaseRequest());
    }

    /**
     * Waits until an operator asks for the release of the lock; returns at once if one did before. Empty when the lock is lost or released.
     * The lock is held on: finish what must be finished and release it, or go on.
     *
     * @throws InterruptedException if the thread is interrupted before that
     */
    public Optional<ReleaseRequest> awaitReleaseRequest() throws InterruptedException {
        while (true) {
            CompletableFuture<Void> changed = granted.lease().onChange();
            if (state().isFinal()) {
                return Optional.empty();
            }
            Optional<ReleaseRequest> asked = releaseRequest();
            if (asked.isPresent()) {
                return asked;
            }
            Waits.interruptibly(changed);
        }
    }

    /**
     * Calls the listener when an operator asks for the release of the lock, on the client's executor, and at once if one did before. It is
     * called for one request after the other; of several that come while it runs, for the last. It is not called once the lock has ended.
     *
     * @return calls it off
     */
    public Runnable onReleaseRequest(Consumer<ReleaseRequest> listener) {
        Checks.given(listener, "listener");
        AtomicBoolean isOff = new AtomicBoolean();
        lookForRequest(null, isOff, listener);
        return () -> isOff.set(true);
    }

    private void lookForRequest(ReleaseRequest last, AtomicBoolean isOff, Consumer<ReleaseRequest> listener) {
        CompletableFuture<Void> changed = granted.lease().onChange();
        ReleaseRequest asked = granted.lease().releaseRequest();
        if (isOff.get() || state().isFinal()) {
            return;
        }
        if (asked == last) {
            changed.thenRun(() -> lookForRequest(last, isOff, listener));
            return;
        }
        session.settings().executor().execute(() -> {
            try {
                if (!isOff.get()) {
                    listener.accept(asked);
                }
            } finally {
                lookForRequest(asked, isOff, listener);
            }
        });
    }

    /**
     * Calls the listener once when the lock is lost, on the client's executor, and at once if it is. It is not called for a lock that is
     * only suspended, or that this process releases.
     *
     * @return calls it off
     */
    public Runnable onLost(Consumer<LostReason> listener) {
        Checks.given(listener, "listener");
        return granted.lease().watch(state -> {
            if (state == HoldState.LOST) {
                session.settings().executor().execute(() -> lostReason().ifPresent(listener));
            }
        });
    }

    /**
     * Calls the listener once when work under the lock should end, on the client's executor, and at once if it should already: the lock is
     * lost, the client or the session is being closed, or the future that runs the work ({@link LockRequest#callAsync}, {@link
     * Election#runAsync}) was cancelled, or completed by the program. {@link #stopReason} says which.
     */
    public void onStop(Runnable listener) {
        Checks.given(listener, "listener");
        AtomicBoolean hasCalled = new AtomicBoolean();
        Runnable once = () -> {
            if (hasCalled.compareAndSet(false, true)) {
                session.settings().executor().execute(listener);
            }
        };
        stop.thenAccept(reason -> once.run());
        granted.lease().watch(state -> {
            if (state == HoldState.LOST) {
                once.run();
            }
        });
    }

    /**
     * Returns why work under the lock should end, if it should. A close tells work that {@link LockRequest#run} and its like have begun, and
     * holds with {@link #awaitOnClose}.
     */
    public Optional<StopReason> stopReason() {
        return Optional.ofNullable(state() == HoldState.LOST ? StopReason.LOST : stop.getNow(null));
    }

    /**
     * Lets a close of the client or the session wait until this lock is released or lost, as it waits for the work of {@link
     * LockRequest#run}. The thread is not interrupted: {@link #onStop} and {@link #stopReason} tell of the close. A close by the calling thread
     * does not wait.
     *
     * @return whether it will; false if a close has begun, in which case nothing should be begun under the lock
     */
    public boolean awaitOnClose() {
        Bodies.Body begun = begin(List.of(this), () -> {});
        if (begun != null) {
            body = begun;
            watch(state -> begun.end());
        }
        return begun != null;
    }

    /** Lets a close wait no longer, though the lock is still held. Does nothing without {@link #awaitOnClose}. */
    public void workEnded() {
        Bodies.Body ended = body;
        if (ended != null) {
            ended.end();
        }
    }

    /** Asks the work under the lock to end. */
    void requestStop(StopReason reason) {
        stop.complete(reason);
    }

    /** Notes that work begins under these locks; null if a close has begun. */
    Bodies.Body begin(List<? extends Grant> grants, Runnable interrupt) {
        String label = grants.stream().map(Grant::name).collect(Collectors.joining(", "));
        return session.bodies().begin(label, () -> {
            grants.forEach(grant -> grant.requestStop(StopReason.CLOSED));
            interrupt.run();
        });
    }

    /** Returns the error of work that did not begin or ended early because of a close. */
    HoldException closed() {
        return new HoldException(name(), ErrorKind.CLOSED, null);
    }

    /**
     * Returns a future of the next state that differs from this one, completed on the client's executor; at once if it differs already.
     * States that last for a moment only may be missed.
     */
    public CompletableFuture<HoldState> changeFrom(HoldState from) {
        CompletableFuture<HoldState> result = new CompletableFuture<>();
        lookForChange(from, result);
        return result;
    }

    private void lookForChange(HoldState from, CompletableFuture<HoldState> result) {
        CompletableFuture<Void> changed = granted.lease().onChange();
        HoldState state = state();
        if (state != from) {
            session.settings().executor().execute(() -> result.complete(state));
        } else {
            changed.thenRun(() -> lookForChange(from, result));
        }
    }

    /** Calls the watcher when the lock has ended, in the thread that ends it. */
    Runnable watch(Consumer<HoldState> watcher) {
        return granted.lease().watch(watcher);
    }

    /** Waits while the lock is suspended, whatever interrupts it. Returns its loss; null if it is not lost. */
    LockLostException settled() {
        while (true) {
            CompletableFuture<Void> changed = granted.lease().onChange();
            Lease.View view = granted.lease().at(BootClock.now());
            if (view.state() != HoldState.SUSPENDED) {
                return view.state() == HoldState.LOST ? new LockLostException(name(), token(), view.reason()) : null;
            }
            Waits.uninterruptibly(changed);
        }
    }

    /**
     * Gives the lock back. Idempotent: every call returns the answer to the first. It is completed by the thread that has the answer, and
     * never exposed to the program.
     */
    CompletableFuture<HoldResult> give() {
        CompletableFuture<HoldResult> mine = new CompletableFuture<>();
        if (!releasing.compareAndSet(null, mine)) {
            return releasing.get();
        }
        session.release(granted, session.settings().traceparent()).thenAccept(mine::complete);
        return mine;
    }

    /** Gives the lock back and waits for the answer, whatever interrupts it. */
    void giveAndWait() {
        confirm(Waits.uninterruptibly(give()));
    }

    CompletableFuture<Void> giveAsync() {
        return give().thenAcceptAsync(this::confirm, session.settings().executor());
    }

    /** Fails if a check found something wrong. */
    void requireValid(Failure wrong) {
        if (wrong != null) {
            throw new HoldException(name(), ErrorKind.INVALID, wrong);
        }
    }

    CompletableFuture<Void> change(Change change) {
        return session.change(granted, change).thenAcceptAsync(this::confirm, session.settings().executor());
    }

    void changeAndWait(Change change) throws InterruptedException {
        confirm(Waits.interruptibly(session.change(granted, change)));
    }

    static byte[] utf8(String value) {
        return Checks.given(value, "value").getBytes(StandardCharsets.UTF_8);
    }

    Change value(byte[] value) {
        requireValid(Checks.value(Checks.given(value, "value").length));
        return Change.value(ByteString.copyFrom(value));
    }

    /** Returns the lock's name, its token and its state. */
    @Override
    public String toString() {
        return getClass().getSimpleName() + "[" + name() + ", token " + token() + ", " + state().name().toLowerCase(Locale.ROOT) + "]";
    }

    /** Fails unless the answer is that the request was carried out. */
    private void confirm(HoldResult result) {
        switch (result.outcome()) {
            case DONE -> {}
            case LOST -> throw result.reason() == Lease.RELEASED
                    ? new HoldException(name(), ErrorKind.RELEASED, null)
                    : new LockLostException(name(), token(), result.reason());
            case UNCONFIRMED -> throw new HoldException(name(), ErrorKind.UNCONFIRMED, null);
            case REFUSED -> throw new HoldException(name(), result.failure().kind(), result.failure());
        }
    }
}
