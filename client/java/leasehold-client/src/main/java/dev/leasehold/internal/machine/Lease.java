package dev.leasehold.internal.machine;

import dev.leasehold.HoldState;
import dev.leasehold.LostReason;
import dev.leasehold.ReleaseRequest;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * State of one hold, which its holder and its session share: held, suspended, or ended. All of them agree about its state at any moment.
 */
public final class Lease {
    /** In the place of a reason: this process released it, which is no loss. */
    public static final LostReason RELEASED = null;

    private final String name;
    private final long token;
    private final int permits;

    private HoldState state = HoldState.HELD;
    /** Why it has ended, if it is lost. */
    private LostReason reason;
    /** The deadline, while it is held or suspended. */
    private long until;
    /** Set while it is suspended because the coordinator no longer knows who the client is. */
    private boolean isDisowned;
    /** The bound: the latest end, whatever is answered. */
    private long endsAt;
    private ReleaseRequest request;
    /** Completed, and forgotten, at the next change of the state or the request; null if nobody waits. */
    private CompletableFuture<Void> changed;
    /** Called once, when it ends. */
    private final Map<Integer, Consumer<HoldState>> watchers = new LinkedHashMap<>();

    private int lastWatcher;

    /**
     * State at a moment.
     *
     * @param state the state
     * @param reason why it is lost; null in other states
     * @param until moment at which it is lost, while it is held or suspended
     */
    public record View(HoldState state, LostReason reason, long until) {
        /** Returns whether it is held or suspended. */
        public boolean isAlive() {
            return !state.isFinal();
        }
    }

    /** Makes a hold that lasts until the deadline unless it is extended, and never longer than endsAt. */
    Lease(String name, long token, int permits, long deadline, long endsAt) {
        this.name = name;
        this.token = token;
        this.permits = permits;
        this.until = Math.min(deadline, endsAt);
        this.endsAt = endsAt;
    }

    /** Returns the lock's name. */
    public String name() {
        return name;
    }

    /** Returns the fencing token. */
    public long token() {
        return token;
    }

    /** Returns the number of permits of a semaphore; 0 in other modes. */
    public int permits() {
        return permits;
    }

    /**
     * Changes the state, as it is at this moment. The first caller after the deadline ends the hold for all callers, so that the answer
     * "lost" is never taken back.
     */
    private View with(long now, Runnable change) {
        CompletableFuture<Void> notified = null;
        Map<Integer, Consumer<HoldState>> ended = Map.of();
        View view;
        synchronized (this) {
            HoldState before = state;
            ReleaseRequest asked = request;
            settle(now);
            change.run();
            view = new View(state, reason, until);
            if (state != before || request != asked) {
                notified = changed;
                changed = null;
            }
            if (state.isFinal() && !before.isFinal()) {
                ended = new LinkedHashMap<>(watchers);
                watchers.clear();
            }
        }
        if (notified != null) {
            notified.complete(null);
        }
        for (Consumer<HoldState> watcher : ended.values()) {
            watcher.accept(view.state);
        }
        return view;
    }

    /** Ends the hold if its deadline has passed. The monitor is held. */
    private void settle(long now) {
        if (state.isFinal() || now < until) {
            return;
        }
        if (endsAt <= until) {
            reason = LostReason.MAX_HOLD;
        } else if (state == HoldState.HELD) {
            reason = LostReason.EXPIRED;
        } else {
            reason = isDisowned ? LostReason.UNAUTHENTICATED : LostReason.SESSION_ENDED;
        }
        state = HoldState.LOST;
    }

    /** Returns the state at this moment. */
    public View at(long now) {
        return with(now, () -> {});
    }

    /** Moves the deadline to a later moment. Does nothing for a hold that is not held. */
    synchronized void extend(long to) {
        if (state == HoldState.HELD) {
            until = Math.max(until, Math.min(to, endsAt));
        }
    }

    /**
     * Suspends the hold because its stream has ended: until the limit, or its deadline if that is earlier. The limit is {@link
     * Moments#NEVER} if the coordinator ended the stream because it no longer knows the client.
     */
    void suspend(long now, long limit) {
        with(now, () -> {
            if (!state.isFinal()) {
                isDisowned = limit == Moments.NEVER || state == HoldState.SUSPENDED && isDisowned;
                state = HoldState.SUSPENDED;
                until = Math.min(until, limit);
            }
        });
    }

    /**
     * Holds it until a moment, which may be before its deadline so far, because another stream has taken it over. Its bound is the earlier
     * of the one so far and endsAt. Does nothing for a hold that has ended.
     */
    void resume(long now, long to, long bound) {
        with(now, () -> {
            if (!state.isFinal()) {
                endsAt = Math.min(endsAt, bound);
                state = HoldState.HELD;
                until = Math.min(to, endsAt);
            }
        });
    }

    /**
     * Ends the hold; the first reason stays.
     *
     * @return whether it had not ended before, be it by its deadline
     */
    public boolean end(long now, LostReason why) {
        boolean[] didEnd = new boolean[1];
        with(now, () -> {
            if (!state.isFinal()) {
                state = why == RELEASED ? HoldState.RELEASED : HoldState.LOST;
                reason = why;
                didEnd[0] = true;
            }
        });
        return didEnd[0];
    }

    /** Notes that an operator asks for its release. */
    void ask(long now, ReleaseRequest asked) {
        with(now, () -> {
            if (!state.isFinal()) {
                request = asked;
            }
        });
    }

    /** Returns the last request of an operator to release it; null if there is none. */
    public synchronized ReleaseRequest releaseRequest() {
        return request;
    }

    /** Returns the bound: its latest end, whatever is answered; {@link Moments#NEVER} if it has none. */
    public synchronized long endsAt() {
        return endsAt;
    }

    /** Returns what is completed at the next change of the state or the request. It is completed by the thread that makes the change. */
    public synchronized CompletableFuture<Void> onChange() {
        if (changed == null) {
            changed = new CompletableFuture<>();
        }
        return changed;
    }

    /**
     * Calls the watcher when the hold ends, at once if it has, in the thread that ends it: it must be quick.
     *
     * @return ends the watch. A watcher that is being called may still be running then
     */
    public Runnable watch(Consumer<HoldState> watcher) {
        int key;
        synchronized (this) {
            key = ++lastWatcher;
            if (!state.isFinal()) {
                watchers.put(key, watcher);
                return () -> {
                    synchronized (this) {
                        watchers.remove(key);
                    }
                };
            }
        }
        watcher.accept(state);
        return () -> {};
    }
}
