package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.SessionInfo;
import dev.leasehold.internal.Failures;
import dev.leasehold.internal.Named;
import dev.leasehold.v1.BoundedLock;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LostLock;
import dev.leasehold.v1.ResumedLock;
import dev.leasehold.v1.ResumedWait;
import dev.leasehold.v1.SessionOpen;
import dev.leasehold.v1.SessionOpened;
import dev.leasehold.v1.SessionRequest;
import dev.leasehold.v1.SessionResponse;
import dev.leasehold.v1.SessionResume;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * Opening of a session on its next stream, with what it resumes there. {@link Machine} describes the states that the session goes through.
 */
final class Moving {
    /** Time that a coordinator which goes away has to answer requests in flight. */
    private static final long SETTLING = Moments.SECONDS;
    /** Time below which attempts to resume are not given up, however little is left. */
    private static final long SHORTEST_ATTEMPT = 50 * Moments.MILLIS;
    /** Most bytes of resume in one message. */
    private static final int LONGEST_RESUME = 1 << 20;

    /** Outcome of a hold that was to be resumed. */
    record Outcome(boolean isLost, LostReason reason) {}

    private final Machine machine;
    private final SessionOpen open;
    private final long openTimeout;
    private final Supplier<ByteString> draw;

    Moving(Machine machine, SessionOpen open, long openTimeout, Supplier<ByteString> draw) {
        this.machine = machine;
        this.open = open;
        this.openTimeout = openTimeout;
        this.draw = draw;
    }

    /** Opens the session on a new connection, at once or as soon as the present stream has answered its requests. */
    void connected(long now, long number, String endpoint) {
        machine.next = new LeaseStream(number, endpoint, Moments.after(now, SETTLING));
        askNextIfDue(now);
    }

    /** Returns the time limit of an attempt, to connect and again to open: not all of the time that is left to the holds. */
    long attemptLimit(long now) {
        long deadline = machine.holds.firstDeadline(now);
        if (deadline == Moments.NEVER) {
            return openTimeout;
        }
        return Math.min(Math.max(Moments.since(deadline, now) / 3, SHORTEST_ATTEMPT), openTimeout);
    }

    void askNextIfDue(long now) {
        LeaseStream next = machine.next;
        LeaseStream stream = machine.stream;
        if (next == null || next.isAsked) {
            return;
        }
        boolean mayAnswer = stream != null && !stream.isSilent && stream.isHeard();
        if (!mayAnswer || next.openBy <= now || !machine.isUnsettled()) {
            askNext(now);
        }
    }

    private void askNext(long now) {
        LeaseStream next = machine.next;
        // Noted before the messages are handed on.
        next.begin(now, Moments.after(now, attemptLimit(now)));
        long id = next.numberRequest(new InFlight.Open());
        for (SessionOpen.Builder part : opens(now, next)) {
            machine.send(next, SessionRequest.newBuilder().setRequestId(id).setOpen(part).build());
        }
        if (machine.stream != null && machine.stream.isHeard()) {
            machine.stream.hearing = LeaseStream.Hearing.WITHHELD;
        }
    }

    void tick(long now) {
        askNextIfDue(now);
        LeaseStream next = machine.next;
        if (next != null && next.openBy <= now) {
            giveUpNext(now, ConnectFailure.timedOut(next.endpoint, Moments.since(now, next.heartbeats.began())));
        }
    }

    /** Gives up the attempt to open a session on the next stream. */
    private void giveUpNext(long now, ConnectFailure failure) {
        long number = machine.next.number;
        attemptFailed(now, Fate.of(failure));
        machine.put(new Output.HangUp(number, failure));
    }

    /** Handles a message on the stream that the session is being opened on. */
    void message(long now, SessionResponse message) {
        switch (message.getResponseCase()) {
            case OPENED -> openedInPart(now, message.getRequestId(), message.getOpened());
            case ERROR -> giveUpNext(
                    now, ConnectFailure.of(machine.next.endpoint, Failures.of(message.getError())));
            default -> {
                // Nothing else is for a session that is not open.
            }
        }
    }

