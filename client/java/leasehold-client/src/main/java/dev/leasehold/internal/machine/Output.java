package dev.leasehold.internal.machine;

import dev.leasehold.Failure;
import dev.leasehold.LostReason;
import dev.leasehold.SessionInfo;
import dev.leasehold.v1.SessionRequest;
import java.util.List;
import java.util.function.Consumer;

/** One action that the machine asks for. */
public sealed interface Output {
    /** Send the request on the stream. */
    record Send(long stream, SessionRequest request) implements Output {}

    /** Answer an acquire. */
    record Acquired(Consumer<AcquireResult> call, AcquireResult result) implements Output {}

    /** Answer a request about a hold. */
    record HoldDone(Consumer<HoldResult> call, HoldResult result) implements Output {}

    /**
     * The session is open on this stream, and from now on only on it: leave any other stream once its queued requests have been sent. It
     * has resumed so many locks and places in queues.
     */
    record Opened(long stream, SessionInfo info, int resumed) implements Output {}

    /** The coordinator is going away at this moment. */
    record Draining(long until) implements Output {}

    /**
     * Give up the stream; the failure is null for one on which the session was open. Cut it, unless it did not open in time: then keep it
     * until another one has opened, because its end would release the locks that it may still resume. The machine has forgotten it already.
     */
    record HangUp(long stream, ConnectFailure failure) implements Output {}

    /**
     * Leave the stream that was to be the next one, once its queued requests have been sent and answered; the end of the session waits for
     * that for a while. The machine has forgotten it already.
     */
    record Leave(long stream) implements Output {}

    /** There is nothing left to do. */
    record Ended() implements Output {}

    /**
     * Lock that was granted.
     *
     * @param key the grant's number in the session
     * @param lease its state
     * @param holdCount number of times that the actor holds it, this grant included
     */
    record Granted(long key, Lease lease, int holdCount) {}

    /**
     * Answer to an acquire.
     *
     * @param granted one grant for each lock in the order of the names; empty after a failure
     * @param failure null if it was granted
     */
    record AcquireResult(List<Granted> granted, AcquireFailure failure) {}

    /** Outcome of a request about a hold. */
    enum HoldOutcome {
        /** It was carried out. */
        DONE,
        /** The hold was lost. */
        LOST,
        /** No answer came in time. */
        UNCONFIRMED,
        /** The coordinator refused. */
        REFUSED
    }

    /**
     * Answer to a request about a hold.
     *
     * @param outcome how it ended
     * @param reason of a loss; null if it was released
     * @param failure of a refusal
     */
    record HoldResult(HoldOutcome outcome, LostReason reason, Failure failure) {
        static final HoldResult DONE = new HoldResult(HoldOutcome.DONE, null, null);
        static final HoldResult UNCONFIRMED = new HoldResult(HoldOutcome.UNCONFIRMED, null, null);

        static HoldResult lost(LostReason reason) {
            return new HoldResult(HoldOutcome.LOST, reason, null);
        }

        static HoldResult refused(Failure failure) {
            return new HoldResult(HoldOutcome.REFUSED, null, failure);
        }
    }
}
