package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.ErrorKind;
import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.internal.machine.Output.HoldResult;
import dev.leasehold.v1.SessionDraining;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * State machine of a session over all the streams that it has in its life. Time is passed in, and {@link #takeOutputs} is what is to be
 * done. Acquires and releases may come with a time that is a little earlier than that of the input before.
 *
 * <p>There are at most two streams. {@code stream} has the session open on it. {@code next} is to have it next: it is there while there is
 * no stream, or while that one is to be left (draining, silent) or the session is to move (newer credentials, or its coordinator has asked
 * for it), and from its connection on. Of what is held or waited for:
 *
 * <pre>
 * stream                   next                 the hold is          its owner id is       releases and changes  acquires
 * open                     -                    held                 the confirmed one     are sent              are sent
 * open, to move            -                    held                 the confirmed one     are sent              are sent
 * to be left               -                    held                 the confirmed one     are sent              are put off
 * to move, or to be left   connected            held                 the confirmed one     are put off           are put off
 * the same, not heard      asked                held                 that or next          are put off           are put off
 * to be left, deaf         - or connected       held                 that or one tried     are put off           are put off
 * -, it broke              any                  suspended, or lost   as above              are put off, or fail  are put off
 *                                               without a grace
 * -, coordinator stopped   any                  held                 as above              are put off           are put off
 * </pre>
 *
 * <p>{@code next} is asked when what {@code stream} has been asked has been answered, or after a while. From then on what {@code stream}
 * says is withheld, since it may know less of what is held than it did. If {@code next} opens, it becomes {@code stream}: what it resumed
 * is under its next owner id, what it refused is lost, what the former had not answered is asked anew, and the former is closed. If
 * {@code next} declines, nothing was resumed, and what {@code stream} said meanwhile counts after all. If {@code next} ends without an
 * answer, what it was asked for may be under its next owner ids, which are tried from now on; what {@code stream} says counts no more, unless
 * it ends something; and if the coordinator may have heard of that end, it may have released everything, so holds are suspended or lost.
 */
public final class Machine {
    /** Limit of the wait for the answer to a close; after it, the stream is cut. */
    public static final long CLOSE_TIMEOUT = 2 * Moments.SECONDS;

    /**
     * Number of heartbeats per TTL that a session sends to a coordinator that is going away: the more recent the last one, the more of the
     * TTL is left to resume in when that coordinator has stopped.
     */
    private static final int DRAINING_HEARTBEATS = 5;
    /** Pause before the session tries again to leave a stream that can go on, after no coordinator has opened another one. */
    private static final long MOVE_AGAIN = 10 * Moments.SECONDS;
    /** Time for which the store keeps the places of waiters whose coordinator has stopped. */
    private static final long PLACES_KEPT = 10 * Moments.SECONDS;

    /** Meaning of the end of a stream. */
    public enum StreamEnd {
        /** It broke, or its coordinator left it; its holds may be resumed within the grace. */
        LEFT,
        /**
         * The coordinator no longer knows who the client is. It leaves the holds for as long as it promised, and a client that is known
         * again may resume them.
         */
        DISOWNED,
        /**
         * The coordinator stopped, and left what was held to expire, and the places in queues for as long as the store keeps them: nobody
         * else can have any of it before that, so holds stay held until their own deadlines.
         */
        STOPPED,
        /** An operator ended the session, and took everything from it. */
        BY_OPERATOR
    }

    /** Receiver of what is worth a line in the log. */
    public interface Log {
        /** Notes a message. */
        void log(System.Logger.Level level, String message);
    }

    final Holds holds = new Holds();
    final Waits waits = new Waits(this);
    final Requests requests = new Requests(this);
    final Answers answers = new Answers(this);
    private final Moving moving;
    private final Log log;
    private final long grace;

    LeaseStream stream;
    LeaseStream next;
    private long lastStream;
    /** The TTL in force on the last stream; 0 before the first. */
    private long ttl;
    /** While there is no stream, the time until which the session may resume the holds of the last one. */
    private long resumeUntil = Moments.NEVER;
    /** While there is no stream because its coordinator stopped, the time until which the store keeps holds and places. */
    private long stoppedUntil = Moments.NEVER;
    /** Set when this process wants the session to end. */
    private boolean isEnding;
    /** Set when the session takes no acquires any more, because it is to end. */
    private boolean isRefusing;
    /** Why there is no stream, if attempts to connect have failed since the last one. */
    private ConnectFailure unreachable;

    private List<Output> outputs = new ArrayList<>();

    /**
     * Makes the machine of a session that is not open.
     *
     * @param open the message that opens it
     * @param openTimeout limit of the time for a session to open once there is a connection, in nanoseconds
     * @param draw makes owner ids: 16 random bytes
     * @param log receiver of what is worth a line
     */
    public Machine(SessionOpen open, long openTimeout, Supplier<ByteString> draw, Log log) {
        this.grace = Moments.nanos(open.getDisconnectGrace());
        this.log = log;
        this.moving = new Moving(this, open, openTimeout, draw);
    }

    /** Returns what is to be done, in this order, and forgets it. */
    public List<Output> takeOutputs() {
        if (outputs.isEmpty()) {
            return List.of();
        }
        List<Output> taken = outputs;
        outputs = new ArrayList<>();
        return taken;
    }

    void put(Output output) {
        outputs.add(output);
    }

    void send(LeaseStream on, SessionRequest request) {
        if (request != null) {
            put(new Output.Send(on.number, request));
        }
    }

    void log(System.Logger.Level level, String message) {
        log.log(level, message);
    }

    long grace() {
        return grace;
    }

    long ttl() {
        return ttl;
    }

    boolean isEnding() {
        return isEnding;
    }

    /** Returns whether the session takes no acquires any more. */
    public boolean isRefusing() {
        return isRefusing;
    }

    ConnectFailure unreachable() {
        return unreachable;
    }

    /** Returns whether the session moves, or is to move, from a stream that it has. */
    public boolean isMoving() {
        return stream != null && stream.isToBeLeft();
    }

    /** Returns whether another connection is to be made. */
    public boolean wantsConnection() {
        return !isEnding && next == null && (stream == null || stream.isToBeLeft());
    }

    /** Returns whether there is a stream that the session is to open on. */
    public boolean hasNext() {
        return next != null;
    }

    /** Returns when to call {@link #tick} at the latest. */
    public long alarm() {
        long alarm = Math.min(Math.min(holds.checkAt(), waits.endAt()), Math.min(requests.alarm(), resumeUntil));
        if (stream != null) {
            alarm = Math.min(alarm, stream.alarm());
        }
        if (next != null) {
            alarm = Math.min(alarm, next.alarm());
        }
        return alarm;
    }

    /** Begins an acquire. The id is the caller's, and rises with every acquire of this session. */
    public void acquire(long now, long id, AcquireSpec spec, Consumer<AcquireResult> call) {
        expire(now);
        waits.acquire(now, id, spec, call);
    }

    /** Cancels an acquire whose caller waits no longer. Does nothing once it has been answered. */
    public void cancel(long now, long id) {
        expire(now);
        waits.cancel(id);
    }

    /** Handles the release of a grant: once for each grant, even a lost one. The call is null if nobody waits. */
    public void release(long now, long key, String traceparent, Consumer<HoldResult> call) {
        expire(now);
        requests.release(now, key, traceparent, call);
    }

    /** Handles the request of a holder to change its hold. */
    public void change(long now, long key, Change asked, String traceparent, Consumer<HoldResult> call) {
        expire(now);
        asked.key = key;
        asked.traceparent = traceparent;
        requests.change(now, asked, call);
    }

    /** Handles a message of the coordinator on this stream. */
    public void message(long now, long number, SessionResponse message) {
        expire(now);
        if (isNext(number)) {
            moving.message(now, message);
            return;
        }
        if (stream == null || stream.number != number) {
            return;
        }
        if (!stream.isHeard()) {
            if (message.hasHeartbeat() && stream.isOpen()) {
                // It lives, and keeps what has not been moved.
                stream.terms.answered(now);
            }
            if (stream.hearing == LeaseStream.Hearing.WITHHELD) {
                stream.withheld.add(message);
            }
            // An end counts at once, whatever becomes of the attempt: somebody else may have the lock.
            if (message.hasLost()) {
                answers.lostInDoubt(now, message.getLost().getLocksList());
            } else if (message.hasClosed()) {
                hangUp(now, number);
            } else if (message.hasDraining() && !message.getDraining().getKeepsServing()) {
                // An end of the stream after this is the coordinator's stop, which leaves what is held.
                stream.isDraining = true;
            }
            return;
        }
        answers.message(now, message);
        leaveIfDrained(now);
        moving.askNextIfDue(now);
    }

    /**
     * Opens the session on a new connection, at once or as soon as the present stream has answered its requests. Returns the number of the
     * new stream.
     */
    public long connected(long now, String endpoint) {
        expire(now);
        moving.connected(now, ++lastStream, endpoint);
        return lastStream;
    }

    /** Returns the number that the next connection's stream will have. */
    public long nextNumber() {
        return lastStream + 1;
    }

    /** Returns the time limit of an attempt, to connect and again to open: not all of the time that is left to the holds. */
    public long attemptLimit(long now) {
        return moving.attemptLimit(now);
    }

    /** Handles the end of the next stream, on which the session did not open. */
    public void attemptFailed(long now, Fate fate) {
        moving.attemptFailed(now, fate);
    }

    /** Handles a message on a stream that did not open in time. */
    public void overdueMessage(long now, SessionResponse message) {
        expire(now);
        moving.overdueMessage(now, message);
    }

    /**
     * Handles the end of a stream that did not open in time. It may have been carried out after all: then its coordinator may have taken
     * the end for the client's, and released what this session had tried to take over.
     */
    public void overdueEnded(long now, Fate fate) {
        expire(now);
        moving.overdueEnded(now, fate);
    }

    /**
     * Notes that no coordinator could be reached and opened a session. Callers that wanted to wait go on waiting, unless the next attempt
     * would fail as well.
     */
    public void connectFailed(long now, ConnectFailure failure) {
        expire(now);
        unreachable = failure;
        boolean isDoomed = !failure.isRetryable();
        waits.failAll(asked -> asked.sentAs == 0 && (isDoomed || asked.spec.isTry()), AcquireFailure.unconnected(failure));
    }

    /**
     * Lets the session move although its stream can go on. Does nothing in the pause after attempts that failed, because the session tries
     * again by itself.
     */
    public void askToMove() {
        if (stream != null && stream.moveAgainAt == Moments.NEVER) {
            stream.isToMove = true;
        }
    }

    /**
     * Handles a round in which no coordinator opened the session. The session stays on its stream if that can go on, and tries again after
     * a pause. Returns whether it stays.
     */
    public boolean staysAfterRound(long now) {
        if (stream == null || stream.mustBeLeft()) {
            return false;
        }
        stream.isToMove = false;
        stream.moveAgainAt = Moments.after(now, MOVE_AGAIN);
        sendUnsent(now);
        return true;
    }

    /** Returns whether a coordinator stopped so recently that the session can still resume its holds and places there. */
    public boolean isOrphaned(long now) {
        boolean hasAny = !holds.isEmpty() || !waits.isEmpty();
        return hasAny && stoppedUntil != Moments.NEVER && now < stoppedUntil;
    }

    /** Handles the end of the session's stream: plain (null) or with this failure. Returns what the end means. */
    public StreamEnd streamEndedBy(long now, long number, Failure failure) {
        StreamEnd end = StreamEnd.LEFT;
        // The coordinator says so, or ends the stream plainly after it said draining. A broken connection is neither: the coordinator may
        // still be there, hear of the break, and release everything.
        if (failure == null ? isDraining() : failure.isDraining()) {
            end = StreamEnd.STOPPED;
        } else if (failure != null && failure.isUnauthenticated()) {
            end = StreamEnd.DISOWNED;
        } else if (failure != null && failure.reason().equals("SESSION_ENDED")) {
            end = StreamEnd.BY_OPERATOR;
        }
        if (failure != null && isOfRequest(failure) && stream != null && stream.number == number) {
            // On the next stream it would do the same.
            waits.failAll(asked -> asked.sentAs != 0 && !asked.isQueued, AcquireFailure.refused(failure));
        }
        streamEnded(now, number, end);
        return end;
    }

    /** Returns whether a stream ended because of a request on it. */
    private static boolean isOfRequest(Failure failure) {
        boolean isEncoding = failure.code() == Status.Code.INTERNAL && !failure.isTransport() && failure.reason().isEmpty();
        return failure.code() == Status.Code.INVALID_ARGUMENT || failure.reason().equals("MESSAGE_TOO_LARGE") || isEncoding;
    }

    /**
     * Handles the end of a stream. If the session was open on it, its locks are lost or suspended before anything else happens, unless its
     * coordinator stopped.
     */
    private void streamEnded(long now, long number, StreamEnd end) {
        expire(now);
        if (isNext(number)) {
            moving.attemptFailed(now, Fate.DROPPED);
            return;
        }
        if (stream == null || stream.number != number) {
            return;
        }
        LeaseStream ended = stream;
        stream = null;
        long until = Moments.after(now, resumableFor(end));
        if (isEnding || until == now) {
            holds.endWithStream(now);
            requests.putOffUnanswered(ended);
            requests.giveUpUnsent();
        } else {
            resumeUntil = until;
            switch (end) {
                case LEFT -> holds.suspend(now, until);
                case DISOWNED -> holds.suspend(now, Moments.NEVER);
                default -> stoppedUntil = Math.max(until, Moments.after(now, PLACES_KEPT));
            }
            requests.putOffUnanswered(ended);
        }
        if (isEnding) {
            put(new Output.Ended());
            return;
        }
        // A try that was on its way may have been granted and lost with the stream; asking again could find our own former hold and call
        // it busy.
        waits.failAll(asked -> asked.spec.isTry() && asked.sentAs != 0, AcquireFailure.unconnected(null));
        waits.all().forEach(Waiting::unsend);
        waits.wakeForEnds();
        moving.askNextIfDue(now);
    }

    private long resumableFor(StreamEnd end) {
        return switch (end) {
            case LEFT -> grace;
            // Deadlines are earlier.
            case DISOWNED, STOPPED -> ttl;
            case BY_OPERATOR -> 0;
        };
    }

    /** Takes no acquires any more, and fails those that wait. What is held stays held until {@link #close}. */
    public void refuse(long now) {
        expire(now);
        isRefusing = true;
        waits.refuseAll();
    }

    /** Ends the session. Its holds are lost before the coordinator hears of it. */
    public void close(long now) {
        if (isEnding) {
            return;
        }
        expire(now);
        isEnding = true;
        isRefusing = true;
        holds.endAll(now, LostReason.SESSION_CLOSED);
        waits.failAll(asked -> true, AcquireFailure.of(ErrorKind.CLOSED));
        requests.giveUpUnsent();
        resumeUntil = Moments.NEVER;
        stoppedUntil = Moments.NEVER;
        if (next != null) {
            LeaseStream left = next;
            next = null;
            if (left.resuming.isEmpty()) {
                put(new Output.HangUp(left.number, null));
            } else {
                // What it takes over is not the present stream's any more, and has to be given back here.
                send(left, left.close());
                put(new Output.Leave(left.number));
            }
        }
        if (stream == null) {
            put(new Output.Ended());
        } else if (!stream.isClosing()) {
            sendClose(now);
        }
    }

    /** Does everything that is due. */
    public void tick(long now) {
        expire(now);
        waits.tick(now);
        requests.tick(now);
        if (resumeUntil <= now) {
            resumeUntil = Moments.NEVER;
            requests.giveUpUnsent();
        }
        moving.tick(now);
        if (stream != null) {
            tickStream(now, stream);
        }
    }

    private void tickStream(long now, LeaseStream on) {
        if (on.isClosing()) {
            if (on.closing <= now) {
                hangUp(now, on.number);
            }
            return;
        }
        if (!on.isOpen()) {
            return;
        }
        LeaseStream.Terms terms = on.terms;
        if (Moments.after(terms.silentFrom, terms.ttl) <= now) {
            log(System.Logger.Level.WARNING, "gave up the stream to " + on.endpoint + ": no heartbeat was answered for a TTL");
            hangUp(now, on.number);
            return;
        }
        if (!on.isSilent && Moments.after(terms.silentFrom, terms.ttl / 2) <= now) {
            log(System.Logger.Level.INFO, "moving the session from " + on.endpoint + ": no heartbeat was answered for half the TTL");
            on.isSilent = true;
        }
        if (on.moveAgainAt <= now) {
            on.moveAgainAt = Moments.NEVER;
            on.isToMove = true;
        }
        if (terms.nextHeartbeat <= now) {
            long interval = terms.heartbeatInterval;
            if (on.isDraining) {
                interval = Math.min(interval, terms.ttl / DRAINING_HEARTBEATS);
            }
            send(on, on.heartbeat(now, interval));
        }
    }

    /** Returns whether the session has nothing, waits for nothing, and is asked for nothing. */
    boolean isIdle() {
        return holds.isEmpty()
                && waits.isEmpty()
                && !requests.hasUnsent()
                && next == null
                && stream != null
                && !stream.isToBeLeft()
                && stream.inFlight.isEmpty();
    }

    /**
     * Ends the holds whose deadline has passed. Every input begins with this: an answer that comes after a deadline must find the lock lost.
     */
    private void expire(long now) {
        for (Owned over : holds.expire(now)) {
            log(System.Logger.Level.WARNING, "lost lock \"" + over.name() + "\" at its deadline; giving it back");
            requests.giveBackExpired(over);
        }
    }

    void draining(long now, SessionDraining said) {
        if (said.getKeepsServing()) {
            log(System.Logger.Level.DEBUG, "the coordinator at " + stream.endpoint + " asks the session to move");
            askToMove();
            return;
        }
        stream.isDraining = true;
        if (stream.isOpen()) {
            stream.terms.nextHeartbeat = now;
        }
        put(new Output.Draining(Moments.after(now, Moments.nanos(said.getDeadline()))));
    }

    /** Returns whether the coordinator has said that it is going away. */
    boolean isDraining() {
        return stream != null && stream.isDraining;
    }

    /** Returns whether there is no stream, and the session may resume the holds of the last one. */
    boolean canResume() {
        return resumeUntil != Moments.NEVER;
    }

    void hangUp(long now, long number) {
        streamEnded(now, number, StreamEnd.LEFT);
        put(new Output.HangUp(number, null));
    }

    private void sendClose(long now) {
        stream.closing = Moments.after(now, CLOSE_TIMEOUT);
        send(stream, stream.close());
    }

    /** Returns whether releases and changes can be sent: not while they could cross a change of owner. */
    boolean takesChanges() {
        return stream != null && stream.isHeard() && next == null;
    }

    /** Returns whether acquires can be sent: not once there is another stream to ask. */
    boolean takesAcquires() {
        return stream != null && stream.accepts() && next == null;
    }

    /** Sends all that could not be asked so far, as far as the stream takes it. */
    void sendUnsent(long now) {
        if (takesChanges()) {
            requests.sendUnsent(now);
        }
        waits.sendAll(now);
    }

    /** Notes that the session is open on a stream, with this TTL. */
    void openedWith(long granted) {
        ttl = granted;
        resumeUntil = Moments.NEVER;
        stoppedUntil = Moments.NEVER;
        unreachable = null;
    }

    /** Returns whether an answer is about to come. */
    boolean isUnsettled() {
        if (stream == null) {
            return false;
        }
        for (InFlight request : stream.inFlight.values()) {
            if (request instanceof InFlight.Acquire acquire) {
                Waiting asked = waits.get(acquire.acquire());
                if (asked != null && !asked.isQueued) {
                    return true;
                }
            } else if (request instanceof InFlight.Releasing || request instanceof InFlight.Changing) {
                return true;
            }
        }
        return false;
    }

    /**
     * Closes the session at a coordinator that goes away, unless there is something that could move: a hold, a place in a queue, or a
     * request without its answer.
     */
    void leaveIfDrained(long now) {
        if (stream == null || !stream.isDraining || stream.isClosing() || !stream.isHeard() || next != null) {
            return;
        }
        if (requests.hasUnsentReleases() || !holds.isEmpty() || isUnsettled()) {
            return;
        }
        if (stream.inFlight.values().stream().noneMatch(InFlight.Acquire.class::isInstance)) {
            sendClose(now);
        }
    }

    private boolean isNext(long number) {
        return next != null && next.number == number;
    }
}
