package dev.leasehold.internal.machine;

import java.util.ArrayDeque;
import java.util.Iterator;

/** Heartbeats of one stream. The open is number 0. */
final class Heartbeats {
    /**
     * Number of heartbeats remembered. Answers about older ones extend nothing; at one every third of a TTL this is far more than a lease
     * can last.
     */
    static final int REMEMBERED = 64;

    /** Stands for a heartbeat that was never sent, or too long ago to matter. */
    static final long UNKNOWN = Long.MIN_VALUE;

    private long first;
    private final ArrayDeque<Long> sentAt = new ArrayDeque<>();

    /** Begins with the open, sent now. */
    Heartbeats(long now) {
        sentAt.add(now);
    }

    /** Returns when the oldest remembered heartbeat was sent: the open, while there was no other. */
    long began() {
        return sentAt.getFirst();
    }

    /** Returns when the newest heartbeat was sent. */
    long lastSent() {
        return sentAt.getLast();
    }

    /**
     * Notes that the next heartbeat is sent now, and numbers it. To be called before it can be on the wire: a time noted too early shortens
     * a lease by a little, one noted too late would let it outlive the lock.
     */
    long note(long now) {
        sentAt.add(now);
        if (sentAt.size() > REMEMBERED) {
            sentAt.removeFirst();
            first++;
        }
        return first + sentAt.size() - 1;
    }

    /** Returns when this heartbeat was sent, or {@link #UNKNOWN}. */
    long at(long sequence) {
        if (sequence < first || sequence - first >= sentAt.size()) {
            return UNKNOWN;
        }
        Iterator<Long> newestFirst = sentAt.descendingIterator();
        for (long number = first + sentAt.size() - 1; number > sequence; number--) {
            newestFirst.next();
        }
        return newestFirst.next();
    }
}