    /** Handles the end of the next stream, on which the session did not open. */
    void attemptFailed(long now, Fate fate) {
        LeaseStream next = machine.next;
        if (next == null) {
            return;
        }
        machine.next = null;
        if (next.isAsked) {
            attemptEnded(now, fate, OwnerIds::isAttempted);
            settleAttempt(fate);
            listenAgain(now, fate);
        }
        machine.sendUnsent(now);
        machine.leaveIfDrained(now);
    }

    /** Ends or suspends what a stream that has ended may have taken over. */
    private void attemptEnded(long now, Fate fate, Predicate<OwnerIds> mayHaveMoved) {
        if (fate == Fate.DROPPED) {
            // As when the stream ends that it is on, which this one may have become.
            machine.holds.attemptDropped(now, machine.grace(), mayHaveMoved);
        } else if (fate == Fate.ENDED) {
            machine.holds.attemptDropped(now, 0, mayHaveMoved);
        }
    }

    /** Handles a message on a stream that did not open in time. */
    void overdueMessage(long now, SessionResponse message) {
        switch (message.getResponseCase()) {
            case LOST -> machine.answers.lostInDoubt(now, message.getLost().getLocksList());
            // What it has resumed is named to the next coordinator as tried.
            case OPENED -> machine.answers.lostInDoubt(now, message.getOpened().getRefusedList());
            case ERROR -> overdueEnded(now, Fate.of(Failures.of(message.getError())));
            case CLOSED -> overdueEnded(now, Fate.DROPPED);
            default -> {
                // Nothing else ends anything.
            }
        }
    }

    /** Handles the end of a stream that did not open in time. */
    void overdueEnded(long now, Fate fate) {
        attemptEnded(now, fate, OwnerIds::isInDoubt);
    }

    /** Ends an attempt to resume that had no result that this session knows of. */
    private void settleAttempt(Fate fate) {
        List<OwnerIds> all = new ArrayList<>(machine.holds.ids());
        for (Waiting asked : machine.waits.all()) {
            if (asked.ticket != null) {
                all.add(asked.ticket);
            }
        }
        for (Release asked : machine.requests.unsentReleases()) {
            asked.isCounted = false;
            all.add(asked.owned.ids());
        }
        for (OwnerIds ids : all) {
            if (fate == Fate.DECLINED) {
                ids.declined();
            } else {
                ids.unanswered();
            }
        }
    }

    /** Handles the messages withheld from the stream before, if nothing was taken over from it. */
    private void listenAgain(long now, Fate fate) {
        LeaseStream stream = machine.stream;
        if (stream == null) {
            return;
        }
        List<SessionResponse> messages = stream.withheld;
        LeaseStream.Hearing was = stream.hearing;
        stream.withheld = new ArrayList<>();
        stream.hearing = LeaseStream.Hearing.DEAF;
        if (was == LeaseStream.Hearing.WITHHELD && fate == Fate.DECLINED) {
            stream.hearing = LeaseStream.Hearing.OPEN;
            messages.forEach(message -> machine.message(now, stream.number, message));
        }
    }

    /** Returns the messages that open the session on the next stream. */
    private List<SessionOpen.Builder> opens(long now, LeaseStream next) {
        SessionOpen.Builder first = open.toBuilder();
        List<SessionResume> resumes = new ArrayList<>();
        machine.holds.resumable(now, (owned, as) -> {
            LeaseStream.Asked asked = new LeaseStream.Asked(owned.number(), 0, 0, 0);
            resumes.add(next.resume(owned.name(), owned.ids(), draw.get(), asked).setHold(as).build());
            // Another coordinator's default may be shorter, and must not end what holds still count on.
            if (machine.ttl() > 0) {
                first.setTtl(Moments.wire(machine.ttl()));
            }
        });
        for (long acquire : machine.waits.numbers()) {
            Waiting waits = machine.waits.get(acquire);
            if (waits.ticket == null) {
                continue;
            }
            long id = next.numberRequest(new InFlight.Acquire(acquire));
            LeaseStream.Asked place = new LeaseStream.Asked(0, acquire, id, waits.spec.actor());
            ResumedWait.Builder wait = ResumedWait.newBuilder().setAcquireRequestId(id);
            if (!waits.spec.waitsForever()) {
                wait.setWait(Moments.wire(waits.remaining(now)));
            }
            resumes.add(next.resume(waits.spec.label(), waits.ticket, draw.get(), place).setWait(wait).build());
        }
        countReleases(next);
        List<SessionOpen.Builder> opens = new ArrayList<>(List.of(first));
        int size = 0;
        for (SessionResume resume : resumes) {
            // With the tag and the length around it.
            int length = resume.getSerializedSize() + 8;
            size += length;
            if (size > LONGEST_RESUME) {
                size = length;
                opens.get(opens.size() - 1).setMore(true);
                opens.add(SessionOpen.newBuilder());
            }
            opens.get(opens.size() - 1).addResume(resume);
        }
        return opens;
    }

