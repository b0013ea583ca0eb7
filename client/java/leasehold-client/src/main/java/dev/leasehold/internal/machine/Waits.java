package dev.leasehold.internal.machine;

import dev.leasehold.ErrorKind;
import dev.leasehold.internal.machine.Output.AcquireResult;
import dev.leasehold.v1.SessionQueued;
import dev.leasehold.v1.SessionRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** Acquires that wait: sent on the stream there is, put off while there is none, and ended by their callers, their time or an answer. */
final class Waits {
    private final Machine machine;
    /** By the order in which they were asked for. */
    private final TreeMap<Long, Waiting> waiting = new TreeMap<>();
    /** A lower bound: no wait ends before it. */
    private long endAt = Moments.NEVER;

    Waits(Machine machine) {
        this.machine = machine;
    }

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    long endAt() {
        return endAt;
    }

    Waiting get(long acquire) {
        return waiting.get(acquire);
    }

    Waiting remove(long acquire) {
        return waiting.remove(acquire);
    }

    /** Returns the numbers of all of them, in the order in which they were asked for. */
    List<Long> numbers() {
        return new ArrayList<>(waiting.keySet());
    }

    Iterable<Waiting> all() {
        return waiting.values();
    }

    void acquire(long now, long id, AcquireSpec spec, Consumer<AcquireResult> call) {
        Waiting asked = new Waiting(call, spec);
        if (!spec.waitsForever() && !spec.isTry()) {
            asked.deadline = Moments.after(now, spec.longestWait());
        }
        if (machine.isRefusing()) {
            fail(asked, AcquireFailure.of(ErrorKind.CLOSED));
            return;
        }
        endAt = Math.min(endAt, asked.deadline);
        waiting.put(id, asked);
        send(now, id);
    }

    /** Cancels an acquire whose caller waits no longer. Does nothing once it has been answered. */
    void cancel(long id) {
        Waiting cancelled = waiting.remove(id);
        if (cancelled != null) {
            abandon(cancelled);
        }
    }

    /** Sends an acquire, if the stream takes it and it is not there already. */
    void send(long now, long id) {
        Waiting asked = waiting.get(id);
        LeaseStream stream = machine.stream;
        if (asked == null || asked.sentAs != 0 || !machine.takesAcquires() || stream.holdsBack(asked.spec.actor(), id)) {
            return;
        }
        machine.send(stream, stream.wake(now));
        asked.sentAs = stream.numberRequest(new InFlight.Acquire(id));
        machine.send(
                stream,
                SessionRequest.newBuilder()
                        .setRequestId(asked.sentAs)
                        .setTraceparent(asked.spec.traceparent())
                        .setAcquire(asked.spec.message(asked.remaining(now)))
                        .build());
        if (asked.spec.isTry()) {
            asked.deadline = now;
            endAt = Math.min(endAt, asked.endsAt());
        }
    }

    /** Sends all that the stream takes. */
    void sendAll(long now) {
        numbers().forEach(id -> send(now, id));
    }

    /** Notes that an acquire has a place in the queue. */
    void queued(long id, SessionQueued answer) {
        if (!(machine.stream.inFlight.get(id) instanceof InFlight.Acquire request)) {
            return;
        }
        Waiting asked = waiting.get(request.acquire());
        if (asked != null) {
            asked.isQueued = true;
            boolean hasTicket = asked.spec.locks().size() == 1 && !answer.getTicket().isEmpty();
            asked.ticket = hasTicket ? new OwnerIds(answer.getTicket()) : null;
        }
    }

    /** Sends the acquires of this actor that were held back, after an abandoned one has been answered and its grant given back. */
    void sendHeldBack(long now, long actor) {
        if (machine.stream != null) {
            machine.stream.abandonedAnswered(actor).forEach(id -> send(now, id));
        }
    }

    /** Lets an acquire wait on, to be asked for again. */
    void waitOn(long acquire, Waiting asked) {
        waiting.put(acquire, asked);
        askAgain(acquire);
        wakeForEnds();
    }

    /** Asks for an acquire from the start, on the next stream that takes acquires. */
    void askAgain(long acquire) {
        Waiting asked = waiting.get(acquire);
        if (asked != null) {
            asked.unsend();
            asked.ticket = null;
        }
    }

    /** Sets the alarm for the earliest end of a wait. */
    void wakeForEnds() {
        endAt = Moments.NEVER;
        waiting.values().forEach(asked -> endAt = Math.min(endAt, asked.endsAt()));
    }

    /** Ends the waits whose time is over. */
    void tick(long now) {
        if (now < endAt) {
            return;
        }
        for (Waiting ended : take(asked -> asked.endsAt() <= now)) {
            abandon(ended);
            // Only a coordinator can say that a lock was busy all the while; here none did.
            fail(ended, AcquireFailure.unconnected(machine.unreachable()));
        }
        wakeForEnds();
    }

    /** Ends all waits because the session is to be closed, and tells the coordinator of those that it knows. */
    void refuseAll() {
        for (Waiting refused : take(asked -> true)) {
            abandon(refused);
            fail(refused, AcquireFailure.of(ErrorKind.CLOSED));
        }
    }

    void failAll(Predicate<Waiting> which, AcquireFailure failure) {
        take(which).forEach(failed -> fail(failed, failure));
    }

    /** Answers an acquire with a failure about its locks. */
    void fail(Waiting asked, AcquireFailure failure) {
        machine.put(new Output.Acquired(asked.call, new AcquireResult(List.of(), failure.of(asked.spec.label()))));
    }

    /** Tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses the message. */
    private void abandon(Waiting asked) {
        LeaseStream stream = machine.stream;
        if (stream != null && asked.sentAs != 0) {
            machine.send(stream, stream.cancel(asked.sentAs, asked.spec.actor()));
        } else if (stream == null && asked.ticket != null) {
            // It may have come to a grant meanwhile.
            machine.requests.putOff(Release.of(new Owned(asked.spec.label(), asked.ticket, 0)));
        }
    }

    /** Removes those acquires, and returns them in the order in which they were asked for. */
    private List<Waiting> take(Predicate<Waiting> which) {
        List<Waiting> taken = new ArrayList<>();
        waiting.values().removeIf(asked -> {
            boolean isTaken = which.test(asked);
            if (isTaken) {
                taken.add(asked);
            }
            return isTaken;
        });
        return taken;
    }
}
