package dev.leasehold.internal.machine;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;

/** Owner ids by which a coordinator may know a hold or a waiter, over the streams that it is resumed on. Secret, and never logged. */
final class OwnerIds {
    /**
     * Number of ids of unanswered attempts that are remembered: as many as a coordinator takes. After that many the oldest go, because what
     * they stood for is long over.
     */
    static final int MOST_TRIED = 64;

    /** The id under which it was last confirmed. */
    private ByteString confirmed;
    /** Ids of later attempts to resume it that may have been carried out; the oldest first. */
    private List<ByteString> tried = new ArrayList<>();
    /** The id of the attempt in progress; null if there is none. */
    private ByteString next;

    OwnerIds(ByteString confirmed) {
        this.confirmed = confirmed;
    }

    /** Returns a copy that changes for itself. */
    OwnerIds copy() {
        OwnerIds copy = new OwnerIds(confirmed);
        copy.tried = new ArrayList<>(tried);
        copy.next = next;
        return copy;
    }

    ByteString confirmed() {
        return confirmed;
    }

    List<ByteString> tried() {
        return tried;
    }

    /** Begins an attempt to resume it under this id. */
    void attempt(ByteString id) {
        next = id;
    }

    boolean isAttempted() {
        return next != null;
    }

    /** Ends an attempt without an answer: the coordinator may have carried it out. */
    void unanswered() {
        if (next != null) {
            tried.add(next);
            next = null;
        }
        if (tried.size() > MOST_TRIED) {
            tried = new ArrayList<>(tried.subList(tried.size() - MOST_TRIED, tried.size()));
        }
    }

    /** Ends an attempt that the coordinator declined. */
    void declined() {
        next = null;
    }

    /** Ends an attempt that the coordinator carried out. */
    void resumed() {
        if (next != null) {
            confirmed = next;
            tried = new ArrayList<>();
            next = null;
        }
    }

    /** Returns whether a coordinator may know it by another id than the confirmed one. */
    boolean isInDoubt() {
        return next != null || !tried.isEmpty();
    }

    /** Returns every id, in the order of the attempts. */
    List<ByteString> all() {
        List<ByteString> all = new ArrayList<>(tried);
        all.add(0, confirmed);
        if (next != null) {
            all.add(next);
        }
        return all;
    }

    /**
     * Returns the id at this place in the order of the attempts; null if there are fewer. A hold that is under one of them was never under
     * a later one before.
     */
    ByteString nth(int index) {
        List<ByteString> all = all();
        return index < all.size() ? all.get(index) : null;
    }
}
