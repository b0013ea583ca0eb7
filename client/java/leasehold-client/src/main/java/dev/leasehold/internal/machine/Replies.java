package dev.leasehold.internal.machine;

import dev.leasehold.internal.machine.Output.HoldResult;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Callers that wait for the answer to a release or a change. They are numbered in the order in which they asked, and so in that in which
 * their time is over.
 */
final class Replies {
    /** Limit of the wait for an answer; after it, the caller learns that its request is not confirmed. */
    static final long ANSWER_TIMEOUT = 10 * Moments.SECONDS;

    private record Waiting(long due, Consumer<HoldResult> call) {}

    private final Map<Long, Waiting> waiting = new LinkedHashMap<>();
    private long last;

    /** Notes a caller, and returns its number; 0 for no caller. */
    long add(long now, Consumer<HoldResult> call) {
        if (call == null) {
            return 0;
        }
        waiting.put(++last, new Waiting(Moments.after(now, ANSWER_TIMEOUT), call));
        return last;
    }

    /** Returns when the first of them has waited for long enough. */
    long firstDue() {
        return waiting.isEmpty() ? Moments.NEVER : waiting.values().iterator().next().due;
    }

    /** Removes a caller; null if it does not wait any more. */
    Consumer<HoldResult> take(long number) {
        Waiting taken = waiting.remove(number);
        return taken == null ? null : taken.call;
    }

    /** Removes the first caller that has waited for too long; null if none has. */
    Consumer<HoldResult> takeDue(long now) {
        return now < firstDue() || waiting.isEmpty() ? null : take(waiting.keySet().iterator().next());
    }
}
