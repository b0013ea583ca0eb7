package dev.leasehold;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Sequential flow inside a client, such as a thread, that does one thing after the other: the unit of reentrancy and of deadlocks. A
 * request without an actor has no relation to any other request, not even of the same session. With one:
 *
 * <ul>
 *   <li>the actor can hold a lock more than once, with {@link LockRequest#reentrant()}, where two threads that share a client still exclude
 *       each other;
 *   <li>the coordinator refuses a request for a lock that the actor holds already ({@link ErrorKind#SELF_DEADLOCK}) instead of waiting for
 *       itself;
 *   <li>if actors wait for one another in a circle, the coordinator ends one of the waits ({@link ErrorKind#DEADLOCK}).
 * </ul>
 *
 * <p>All that holds only as long as the flow that has it waits for one thing at a time: don't share one among threads. It counts within one
 * session. With another session, it is another actor.
 */
public final class Actor {
    /** It counts over all sessions of this process, so that an actor used in another session is a new one there. */
    private static final AtomicLong LAST = new AtomicLong();

    private final long number = LAST.incrementAndGet();

    /** Makes an actor, different from all others. */
    public Actor() {}

    /** Returns the actor's number, which listings and descriptions of deadlocks show. */
    public long number() {
        return number;
    }
}
