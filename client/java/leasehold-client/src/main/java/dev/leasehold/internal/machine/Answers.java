package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.ErrorKind;
import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.ReleaseRequest;
import dev.leasehold.internal.Failures;
import dev.leasehold.internal.Named;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.internal.machine.Output.Granted;
import dev.leasehold.v1.AcquireOutcome;
import dev.leasehold.v1.BoundedLock;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.LostLock;
import dev.leasehold.v1.SessionGranted;
import dev.leasehold.v1.SessionHeartbeatAck;
import dev.leasehold.v1.SessionNotGranted;
import dev.leasehold.v1.SessionReleaseRequested;
import dev.leasehold.v1.SessionResponse;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Messages of the coordinator on the stream that has the session open. */
final class Answers {
    private final Machine machine;

    Answers(Machine machine) {
        this.machine = machine;
    }

    void message(long now, SessionResponse message) {
        long id = message.getRequestId();
        InFlight.Abandoned abandoned = id != 0 && machine.stream.inFlight.get(id) instanceof InFlight.Abandoned was ? was : null;
        switch (message.getResponseCase()) {
            case GRANTED -> granted(now, id, message.getGranted());
            case NOT_GRANTED -> notGranted(id, message.getNotGranted());
            case RELEASED -> machine.requests.released(now, answered(id), message.getReleased().getReleased());
            case VALUE_SET -> machine.requests.changed(now, answered(id), message.getValueSet().getValueSet());
            case DOWNGRADED -> machine.requests.changed(now, answered(id), message.getDowngraded().getDowngraded());
            case REDUCED -> machine.requests.changed(now, answered(id), message.getReduced().getReduced());
            case HEARTBEAT -> heartbeatAcked(now, message.getHeartbeat());
            case LOST -> {
                for (LostLock lock : message.getLost().getLocksList()) {
                    LostReason reason = Named.reason(lock.getReason());
                    machine.log(
                            System.Logger.Level.WARNING,
                            "lost lock \"" + lock.getName() + "\", as the coordinator says: " + reason.description());
                    machine.holds.lost(lock.getOwnerId(), now, reason);
                }
            }
            case RELEASE_REQUESTED -> {
                SessionReleaseRequested asked = message.getReleaseRequested();
                long until = asked.hasWithin() ? Moments.after(now, Moments.nanos(asked.getWithin())) : Moments.NEVER;
                machine.holds.ask(asked.getOwnerId(), now, new ReleaseRequest(asked.getReason(), until));
            }
            case DRAINING -> machine.draining(now, message.getDraining());
            case CLOSED -> machine.hangUp(now, machine.stream.number);
            case QUEUED -> machine.waits.queued(id, message.getQueued());
            case ERROR -> failed(now, id, Failures.of(message.getError()));
            default -> {
                // It has been opened before. What a newer coordinator says besides is not for this client.
            }
        }
        boolean isAnswered = machine.stream == null || !(machine.stream.inFlight.get(id) instanceof InFlight.Abandoned);
        if (abandoned != null && isAnswered) {
            machine.waits.sendHeldBack(now, abandoned.actor());
        }
    }

    /**
     * Handles the losses that a coordinator reports which may not be the one that has the holds. A hold that is lost without need does no
     * harm.
     */
    void lostInDoubt(long now, List<LostLock> locks) {
        Map<ByteString, LostReason> lost = new HashMap<>();
        for (LostLock lock : locks) {
            LostReason reason = Named.reason(lock.getReason());
            // The client's own resume does that.
            if (reason != LostReason.RESUMED) {
                machine.log(
                        System.Logger.Level.WARNING,
                        "lost lock \"" + lock.getName() + "\", as a coordinator says: " + reason.description());
                lost.put(lock.getOwnerId(), reason);
            }
        }
        machine.holds.lostInDoubt(now, lost);
    }

    /** Returns the request that this answers; null if it is not in flight any more. */
    private InFlight answered(long id) {
        return machine.stream.inFlight.remove(id);
    }

    private void granted(long now, long id, SessionGranted answer) {
        // Whatever was granted and has nobody to hold it is given back.
        InFlight.Acquire request = answered(id) instanceof InFlight.Acquire was ? was : null;
        Waiting asked = request == null ? null : machine.waits.remove(request.acquire());
        if (asked == null) {
            giveBack(answer.getLocksList());
            return;
        }
        if (!asked.spec.isOf(answer.getLocksList())) {
            giveBack(answer.getLocksList());
            machine.waits.fail(asked, AcquireFailure.refused(brokenProtocol("the coordinator granted another lock")));
            return;
        }
        long sentAt = machine.stream.heartbeats.at(answer.getAckedHeartbeat());
        long deadline = Moments.after(sentAt, Moments.nanos(answer.getValidFor()));
        boolean isClosing = machine.stream.isClosing();
        if (sentAt != Heartbeats.UNKNOWN && now < deadline && !isClosing) {
            hold(asked, answer.getLocksList(), answer.getBoundedList(), sentAt, deadline);
            return;
        }
        machine.log(System.Logger.Level.WARNING, "gave back a grant of lock \"" + asked.spec.label() + "\" that came too late to be used");
        // Where it crossed our close, that gives it back.
        if (!isClosing) {
            giveBack(answer.getLocksList());
        }
        if (asked.spec.isTry()) {
            machine.waits.fail(asked, AcquireFailure.unconnected(null));
            return;
        }
        machine.waits.waitOn(request.acquire(), asked);
        machine.waits.send(now, request.acquire());
        machine.waits.wakeForEnds();
    }

