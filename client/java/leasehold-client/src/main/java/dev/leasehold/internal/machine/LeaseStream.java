package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.SessionInfo;
import dev.leasehold.v1.SessionCancel;
import dev.leasehold.v1.SessionClose;
import dev.leasehold.v1.SessionHeartbeat;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import dev.leasehold.v1.SessionResume;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** State of one lease stream. It is dropped with the stream, so that nothing of an old stream can leak into the next. */
final class LeaseStream {
    /** Interval below which no coordinator can ask for heartbeats. */
    private static final long SHORTEST_HEARTBEAT = 10 * Moments.MILLIS;
    /** Interval above which no coordinator can put heartbeats off. */
    private static final long LONGEST_REST = 600 * Moments.SECONDS;

    /** Treatment of the coordinator's messages once another stream has been asked to take over the session's holds. */
    enum Hearing {
        /** Nothing is being taken over. */
        OPEN,
        /** Messages are kept until the other stream has answered. */
        WITHHELD,
        /** The other stream ended without an answer: the session does not know which holds this coordinator still has. */
        DEAF
    }

    /** Terms of a session, as the coordinator opened it. */
    static final class Terms {
        final long ttl;
        final long heartbeatInterval;
        long nextHeartbeat;
        /** Time from which answers are missed: that of the last answer to a heartbeat, or of the opening, or the end of a rest. */
        long silentFrom;
        /** Set if the session has nothing, and need not send a heartbeat at every interval. */
        private boolean rests;

        Terms(long ttl, long heartbeatInterval, long now) {
            this.ttl = ttl;
            this.heartbeatInterval = heartbeatInterval;
            this.nextHeartbeat = Moments.after(now, heartbeatInterval);
            this.silentFrom = now;
        }

        /** Notes an answer to a heartbeat. */
        void answered(long now) {
            silentFrom = rests ? nextHeartbeat : now;
        }

        /** Puts the next heartbeat off, because the session has nothing. It is due so long after that one was sent. */
        void rest(long sentAt, long pause) {
            long next = Moments.after(sentAt, Math.min(pause, LONGEST_REST));
            if (next > nextHeartbeat) {
                nextHeartbeat = next;
                silentFrom = next;
                rests = true;
            }
        }

        /** Ends a rest. */
        private void wake(long now, long lastSent) {
            if (rests) {
                rests = false;
                nextHeartbeat = Moments.after(lastSent, heartbeatInterval);
                silentFrom = now;
            }
        }
    }

    /**
     * Actor that has abandoned acquires. Until the coordinator has answered them, it takes the actor for waiting or holding, and would
     * refuse the actor's next acquires.
     */
    private static final class Abandoning {
        int unanswered;
        /** Its next acquires, by their numbers in the session. */
        final List<Long> heldBack = new ArrayList<>();
    }

    /**
     * Hold or place that another stream is asked to take over.
     *
     * @param hold number of the hold; 0 for a place
     * @param acquire number of the acquire in the session
     * @param requestId its request on the other stream
     * @param actor its actor
     */
    record Asked(long hold, long acquire, long requestId, long actor) {}

    /** Never used again in this session. */
    final long number;
    /** Where it leads to, for messages. */
    final String endpoint;

    Heartbeats heartbeats;
    /** Set when open was sent. */
    boolean isAsked;
    /** Resumes in open that have not been answered, by their next owner ids. */
    Map<ByteString, Asked> resuming = new LinkedHashMap<>();
    /** Parts of the answer that have come, if there are more. */
    SessionOpened.Builder opening;
    /** Null until the session is open on it. */
    Terms terms;
    /** Before open is sent, the latest time for that; afterwards, the time at which the stream is given up unless it has opened. */
    long openBy;
    /** Set when the coordinator is going away: nothing new is asked of it. */
    boolean isDraining;
    /** Set if no heartbeat has been answered for a while: nothing new is asked of it. */
    boolean isSilent;
    /**
     * Set if the session is to move although the stream can go on: the credentials that opened it have been replaced, or its coordinator,
     * which goes on serving, has asked for it.
     */
    boolean isToMove;
    /** When the session tries again to move, after a round in which no coordinator opened it; {@link Moments#NEVER} without such a round. */
    long moveAgainAt = Moments.NEVER;

    Hearing hearing = Hearing.OPEN;
    List<SessionResponse> withheld = new ArrayList<>();
    /** {@link Moments#NEVER} until close was sent; the stream is cut if it has not ended by then. */
    long closing = Moments.NEVER;
    /** In the order in which they were sent. */
    Map<Long, InFlight> inFlight = new LinkedHashMap<>();

    private final Map<Long, Abandoning> abandoning = new HashMap<>();
    private long lastRequest;

    LeaseStream(long number, String endpoint, long openBy) {
        this.number = number;
        this.endpoint = endpoint;
        this.heartbeats = new Heartbeats(openBy);
        this.openBy = openBy;
    }

