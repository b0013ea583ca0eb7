package dev.leasehold;

import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Feed;
import dev.leasehold.v1.AdminServiceGrpc;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import java.util.function.Consumer;

/** Watcher of locks, until it is closed; see {@link Admin#watch}. */
public final class Watcher implements AutoCloseable {
    private final Feed<WatchLocksRequest, WatchLocksResponse> feed;
    private final Consumer<WatchItem> listener;
    /** Set if the listener has been told something since the last gap: there is nothing to forget twice. */
    private boolean hasTold;

    private volatile boolean isReady;

    Watcher(Calls calls, String prefix, Consumer<WatchItem> listener, Consumer<LeaseholdException> failed) {
        this.listener = listener;
        this.feed = new Feed<>(
                calls,
                AdminServiceGrpc.getWatchLocksMethod(),
                WatchLocksRequest.newBuilder().setPrefix(prefix).build(),
                this::told,
                this::broken,
                failure -> failed.accept(new CallException(failure)));
    }

    private void broken(Failure failure) {
        if (hasTold) {
            gap("the stream broke: " + failure);
        }
    }

    private void gap(String message) {
        hasTold = false;
        isReady = false;
        listener.accept(new WatchItem.Gap(message));
    }

    private void told(WatchLocksResponse told) {
        switch (told.getResponseCase()) {
            case LOCK -> tell(new WatchItem.Lock(Views.lock(told.getLock())));
            case READY -> {
                isReady = true;
                tell(new WatchItem.Ready());
            }
            case EVENT -> tell(new WatchItem.Event(Views.event(told.getEvent())));
            case GAP -> {
                String message = told.getGap().getMessage();
                gap(message.isEmpty() ? "the coordinator could not keep up" : message);
            }
            case RESPONSE_NOT_SET -> {
                // What a newer coordinator says besides is not for this client.
            }
        }
    }

    private void tell(WatchItem item) {
        hasTold = true;
        listener.accept(item);
    }

    /** Returns whether the snapshot was complete and no events have been missed since. */
    public boolean isReady() {
        return isReady && !feed.isClosed();
    }

    /** Ends the watcher. A listener that is being called may still be running then. */
    @Override
    public void close() {
        feed.close();
    }
}
