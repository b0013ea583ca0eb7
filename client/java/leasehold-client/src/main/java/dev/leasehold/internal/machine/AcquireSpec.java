package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import dev.leasehold.LockSpec;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.Named;
import dev.leasehold.v1.GrantedLock;
import dev.leasehold.v1.SessionAcquire;
import java.util.List;
import java.util.stream.Collectors;

/**
 * One acquire, without its caller, as long as it takes and over reconnects. Durations are nanoseconds.
 *
 * @param locks the locks, in order
 * @param isSeveral whether it is an acquire of several names, though there be only one
 * @param longestWait longest wait: 0 for none, {@link Moments#NEVER} without a bound
 * @param value value attached to each hold
 * @param lockDelay time for which a lock that ended uncleanly stays closed
 * @param maxHold longest time for which each lock may be held; 0 without a bound
 * @param actor number of the actor; 0 for none
 * @param isReentrant whether the actor may hold it once more
 * @param traceparent trace context; empty for none
 */
public record AcquireSpec(
        List<LockSpec> locks,
        boolean isSeveral,
        long longestWait,
        ByteString value,
        long lockDelay,
        long maxHold,
        long actor,
        boolean isReentrant,
        String traceparent) {
    /** Most names in a message to people. */
    private static final int MOST_SHOWN = 64;

    /** Returns a copy with these locks. */
    public AcquireSpec withLocks(List<LockSpec> changed) {
        return new AcquireSpec(changed, isSeveral, longestWait, value, lockDelay, maxHold, actor, isReentrant, traceparent);
    }

    /** Returns a copy with this longest wait. */
    public AcquireSpec withLongestWait(long nanos) {
        return new AcquireSpec(locks, isSeveral, nanos, value, lockDelay, maxHold, actor, isReentrant, traceparent);
    }

    /** Returns a copy with this value. */
    public AcquireSpec withValue(ByteString changed) {
        return new AcquireSpec(locks, isSeveral, longestWait, changed, lockDelay, maxHold, actor, isReentrant, traceparent);
    }

    /** Returns a copy with this lock-delay. */
    public AcquireSpec withLockDelay(long nanos) {
        return new AcquireSpec(locks, isSeveral, longestWait, value, nanos, maxHold, actor, isReentrant, traceparent);
    }

    /** Returns a copy with this longest time of a hold. */
    public AcquireSpec withMaxHold(long nanos) {
        return new AcquireSpec(locks, isSeveral, longestWait, value, lockDelay, nanos, actor, isReentrant, traceparent);
    }

    /** Returns a copy in the name of this actor. */
    public AcquireSpec withActor(long number) {
        return new AcquireSpec(locks, isSeveral, longestWait, value, lockDelay, maxHold, number, isReentrant, traceparent);
    }

    /** Returns a reentrant copy. */
    public AcquireSpec withReentrant() {
        return new AcquireSpec(locks, isSeveral, longestWait, value, lockDelay, maxHold, actor, true, traceparent);
    }

    /** Returns a copy with this trace context. */
    public AcquireSpec withTraceparent(String text) {
        return new AcquireSpec(locks, isSeveral, longestWait, value, lockDelay, maxHold, actor, isReentrant, text);
    }

    boolean isTry() {
        return longestWait == 0;
    }

    boolean waitsForever() {
        return longestWait == Moments.NEVER;
    }

    /** Returns the names, for messages to people. */
    public String label() {
        int shown = Math.min(locks.size(), MOST_SHOWN);
        String names = locks.stream().limit(shown).map(lock -> Checks.shown(lock.name())).collect(Collectors.joining(", "));
        return shown == locks.size() ? names : names + " and " + (locks.size() - shown) + " more";
    }

    /** Returns whether these locks are the ones asked for, each once and in the same order. */
    boolean isOf(List<GrantedLock> granted) {
        List<String> asked = locks.stream().map(LockSpec::name).toList();
        return !asked.isEmpty() && asked.equals(granted.stream().map(GrantedLock::getName).toList());
    }

    /** Returns the request, with the rest of the wait. */
    SessionAcquire message(long remaining) {
        SessionAcquire.Builder asked = SessionAcquire.newBuilder().setValue(value).setActor(actor).setReentrant(isReentrant);
        if (!waitsForever()) {
            asked.setWait(Moments.wire(remaining));
        }
        if (lockDelay > 0) {
            asked.setLockDelay(Moments.wire(lockDelay));
        }
        if (maxHold > 0) {
            asked.setMaxHold(Moments.wire(maxHold));
        }
        if (locks.isEmpty()) {
            return asked.build();
        }
        LockSpec first = locks.get(0);
        if (!locks.stream().allMatch(first::isInSameMode)) {
            for (LockSpec lock : locks) {
                asked.addLocks(dev.leasehold.v1.LockSpec.newBuilder()
                        .setName(lock.name())
                        .setMode(Named.mode(lock.mode()))
                        .setPermits(lock.permits())
                        .setLimit(lock.limit())
                        .setLimitRevision(lock.limitRevision())
                        .setPermitsAtLeast(lock.permitsAtLeast()));
            }
            return asked.build();
        }
        // Coordinators of every version know one mode for all.
        asked.setMode(Named.mode(first.mode()))
                .setPermits(first.permits())
                .setLimit(first.limit())
                .setLimitRevision(first.limitRevision())
                .setPermitsAtLeast(first.permitsAtLeast());
        if (isSeveral) {
            locks.forEach(lock -> asked.addNames(lock.name()));
        } else {
            asked.setName(first.name());
        }
        return asked.build();
    }
}
