package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.HoldState;
import dev.leasehold.LostReason;
import dev.leasehold.ReleaseRequest;
import dev.leasehold.v1.ResumedHold;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/**
 * Locks that a session holds, from their grant until they are released. Those that an actor was granted again have several grants, which
 * share an owner id: the coordinator loses them together, while each is given back for itself.
 */
final class Holds {
    /** One grant of a hold, with its lease. */
    private static final class Guarded {
        final long key;
        final Lease lease;
        final long lockDelay;
        /**
         * Set once the deadline has passed, while as far as the session knows the coordinator still has the hold. It is given back at this
         * moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
         */
        long releaseAt = Moments.NEVER;

        Guarded(long key, Lease lease, long lockDelay) {
            this.key = key;
            this.lease = lease;
            this.lockDelay = lockDelay;
        }
    }

    /** A coordinator's hold for this session, under one owner id. */
    private static final class Hold {
        final Owned owned;
        /** Its grants, in the order of their keys; never none. */
        final List<Guarded> guards = new ArrayList<>();

        Hold(Owned owned) {
            this.owned = owned;
        }

        Guarded guard(long key) {
            for (Guarded guard : guards) {
                if (guard.key == key) {
                    return guard;
                }
            }
            return null;
        }
    }

    /** Knowledge of one grant: the number of its hold, or why the coordinator does not have it any more. */
    private record Keyed(long number, boolean isLost, LostReason reason) {}

    /** A hold that was looked for: its identity, or null with the reason why it is not there. */
    record Found(Owned owned, LostReason reason) {
        boolean isThere() {
            return owned != null;
        }
    }

    private final Map<Long, Keyed> byKey = new HashMap<>();
    /** The coordinator's holds, by the session's own numbers, which rise with their grants. */
    private final Map<Long, Hold> held = new LinkedHashMap<>();
    /** Their numbers by the owner ids under which they were last confirmed. */
    private final Map<ByteString, Long> byOwner = new HashMap<>();

    private long lastKey;
    /** A lower bound: nothing needs to be done before it. Made exact whenever it has passed. */
    private long checkAt = Moments.NEVER;

    boolean isEmpty() {
        return held.isEmpty();
    }

    long checkAt() {
        return checkAt;
    }

    /** Returns the numbers of all holds, in the order of their grants. */
    List<Long> numbers() {
        return new ArrayList<>(held.keySet());
    }

    /** Returns the ids of all holds. */
    List<OwnerIds> ids() {
        return held.values().stream().map(hold -> hold.owned.ids()).toList();
    }

    /** Adds a grant; returns its key. */
    long insert(Lease granted, ByteString id, long lockDelay, long deadline) {
        long key = ++lastKey;
        checkAt = Math.min(checkAt, deadline);
        Long number = byOwner.get(id);
        if (number == null) {
            // Keys are never used again, so that the first one can number the hold too.
            number = key;
            held.put(number, new Hold(new Owned(granted.name(), new OwnerIds(id), number)));
            byOwner.put(id, number);
        }
        held.get(number).guards.add(new Guarded(key, granted, lockDelay));
        byKey.put(key, new Keyed(number, false, null));
        return key;
    }

    /** Forgets a grant that is released. Returns its hold, or why there is nothing to release. */
    Found remove(long key) {
        Keyed known = byKey.remove(key);
        if (known == null) {
            return new Found(null, Lease.RELEASED);
        }
        return known.isLost ? new Found(null, known.reason) : new Found(unlink(known.number, key), Lease.RELEASED);
    }

    /** Returns the identity of a hold, unless its grant has lost it. */
    Found owned(long key, long now) {
        Keyed known = byKey.get(key);
        if (known == null) {
            return new Found(null, Lease.RELEASED);
        }
        if (known.isLost) {
            return new Found(null, known.reason);
        }
        Hold hold = held.get(known.number);
        Guarded guard = hold == null ? null : hold.guard(key);
        if (guard == null) {
            return new Found(null, LostReason.UNKNOWN);
        }
        Lease.View view = guard.lease.at(now);
        return view.isAlive() ? new Found(hold.owned, null) : new Found(null, view.reason());
    }