    /**
     * Hands the granted locks to the caller. They are good until the deadline, or until their bounds, which count from when the heartbeat
     * was sent that the coordinator had heard.
     */
    void hold(Waiting asked, List<GrantedLock> locks, List<BoundedLock> bounded, long sentAt, long deadline) {
        List<Granted> grants = new ArrayList<>();
        for (int i = 0; i < locks.size(); i++) {
            GrantedLock lock = locks.get(i);
            long endsAt = Moments.NEVER;
            for (BoundedLock bound : bounded) {
                if (bound.hasEndsIn() && bound.getOwnerId().equals(lock.getOwnerId())) {
                    endsAt = Moments.after(sentAt, Moments.nanos(bound.getEndsIn()));
                }
            }
            // Coordinators that name no number grant all that was asked for.
            int permits = lock.getPermits() == 0 ? asked.spec.locks().get(i).permits() : lock.getPermits();
            String name = asked.spec.locks().get(i).name();
            Lease lease = new Lease(name, lock.getFencingToken(), permits, deadline, endsAt);
            long key = machine.holds.insert(lease, lock.getOwnerId(), asked.spec.lockDelay(), Math.min(deadline, endsAt));
            grants.add(new Granted(key, lease, lock.getHoldCount()));
        }
        machine.put(new Output.Acquired(asked.call, new AcquireResult(List.copyOf(grants), null)));
    }

    void giveBack(List<GrantedLock> locks) {
        for (GrantedLock lock : locks) {
            machine.requests.giveBack(new Owned(lock.getName(), new OwnerIds(lock.getOwnerId()), 0));
        }
    }

    private void notGranted(long id, SessionNotGranted answer) {
        InFlight.Acquire request = answered(id) instanceof InFlight.Acquire was ? was : null;
        Waiting asked = request == null ? null : machine.waits.remove(request.acquire());
        if (asked == null) {
            return;
        }
        AcquireOutcome outcome = answer.getOutcome();
        // This client did not cancel it: the coordinator puts its waiters out because it goes away.
        if (outcome == AcquireOutcome.ACQUIRE_OUTCOME_CANCELLED && machine.isDraining()) {
            machine.waits.waitOn(request.acquire(), asked);
            return;
        }
        boolean isOver = outcome == AcquireOutcome.ACQUIRE_OUTCOME_BUSY || outcome == AcquireOutcome.ACQUIRE_OUTCOME_TIMED_OUT;
        if (!isOver || asked.spec.waitsForever()) {
            String message = "the coordinator ended the acquire unasked: " + outcome;
            machine.waits.fail(asked, AcquireFailure.refused(brokenProtocol(message)));
            return;
        }
        ErrorKind kind = asked.spec.isTry() ? ErrorKind.BUSY : ErrorKind.TIMED_OUT;
        machine.waits.fail(
                asked,
                new AcquireFailure("", kind, asked.spec.longestWait(), answer.hasHolder() ? answer.getHolder() : null, 0, null, null));
    }

    private void heartbeatAcked(long now, SessionHeartbeatAck ack) {
        LeaseStream stream = machine.stream;
        long sentAt = stream.heartbeats.at(ack.getAckedHeartbeat());
        if (sentAt == Heartbeats.UNKNOWN) {
            machine.log(System.Logger.Level.DEBUG, "ignored an answer to a heartbeat that was never sent, or long ago");
            return;
        }
        if (stream.isOpen()) {
            stream.terms.answered(now);
            if (ack.hasNextWithin() && machine.isIdle()) {
                stream.terms.rest(sentAt, Moments.nanos(ack.getNextWithin()));
            }
        }
        machine.holds.extend(Moments.after(sentAt, Moments.nanos(ack.getValidFor())));
        // No attempt to move has come to anything yet, so that there is no need any more.
        if (stream.isSilent) {
            stream.isSilent = false;
            machine.sendUnsent(now);
        }
    }

    private void failed(long now, long id, Failure failure) {
        InFlight request = answered(id);
        if (request instanceof InFlight.Acquire acquire) {
            Waiting asked = machine.waits.remove(acquire.acquire());
            if (asked == null) {
                return;
            }
            // What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
            boolean waitsOn = failure.isRetryable() && failure.code() != Status.Code.ABORTED && !asked.spec.isTry();
            if (machine.isDraining() && waitsOn) {
                machine.waits.waitOn(acquire.acquire(), asked);
            } else {
                machine.waits.fail(asked, AcquireFailure.refused(failure));
            }
        } else if (request instanceof InFlight.Releasing releasing) {
            machine.requests.releaseFailed(now, releasing.release(), failure);
        } else if (request instanceof InFlight.Changing changing) {
            machine.requests.changeFailed(changing.change(), failure);
        } else if (request == null) {
            machine.log(System.Logger.Level.DEBUG, "the coordinator could not serve a request: " + failure);
        }
    }

    private static Failure brokenProtocol(String message) {
        return Failures.answer(Status.Code.INTERNAL, "", message);
    }
}
