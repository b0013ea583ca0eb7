package dev.leasehold.internal;

import com.google.protobuf.ByteString;
import dev.leasehold.ClientMetrics;
import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.SessionInfo;
import dev.leasehold.internal.machine.AcquireSpec;
import dev.leasehold.internal.machine.Change;
import dev.leasehold.internal.machine.ConnectFailure;
import dev.leasehold.internal.machine.Fate;
import dev.leasehold.internal.machine.Lease;
import dev.leasehold.internal.machine.Machine;
import dev.leasehold.internal.machine.Moments;
import dev.leasehold.internal.machine.Output;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.internal.machine.Output.Granted;
import dev.leasehold.internal.machine.Output.HoldOutcome;
import dev.leasehold.internal.machine.Output.HoldResult;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionResponse;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * Driver of a session's machine: takes in what happens, with the time, and does what the machine asks for. One mutex guards everything;
 * nothing blocks, and no code of the program runs, while it is held.
 */
public final class SessionDriver {
    /**
     * Longest time between two looks at the clock. Timers do not count the time for which the machine was suspended, so that one set for
     * long would ring late.
     */
    private static final long LONGEST_SLEEP = Moments.SECONDS;
    /** Number of connections kept that did not open in time: more than there can be before all is lost. */
    private static final int MOST_OVERDUE = 64;

    private static final System.Logger LOG = System.getLogger("dev.leasehold");
    private static final SecureRandom RANDOM = new SecureRandom();

    final Settings settings;
    final Machine machine;
    final Route route;
    final Pauses pauses;
    final Renewing renews = new Renewing();
    final Dialling dialling;
    private final Bodies bodies = new Bodies();
    private final ReentrantLock mutex = new ReentrantLock();
    /** Inputs that came from within an input, as when gRPC calls back at once. */
    private final ArrayDeque<LongConsumer> deferred = new ArrayDeque<>();

    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    /** The connection of the stream that has the session open. */
    Connection current;
    /** The connection of the stream that is to have it next. */
    Connection next;
    /** Connections of streams that did not open in time, until another one has. */
    private final ArrayDeque<Connection> overdue = new ArrayDeque<>();

    /** Set if the session ends when the first round of attempts fails; {@link #failed} is then why. */
    private boolean mustOpen;

    private ConnectFailure failed;
    private Runnable disarm = () -> {};
    private long armed = Moments.NEVER;
    private volatile SessionInfo info;
    private volatile long drains = Moments.NEVER;
    private long lastAcquire;
    /**
     * Acquires that wait for room on the stream, by number. While the stream does not take requests, callers wait here rather than ahead of
     * the releases that come later.
     */
    private final LinkedHashMap<Long, ForRoom> forRoom = new LinkedHashMap<>();
    private boolean isOver;

    /** Acquire that waits for room. */
    private record ForRoom(AcquireSpec spec, CompletableFuture<AcquireResult> call) {}

    /** When the acquires were asked for that are not answered, by number; empty if nobody wants to know. */
    private final HashMap<Long, Long> askedAt = new HashMap<>();
    /** What is to be told to the receivers of metrics once the mutex is free. */
    private List<Consumer<ClientMetrics>> notes = new ArrayList<>();
    /** Set while the session is open, as far as the receivers of metrics know. */
    private boolean isCountedAsOpen;

    /**
     * Makes a session and begins to connect. If it must open, it ends when no coordinator of the first round opens it.
     *
     * @param settings settings of the client
     * @param open the message that opens it
     * @param mustOpen whether it ends if it can't be opened
     */
    public SessionDriver(Settings settings, SessionOpen open, boolean mustOpen) {
        this.settings = settings;
        this.machine = new Machine(open, settings.connectTimeout(), SessionDriver::drawOwnerId, LOG::log);
        this.route = new Route(settings.endpoints().size(), new Random());
        this.pauses = new Pauses(settings.backoffMin(), settings.backoffMax());
        this.mustOpen = mustOpen;
        this.dialling = new Dialling(this);
        input(now -> {});
    }

    private static ByteString drawOwnerId() {
        byte[] id = new byte[16];
        RANDOM.nextBytes(id);
        return ByteString.copyFrom(id);
    }

    /** Returns what is completed when the session has been open for the first time. */
    public CompletableFuture<Void> opened() {
        return opened;
    }

    /** Returns what is completed when it has ended: closed, or not opened. */
    public CompletableFuture<Void> ended() {
        return ended;
    }