    /** Marks the releases that the counts in the request take into account already. */
    private void countReleases(LeaseStream next) {
        Set<Long> resumed = new HashSet<>();
        next.resuming.values().forEach(asked -> resumed.add(asked.hold()));
        resumed.remove(0L);
        if (machine.stream != null) {
            for (InFlight request : machine.stream.inFlight.values()) {
                if (request instanceof InFlight.Releasing releasing) {
                    releasing.release().isCounted = resumed.contains(releasing.release().owned.number());
                }
            }
        }
        for (Release asked : machine.requests.unsentReleases()) {
            asked.isCounted = resumed.contains(asked.owned.number());
        }
    }

    /** Adds a part of the answer to open. */
    private void openedInPart(long now, long id, SessionOpened part) {
        LeaseStream next = machine.next;
        if (next.opening == null) {
            if (!(next.inFlight.get(id) instanceof InFlight.Open)) {
                return;
            }
            next.inFlight.remove(id);
            next.opening = part.toBuilder();
        } else {
            next.opening.addAllResumed(part.getResumedList()).addAllRefused(part.getRefusedList());
        }
        if (!part.getMore()) {
            openedOn(now, next.opening.build());
        }
    }

    /** Makes the next stream the session's own, with what it resumed. It replaces the former one. */
    private void openedOn(long now, SessionOpened answer) {
        LeaseStream next = machine.next;
        LeaseStream former = machine.stream;
        machine.next = null;
        // Each stream numbers its requests anew: no number of the former may be taken for one of this one.
        machine.waits.all().forEach(Waiting::unsend);
        next.opening = null;
        SessionInfo info = next.open(now, answer);
        machine.openedWith(next.terms.ttl);
        long sentAt = next.heartbeats.at(0);
        long deadline = Moments.after(sentAt, Moments.nanos(answer.getValidFor()));
        machine.stream = next;
        List<Long> known = machine.holds.numbers();
        Map<Long, Outcome> outcomes = resumed(now, sentAt, deadline, answer);
        next.resuming = new LinkedHashMap<>();
        boolean isLeftBehind = false;
        for (long number : known) {
            if (outcomes.containsKey(number)) {
                continue;
            }
            isLeftBehind = true;
            // Lost, but it may be with another stream that did not answer: then it is still to be given back.
            if (!machine.holds.isInDoubt(number)) {
                machine.holds.forget(number, now, LostReason.SESSION_ENDED);
            }
        }
        if (former != null) {
            leave(former, isLeftBehind);
        }
        machine.put(new Output.Opened(next.number, info, answer.getResumedCount()));
        machine.requests.settleUnsent(outcomes, former != null);
        machine.sendUnsent(now);
        machine.waits.wakeForEnds();
    }

