package dev.leasehold.internal;

import dev.leasehold.internal.machine.Moments;
import java.util.concurrent.ThreadLocalRandom;

/** Pauses before attempts to repeat what failed or ended: growing, and partly random. Times are nanoseconds. */
final class Pauses {
    /** Pause above which no coordinator can ask for a longer one. */
    private static final long LONGEST_ASKED = 60 * Moments.SECONDS;

    private final long least;
    private final long most;
    /** The next pause, without its random part. */
    private long next;
    /** When the last connection was open; {@link Moments#NEVER} if it is not. */
    private long liveSince = Moments.NEVER;

    Pauses(long least, long most) {
        this.most = Math.max(least, most);
        // The random part adds up to as much again.
        this.least = Math.min(least, this.most / 2);
        this.next = this.least;
    }

    void opened(long now) {
        liveSince = now;
    }

    /** Returns whether the last connection was open for a while. */
    boolean hasLived(long now) {
        return liveSince != Moments.NEVER && Moments.since(now, liveSince) >= most;
    }

    /**
     * Returns the pause before the next attempt. A connection that was open for a while starts the row of pauses anew; one that ended as
     * soon as it was open does not, so that the two sides do not reconnect in a loop.
     */
    long pause(long now) {
        if (hasLived(now)) {
            startAnew();
        }
        liveSince = Moments.NEVER;
        long pause = next;
        next = Math.min(next * 2, most / 2);
        return pause + jitter(pause);
    }

    /** Makes the next pause the first of the row, though nothing lived. */
    void startAnew() {
        next = least;
    }

    /**
     * Returns the pause before the next attempt, after the coordinator has asked for one of at least this length; 0 for none. It adds a
     * random time of its own, so that not all clients come back at once.
     */
    long pauseAsAsked(long now, long asked) {
        return Math.min(asked, LONGEST_ASKED) + pause(now);
    }

    /** Returns a random time below the limit. */
    static long jitter(long limit) {
        return limit <= 0 ? 0 : ThreadLocalRandom.current().nextLong(limit);
    }
}