    /** Returns why it could not be opened; null if that is not why it ended. */
    public ConnectFailure failed() {
        return failed;
    }

    /** Returns the description of the session; null while it is not open. */
    public SessionInfo info() {
        return info;
    }

    /** Returns when the coordinator goes away; {@link Moments#NEVER} if it has not said so. */
    public long drains() {
        return drains;
    }

    /** Returns the settings of the client. */
    public Settings settings() {
        return settings;
    }

    /** Takes in something that happens, and does what the machine asks for then. */
    void input(LongConsumer action) {
        if (mutex.isHeldByCurrentThread()) {
            deferred.add(action);
            return;
        }
        settings.executor().afterwards(() -> locked(action));
    }

    private void locked(LongConsumer action) {
        List<Consumer<ClientMetrics>> told;
        mutex.lock();
        try {
            long now = BootClock.now();
            for (LongConsumer one = action; one != null; one = deferred.poll()) {
                one.accept(now);
                carryOut(now);
            }
            if (isCountedAsOpen != (current != null)) {
                isCountedAsOpen = !isCountedAsOpen;
                note(isCountedAsOpen ? ClientMetrics::sessionOpened : ClientMetrics::sessionEnded);
            }
        } finally {
            // Another thread may add to the list as soon as the mutex is free.
            told = notes.isEmpty() ? List.of() : notes;
            if (!told.isEmpty()) {
                notes = new ArrayList<>();
            }
            mutex.unlock();
        }
        told.forEach(settings.measures()::tell);
    }

    /** Tells the receivers of metrics something, once the mutex is free. */
    private void note(Consumer<ClientMetrics> what) {
        if (settings.measures().isEmpty()) {
            return;
        }
        if (mutex.isHeldByCurrentThread()) {
            notes.add(what);
        } else {
            settings.measures().tell(what);
        }
    }

    /** Notes the end of an acquire, and the holds that it was granted. */
    private void noteEnd(long now, long id, String outcome, List<Granted> granted) {
        Long since = askedAt.remove(id);
        if (since == null) {
            return;
        }
        note(to -> to.acquireEnded(outcome, Duration.ofNanos(Moments.since(now, since))));
        for (Granted one : granted) {
            note(ClientMetrics::holdBegan);
            one.lease().watch(state -> {
                long endedAt = BootClock.now();
                LostReason reason = one.lease().at(endedAt).reason();
                String end = reason == Lease.RELEASED ? "released" : reason.name().toLowerCase(Locale.ROOT);
                note(to -> to.holdEnded(end, Duration.ofNanos(Moments.since(endedAt, now))));
            });
        }
    }

    private void answered(long id, AcquireResult result) {
        String outcome = result.failure() == null ? "granted" : result.failure().kind().name().toLowerCase(Locale.ROOT);
        noteEnd(BootClock.now(), id, outcome, result.granted());
    }

    /** Begins an acquire, as soon as there is room for it; returns its number. */
    public long acquire(AcquireSpec spec, CompletableFuture<AcquireResult> call) {
        long[] id = new long[1];
        input(now -> {
            id[0] = ++lastAcquire;
            if (!settings.measures().isEmpty()) {
                askedAt.put(id[0], now);
            }
            forRoom.put(id[0], new ForRoom(spec, call));
        });
        return id[0];
    }

    /** Cancels an acquire whose caller waits no longer, and gives back what it was granted meanwhile. */
    public void abandon(long id, CompletableFuture<AcquireResult> call) {
        input(now -> {
            noteEnd(now, id, "cancelled", List.of());
            if (forRoom.remove(id) != null) {
                return;
            }
            machine.cancel(now, id);
            // Calls are completed under the mutex: from the cancel on nobody completes this one.
            AcquireResult result = call.getNow(null);
            if (result != null) {
                for (Granted granted : result.granted()) {
                    if (granted.lease().end(now, Lease.RELEASED)) {
                        machine.release(now, granted.key(), "", null);
                    }
                }
            }
        });
    }