    /** Notes that the open is sent now, and must be answered by then. */
    void begin(long now, long answerBy) {
        heartbeats = new Heartbeats(now);
        isAsked = true;
        openBy = answerBy;
    }

    /** Notes that the session is open on it, and returns the session's description. */
    SessionInfo open(long now, SessionOpened answer) {
        long ttl = Moments.nanos(answer.getTtl());
        long interval = Math.max(Moments.nanos(answer.getHeartbeatInterval()), SHORTEST_HEARTBEAT);
        terms = new Terms(ttl, interval, now);
        return new SessionInfo(answer.getSessionId(), answer.getCoordinator(), Duration.ofNanos(ttl), Duration.ofNanos(interval));
    }

    boolean isOpen() {
        return terms != null;
    }

    /** Returns whether close was sent. */
    boolean isClosing() {
        return closing != Moments.NEVER;
    }

    /** Returns whether the session looks for another stream, because it must or should leave this one. */
    boolean isToBeLeft() {
        return isOpen() && !isClosing() && (mustBeLeft() || isToMove);
    }

    /** Returns whether the stream can't go on for long as it is. */
    boolean mustBeLeft() {
        return isDraining || isSilent || !isHeard();
    }

    /** Returns whether the coordinator's messages count. */
    boolean isHeard() {
        return hearing == Hearing.OPEN;
    }

    /** Returns whether acquires may be sent on it, as long as there is no next stream. */
    boolean accepts() {
        return isOpen() && !isClosing() && !mustBeLeft();
    }

    /** Numbers a request and remembers what its answer is for; null if it has none. Numbers are never used again on a stream. */
    long numberRequest(InFlight expects) {
        lastRequest++;
        if (expects != null) {
            inFlight.put(lastRequest, expects);
        }
        return lastRequest;
    }

    /** Returns the request that is a heartbeat, and puts the next one off by this interval. */
    SessionRequest heartbeat(long now, long interval) {
        terms.wake(now, now);
        terms.nextHeartbeat = Moments.after(now, interval);
        return SessionRequest.newBuilder()
                .setRequestId(numberRequest(null))
                .setHeartbeat(SessionHeartbeat.newBuilder().setSequence(heartbeats.note(now)))
                .build();
    }

    /**
     * Ends a rest, because the session is about to ask for something. Returns the heartbeat to send before, if the last one is older than
     * the interval: deadlines count from the newest that the coordinator has heard. Otherwise null.
     */
    SessionRequest wake(long now) {
        if (!isOpen() || !terms.rests) {
            return null;
        }
        terms.wake(now, heartbeats.lastSent());
        return now < terms.nextHeartbeat ? null : heartbeat(now, terms.heartbeatInterval);
    }

    /** Returns the request that closes the session on this stream. */
    SessionRequest close() {
        return SessionRequest.newBuilder()
                .setRequestId(numberRequest(null))
                .setClose(SessionClose.getDefaultInstance())
                .build();
    }

    /** Returns the request that cancels an acquire for which the caller no longer waits. */
    SessionRequest cancel(long acquire, long actor) {
        inFlight.put(acquire, new InFlight.Abandoned(actor));
        if (actor != 0) {
            abandoning.computeIfAbsent(actor, none -> new Abandoning()).unanswered++;
        }
        return SessionRequest.newBuilder()
                .setRequestId(numberRequest(null))
                .setCancel(SessionCancel.newBuilder().setAcquireRequestId(acquire))
                .build();
    }

    /** Returns whether an acquire of this actor must be held back. If so, {@link #abandonedAnswered} returns it later. */
    boolean holdsBack(long actor, long acquire) {
        Abandoning abandoned = abandoning.get(actor);
        if (abandoned == null) {
            return false;
        }
        abandoned.heldBack.add(acquire);
        return true;
    }

    /** Notes that an abandoned acquire of this actor was answered. Returns the acquires held back that can be sent now. */
    List<Long> abandonedAnswered(long actor) {
        Abandoning abandoned = abandoning.get(actor);
        if (abandoned == null || --abandoned.unanswered > 0) {
            return List.of();
        }
        abandoning.remove(actor);
        return abandoned.heldBack;
    }

    /** Returns the request to take over what is known by these ids, under another one from now on. */
    SessionResume.Builder resume(String name, OwnerIds known, ByteString next, Asked what) {
        known.attempt(next);
        resuming.put(next, what);
        return SessionResume.newBuilder()
                .setName(name)
                .setOwnerId(known.confirmed())
                .addAllTriedOwnerIds(known.tried())
                .setNextOwnerId(next);
    }

    /** Returns when this stream needs attention next: for a heartbeat, for answers or a close that have been missing for too long. */
    long alarm() {
        if (isClosing()) {
            return closing;
        }
        if (!isOpen()) {
            return openBy;
        }
        long patience = isSilent ? terms.ttl : terms.ttl / 2;
        return Math.min(Math.min(terms.nextHeartbeat, moveAgainAt), Moments.after(terms.silentFrom, patience));
    }
}