    /** Settles what the new stream was asked to resume, with the open that was sent then and is good until the deadline. */
    private Map<Long, Outcome> resumed(long now, long sentAt, long deadline, SessionOpened answer) {
        Map<ByteString, LostReason> refused = new HashMap<>();
        for (LostLock lock : answer.getRefusedList()) {
            refused.put(lock.getOwnerId(), Named.reason(lock.getReason()));
        }
        Map<ByteString, ResumedLock> resumed = new HashMap<>();
        for (ResumedLock lock : answer.getResumedList()) {
            resumed.put(lock.getOwnerId(), lock);
        }
        Map<Long, Outcome> outcomes = new HashMap<>();
        machine.stream.resuming.forEach((next, asked) -> {
            ResumedLock lock = resumed.get(next);
            LostReason refusal = refused.get(next);
            if (asked.hold() != 0) {
                if (lock != null) {
                    long endsAt = lock.hasEndsIn() ? Moments.after(sentAt, Moments.nanos(lock.getEndsIn())) : Moments.NEVER;
                    outcomes.put(asked.hold(), new Outcome(false, null));
                    machine.holds.resumed(asked.hold(), now, deadline, endsAt);
                } else {
                    // What a coordinator says nothing of has ended with the stream before.
                    LostReason reason = refusal == null ? LostReason.SESSION_ENDED : refusal;
                    outcomes.put(asked.hold(), new Outcome(true, reason));
                    machine.holds.forget(asked.hold(), now, reason);
                }
            } else if (lock != null) {
                resumedWait(now, asked, lock, sentAt, deadline);
            } else if (refusal == LostReason.FORCED) {
                endedWait(asked, Failures.answer(Status.Code.ABORTED, "FORCE_RELEASED", "an operator ended the wait"));
            } else if (refusal == LostReason.PERMISSION_REVOKED) {
                endedWait(asked, Failures.answer(
                        Status.Code.PERMISSION_DENIED,
                        "PERMISSION_DENIED",
                        "this client may not wait for the lock any more"));
            } else {
                machine.stream.inFlight.remove(asked.requestId());
                machine.waits.askAgain(asked.acquire());
            }
        });
        return outcomes;
    }

    /** Fails an acquire whose place was refused for good. */
    private void endedWait(LeaseStream.Asked asked, Failure failure) {
        machine.stream.inFlight.remove(asked.requestId());
        Waiting waits = machine.waits.remove(asked.acquire());
        if (waits != null) {
            machine.waits.fail(waits, AcquireFailure.refused(failure));
        }
    }

    private void resumedWait(long now, LeaseStream.Asked asked, ResumedLock lock, long sentAt, long deadline) {
        Waiting waits = machine.waits.get(asked.acquire());
        if (lock.hasHold()) {
            // It has come to a grant.
            machine.stream.inFlight.remove(asked.requestId());
            List<GrantedLock> grant = List.of(GrantedLock.newBuilder()
                    .setName(lock.getName())
                    .setOwnerId(lock.getOwnerId())
                    .setFencingToken(lock.getHold().getFencingToken())
                    .setHoldCount(Math.max(lock.getHold().getHoldCount(), 1))
                    .setPermits(lock.getPermits())
                    .build());
            if (waits != null && now < deadline) {
                machine.waits.remove(asked.acquire());
                BoundedLock.Builder bounded = BoundedLock.newBuilder().setOwnerId(lock.getOwnerId());
                if (lock.hasEndsIn()) {
                    bounded.setEndsIn(lock.getEndsIn());
                }
                machine.answers.hold(waits, grant, List.of(bounded.build()), sentAt, deadline);
            } else {
                machine.answers.giveBack(grant);
                machine.waits.askAgain(asked.acquire());
            }
            return;
        }
        if (waits == null) {
            // Nobody waits for it any more.
            machine.send(machine.stream, machine.stream.cancel(asked.requestId(), asked.actor()));
            return;
        }
        waits.sentAs = asked.requestId();
        waits.isQueued = true;
        if (waits.ticket != null) {
            waits.ticket.resumed();
        }
    }

    /** Closes the stream that the session has moved from: no grant owns the holds that are left on it. */
    private void leave(LeaseStream former, boolean isLeftBehind) {
        // What is lost, but is to stay closed for its lock-delay, must not be released cleanly.
        if (!former.isClosing() && !isLeftBehind) {
            machine.send(former, former.close());
        }
        for (long acquire : machine.requests.putOffUnanswered(former)) {
            // With a number again it was resumed.
            Waiting asked = machine.waits.get(acquire);
            if (asked == null || asked.sentAs != 0) {
                continue;
            }
            if (!asked.spec.isTry()) {
                machine.waits.askAgain(acquire);
                continue;
            }
            // It may have been granted, and asking again could find that.
            machine.waits.remove(acquire);
            machine.waits.fail(asked, AcquireFailure.unconnected(null));
        }
    }
}