    /**
     * Gives one grant back. Returns the answer: the loss, if it had ended before.
     *
     * @param traceparent trace context; empty for none
     */
    public CompletableFuture<HoldResult> release(Granted what, String traceparent) {
        CompletableFuture<HoldResult> call = new CompletableFuture<>();
        input(now -> {
            // It ends here first: this process must not believe in the hold once the coordinator could hand it on.
            boolean didEnd = what.lease().end(now, Lease.RELEASED);
            // The session forgets a lost one.
            machine.release(now, what.key(), traceparent, didEnd ? call::complete : null);
            if (!didEnd) {
                call.complete(new HoldResult(HoldOutcome.LOST, what.lease().at(now).reason(), null));
            }
        });
        return call;
    }

    /** Changes a hold. Returns the answer. */
    public CompletableFuture<HoldResult> change(Granted of, Change asked) {
        CompletableFuture<HoldResult> call = new CompletableFuture<>();
        String traceparent = settings.traceparent();
        input(now -> machine.change(now, of.key(), asked, traceparent, call::complete));
        return call;
    }

    /** Returns the work that runs under locks of the session. */
    public Bodies bodies() {
        return bodies;
    }

    /**
     * Closes the session: refuses acquires, tells the work under its locks to stop, waits for that for at most this many nanoseconds, and then
     * gives everything back. It has {@link #ended} when the coordinator has confirmed that, or after a few seconds more.
     */
    public void close(long timeout) {
        input(machine::refuse);
        bodies.close(timeout).thenRun(() -> input(machine::close));
    }

    /** Handles a message on a connection. */
    void received(long now, Connection on, SessionResponse message) {
        if (on.isLeaving) {
            if (message.hasClosed()) {
                on.cut();
            }
        } else if (on == current || on == next) {
            machine.message(now, on.number, message);
        } else if (overdue.contains(on)) {
            machine.overdueMessage(now, message);
        }
    }

    /** Handles the end of the stream on a connection. */
    void streamEnded(long now, Connection on) {
        Failure failure = on.end.failure();
        if (on == current) {
            Machine.StreamEnd end = machine.streamEndedBy(now, on.number, failure);
            if (end == Machine.StreamEnd.STOPPED) {
                LOG.log(System.Logger.Level.INFO, "the coordinator at {0} stopped; looking for one to resume the session on", on.url());
                dialling.hurry();
                pauses.startAnew();
            } else if (failure != null) {
                LOG.log(System.Logger.Level.WARNING, "the stream to {0} ended: {1}", on.url(), failure);
            } else {
                LOG.log(System.Logger.Level.INFO, "the coordinator at {0} ended the stream", on.url());
            }
            currentEnded(now);
            return;
        }
        ConnectFailure why = failure == null ? ConnectFailure.ended(on.url()) : ConnectFailure.of(on.url(), failure);
        if (on == next) {
            next = null;
            machine.attemptFailed(now, Fate.of(why));
            on.decide(why);
        } else if (overdue.remove(on)) {
            LOG.log(System.Logger.Level.DEBUG, "a stream to {0} that had not opened in time ended: {1}", on.url(), failure);
            machine.overdueEnded(now, Fate.of(why));
        }
    }

    /** Forgets the connection of the stream that had the session open. */
    private void currentEnded(long now) {
        info = null;
        drains = Moments.NEVER;
        route.failed(current.candidate, now);
        current = null;
        dialling.streamEnded(now);
    }

    /** Does what is due. */
    private void ring(long now) {
        armed = Moments.NEVER;
        if (isOver) {
            return;
        }
        machine.tick(now);
        Connection on = current;
        if (on != null && renews.isDue(now, () -> settings.credentials().version() != on.credentials)) {
            LOG.log(System.Logger.Level.DEBUG, "moving the session to a connection with newer credentials");
            machine.askToMove();
        }
    }

    /** Does what the machine asks for. Every input ends with this. */
    private void carryOut(long now) {
        do {
            for (List<Output> outputs = machine.takeOutputs(); !outputs.isEmpty(); outputs = machine.takeOutputs()) {
                outputs.forEach(output -> carryOut(now, output));
            }
        } while (admit(now));
        if (isOver) {
            return;
        }
        dialling.beginOrEnd(now);
        long wanted = Math.min(machine.alarm(), Moments.after(now, LONGEST_SLEEP));
        if (wanted < armed) {
            armed = wanted;
            disarm.run();
            disarm = Threads.after(Moments.since(wanted, now), () -> input(this::ring));
        }
    }

