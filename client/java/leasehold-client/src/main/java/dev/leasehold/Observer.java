package dev.leasehold;

import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Feed;
import dev.leasehold.v1.ElectionServiceGrpc;
import dev.leasehold.v1.ObserveRequest;
import dev.leasehold.v1.ObserveResponse;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/** Observer of an election, until it is closed; see {@link Election#observe}. */
public final class Observer implements AutoCloseable {
    private final Feed<ObserveRequest, ObserveResponse> feed;
    private final Consumer<LeaderChange> listener;

    private boolean hasLast;
    private Leader last;
    /** Largest token so far. */
    private long newest;
    /** Set if a change may have been missed since the last one. */
    private boolean isSkipped;

    Observer(Calls calls, String election, Consumer<LeaderChange> listener, Consumer<LeaseholdException> failed) {
        this.listener = listener;
        this.feed = new Feed<>(
                calls,
                ElectionServiceGrpc.getObserveMethod(),
                ObserveRequest.newBuilder().setElection(election).build(),
                this::told,
                // A change before the first is not missed.
                failure -> isSkipped = hasLast,
                failure -> failed.accept(new CallException(failure)));
    }

    private void told(ObserveResponse told) {
        isSkipped |= told.getSkipped();
        Leader leader = told.hasLeader() ? Leader.of(told.getLeader()) : null;
        long token = leader == null ? 0 : leader.token();
        // A coordinator that is behind the one before it will catch up. A holder that does not use Leasehold has no token.
        boolean isPast = token != 0 && token < newest;
        boolean isSame = hasLast && Objects.equals(leader, last);
        if (isPast || isSame) {
            return;
        }
        newest = Math.max(newest, token);
        hasLast = true;
        last = leader;
        boolean wasSkipped = isSkipped;
        isSkipped = false;
        listener.accept(new LeaderChange(Optional.ofNullable(leader), wasSkipped));
    }

    /** Ends the observer. A listener that is being called may still be running then. */
    @Override
    public void close() {
        feed.close();
    }
}