    /** Handles the coordinator's message that it does not have this hold any more: every grant of it has lost it. */
    void lost(ByteString id, long now, LostReason reason) {
        Long number = byOwner.get(id);
        if (number != null) {
            forget(number, now, reason);
        }
    }

    /** Handles the coordinator's message that an operator asks for the release of this lock: it concerns every grant of it. */
    void ask(ByteString id, long now, ReleaseRequest request) {
        Long number = byOwner.get(id);
        if (number != null) {
            held.get(number).guards.forEach(guard -> guard.lease.ask(now, request));
        }
    }

    /** Removes a hold that the coordinator does not have any more: every grant of it has lost it. */
    void forget(long number, long now, LostReason reason) {
        Hold hold = held.remove(number);
        if (hold == null) {
            return;
        }
        byOwner.remove(hold.owned.ids().confirmed());
        for (Guarded guard : hold.guards) {
            guard.lease.end(now, reason);
            Lease.View view = guard.lease.at(now);
            // One that had reported another end before keeps that.
            LostReason first = view.state() == HoldState.RELEASED ? reason : view.reason();
            byKey.put(guard.key, new Keyed(0, true, first));
        }
    }

    /** Removes the hold of this grant, which the coordinator does not know. Returns the reason of the loss. */
    LostReason gone(long key, long now, LostReason reason) {
        Keyed known = byKey.get(key);
        if (known != null && !known.isLost) {
            forget(known.number, now, reason);
            known = byKey.get(key);
        }
        return known != null && known.isLost ? known.reason : Lease.RELEASED;
    }

    /** Extends every hold after the answer to a heartbeat: all are good until then at least. */
    void extend(long to) {
        for (Hold hold : held.values()) {
            hold.guards.forEach(guard -> guard.lease.extend(to));
        }
    }

    /** Ends the holds that have passed their deadlines. Returns those to give back now, in the order of their grants. */
    List<Owned> expire(long now) {
        if (now < checkAt) {
            return List.of();
        }
        checkAt = Moments.NEVER;
        TreeSet<Long> keys = new TreeSet<>();
        for (Hold hold : held.values()) {
            for (Guarded guard : hold.guards) {
                long next = guard.releaseAt;
                if (next == Moments.NEVER) {
                    Lease.View view = guard.lease.at(now);
                    if (view.isAlive()) {
                        next = view.until();
                    } else if (view.state() == HoldState.RELEASED) {
                        // Its release is on the way to the session.
                        continue;
                    } else {
                        guard.releaseAt = Moments.after(now, guard.lockDelay);
                        next = guard.releaseAt;
                    }
                }
                if (now < next) {
                    checkAt = Math.min(checkAt, next);
                } else {
                    keys.add(guard.key);
                }
            }
        }
        List<Owned> over = new ArrayList<>();
        for (long key : keys) {
            long number = byKey.get(key).number;
            Guarded guard = held.get(number).guard(key);
            LostReason reason = guard == null ? LostReason.EXPIRED : guard.lease.at(now).reason();
            byKey.put(key, new Keyed(0, true, reason));
            Owned released = unlink(number, key);
            if (released != null) {
                over.add(released);
            }
        }
        return over;
    }

    /** Ends all holds with the session. */
    void endAll(long now, LostReason reason) {
        numbers().forEach(number -> forget(number, now, reason));
        checkAt = Moments.NEVER;
    }

    /** Ends all holds with the stream. */
    void endWithStream(long now) {
        numbers().forEach(number -> end(number, now, LostReason.SESSION_ENDED));
    }