    /** Hands the next acquire that waits for room to the machine. Returns whether there was one, and room. */
    private boolean admit(long now) {
        if (forRoom.isEmpty() || !machine.isRefusing() && current != null && current.isCongested()) {
            return false;
        }
        var first = forRoom.entrySet().iterator().next();
        long id = first.getKey();
        ForRoom asked = forRoom.remove(id);
        machine.acquire(now, id, asked.spec(), result -> {
            if (askedAt.containsKey(id)) {
                answered(id, result);
            }
            asked.call().complete(result);
        });
        return true;
    }

    /** Returns the number of acquires that wait for room. */
    int waitingForRoom() {
        return forRoom.size();
    }

    private void carryOut(long now, Output output) {
        if (output instanceof Output.Send send) {
            Connection on = connectionOf(send.stream());
            if (on != null) {
                on.push(send.request());
            }
        } else if (output instanceof Output.Acquired acquired) {
            acquired.call().accept(acquired.result());
        } else if (output instanceof Output.HoldDone done) {
            done.call().accept(done.result());
        } else if (output instanceof Output.Opened open) {
            openedOn(now, open.info());
            if (open.resumed() > 0) {
                note(to -> to.resumed(open.resumed()));
            }
        } else if (output instanceof Output.Draining draining) {
            LOG.log(System.Logger.Level.INFO, "the coordinator is going away");
            drains = draining.until();
        } else if (output instanceof Output.HangUp hangUp) {
            hungUp(now, hangUp.stream(), hangUp.failure());
        } else if (output instanceof Output.Leave leave) {
            Connection left = connectionOf(leave.stream());
            if (left != null && left == next) {
                next = null;
                left.leave();
                left.decide(ConnectFailure.ended(left.url()));
            }
        } else if (output instanceof Output.Ended) {
            over();
        }
    }

    /** Returns the connection of a stream; null if it is neither current nor next. */
    private Connection connectionOf(long stream) {
        if (current != null && current.number == stream) {
            return current;
        }
        return next != null && next.number == stream ? next : null;
    }

    /** Makes the next connection the current one. */
    private void openedOn(long now, SessionInfo described) {
        LOG.log(System.Logger.Level.DEBUG, "opened session {0} at {1}", described.sessionId(), described.coordinator());
        if (current != null) {
            current.leave();
        }
        current = next;
        next = null;
        current.decide(null);
        cutOverdue();
        dialling.opened();
        pauses.opened(now);
        info = described;
        drains = Moments.NEVER;
        mustOpen = false;
        opened.complete(null);
    }

    /** Gives a connection up. The failure is null for one on which the session was open. */
    private void hungUp(long now, long stream, ConnectFailure failure) {
        Connection on = connectionOf(stream);
        if (on == null) {
            return;
        }
        if (on == current) {
            currentEnded(now);
            on.cut();
            return;
        }
        next = null;
        // One that was never asked keeps nothing.
        if (failure != null && Fate.of(failure) == Fate.KEPT && on.isStarted()) {
            overdue.add(on);
            if (overdue.size() > MOST_OVERDUE) {
                overdue.poll().cut();
                // As if its coordinator had ended it.
                machine.overdueEnded(now, Fate.DROPPED);
            }
        } else {
            on.cut();
        }
        on.decide(failure == null ? ConnectFailure.ended(on.url()) : failure);
    }

    private void cutOverdue() {
        overdue.forEach(Connection::cut);
        overdue.clear();
    }

    /** Makes a connection the next one, unless none is wanted any more. */
    boolean adopt(long now, Connection on) {
        if (isOver || !machine.wantsConnection()) {
            return false;
        }
        // Known by its number before the machine asks for something to be sent on it.
        on.number = machine.nextNumber();
        next = on;
        machine.connected(now, on.url());
        return true;
    }

    /** Handles a round in which no coordinator opened the session. Returns whether the session goes on looking for one. */
    boolean mustEndAfter(long now, ConnectFailure mostTelling) {
        if (!mustOpen) {
            return false;
        }
        // Whoever opens a session wants to know at once.
        failed = mostTelling;
        machine.close(now);
        return true;
    }

    boolean isOver() {
        return isOver;
    }

    /** Ends the session. Connections that say goodbye go on for a while. */
    private void over() {
        if (isOver) {
            return;
        }
        isOver = true;
        disarm.run();
        for (Connection on : new Connection[] {current, next}) {
            if (on != null) {
                on.cut();
                on.decide(ConnectFailure.ended(on.url()));
            }
        }
        current = null;
        next = null;
        info = null;
        cutOverdue();
        dialling.end();
        ended.complete(null);
    }
}
