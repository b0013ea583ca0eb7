package dev.leasehold.internal.machine;

import dev.leasehold.internal.machine.Output.AcquireResult;
import java.util.function.Consumer;

/** Acquire that has not been answered. */
final class Waiting {
    /** Extra time after its wait in which the coordinator may answer an acquire. */
    private static final long ANSWER_GRACE = 2 * Moments.SECONDS;

    final Consumer<AcquireResult> call;
    final AcquireSpec spec;
    /** The end of its wait; {@link Moments#NEVER} without a bound. */
    long deadline = Moments.NEVER;
    /** Its request on the present stream; 0 if it is not there. */
    long sentAs;
    /** Set while it waits in a queue there. */
    boolean isQueued;
    /** Ids by which its place can be resumed; null if it has none, or waits for several names one after the other. */
    OwnerIds ticket;

    Waiting(Consumer<AcquireResult> call, AcquireSpec spec) {
        this.call = call;
        this.spec = spec;
    }

    /** Notes that the stream that it was sent on does not serve it any more. */
    void unsend() {
        sentAs = 0;
        isQueued = false;
    }

    /** Returns the time left of its wait. */
    long remaining(long now) {
        return deadline == Moments.NEVER ? spec.longestWait() : Moments.since(deadline, now);
    }

    /** Returns when it ends without an answer: later while a coordinator is about to give one. */
    long endsAt() {
        return sentAs == 0 ? deadline : Moments.after(deadline, ANSWER_GRACE);
    }
}