    /** Ends the holds that a coordinator has lost which may have had them under any of their ids. */
    void lostInDoubt(long now, Map<ByteString, LostReason> lost) {
        for (long number : numbers()) {
            for (ByteString id : held.get(number).owned.ids().all()) {
                LostReason reason = lost.get(id);
                if (reason != null) {
                    end(number, now, reason);
                    break;
                }
            }
        }
    }

    /** Ends a hold. One that an attempt to resume may have moved to another stream is still to be given back there. */
    private void end(long number, long now, LostReason reason) {
        Hold hold = held.get(number);
        if (!hold.owned.ids().isInDoubt()) {
            forget(number, now, reason);
            return;
        }
        hold.guards.forEach(guard -> guard.lease.end(now, reason));
        checkAt = now;
    }

    /** Suspends what is held, because the stream has ended; see {@link Lease#suspend}. */
    void suspend(long now, long until) {
        for (Hold hold : held.values()) {
            hold.guards.forEach(guard -> guard.lease.suspend(now, until));
            // Deadlines may have come closer: they are looked at anew.
            checkAt = now;
        }
    }

    /** Handles the end of a stream that was asked to resume holds: those whose ids say so may have been on it. */
    void attemptDropped(long now, long grace, Predicate<OwnerIds> mayHaveMoved) {
        for (Hold hold : held.values()) {
            if (!mayHaveMoved.test(hold.owned.ids())) {
                continue;
            }
            for (Guarded guard : hold.guards) {
                if (grace == 0) {
                    guard.lease.end(now, LostReason.SESSION_ENDED);
                } else {
                    guard.lease.suspend(now, Moments.after(now, grace));
                }
            }
            checkAt = now;
        }
    }

    /** Visits the holds that another stream could take over: those that at least one grant has not lost. */
    void resumable(long now, BiConsumer<Owned, ResumedHold> visitor) {
        for (Hold hold : held.values()) {
            for (Guarded guard : hold.guards) {
                if (guard.lease.at(now).isAlive()) {
                    visitor.accept(hold.owned, ResumedHold.newBuilder()
                            .setFencingToken(guard.lease.token())
                            .setHoldCount(hold.guards.size())
                            .build());
                    break;
                }
            }
        }
    }

    /** Returns whether another stream that did not answer may have taken this hold over. */
    boolean isInDoubt(long number) {
        Hold hold = held.get(number);
        return hold != null && hold.owned.ids().isInDoubt();
    }

    /** Notes that another stream has resumed this hold. */
    void resumed(long number, long now, long deadline, long endsAt) {
        Hold hold = held.get(number);
        if (hold == null) {
            return;
        }
        byOwner.remove(hold.owned.ids().confirmed());
        hold.owned.ids().resumed();
        byOwner.put(hold.owned.ids().confirmed(), number);
        hold.guards.forEach(guard -> guard.lease.resume(now, deadline, endsAt));
        // Deadlines may have come closer: they are looked at anew.
        checkAt = Math.min(checkAt, now);
    }

    /** Returns the first deadline of all that is held or suspended; {@link Moments#NEVER} if nothing is. */
    long firstDeadline(long now) {
        long first = Moments.NEVER;
        for (Hold hold : held.values()) {
            for (Guarded guard : hold.guards) {
                Lease.View view = guard.lease.at(now);
                if (view.isAlive()) {
                    first = Math.min(first, view.until());
                }
            }
        }
        return first;
    }

    /**
     * Removes a grant from its hold, because the coordinator does not hold it for this grant any more. Returns the hold; null if it is not
     * there.
     */
    private Owned unlink(long number, long key) {
        Hold hold = held.get(number);
        if (hold == null) {
            return null;
        }
        hold.guards.removeIf(guard -> guard.key == key);
        if (!hold.guards.isEmpty()) {
            return new Owned(hold.owned.name(), hold.owned.ids().copy(), number);
        }
        held.remove(number);
        byOwner.remove(hold.owned.ids().confirmed());
        return hold.owned;
    }
}
