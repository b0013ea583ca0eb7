package dev.leasehold;

import java.util.AbstractList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** Locks that were granted together, in the order of the request. Each is lost and released for itself. */
public final class Holds extends AbstractList<Hold> implements AutoCloseable {
    private final List<Hold> holds;

    Holds(List<Hold> holds) {
        this.holds = List.copyOf(holds);
    }

    @Override
    public Hold get(int index) {
        return holds.get(index);
    }

    @Override
    public int size() {
        return holds.size();
    }

    /** Returns the hold of this name, if it is among them. */
    public Optional<Hold> named(String name) {
        return holds.stream().filter(hold -> hold.name().equals(name)).findFirst();
    }

    /**
     * Returns if all are held, and otherwise fails as {@link Hold#check} does: with a loss rather than a suspension.
     *
     * @throws LockLostException if one is lost
     * @throws HoldException if one is suspended, or was released
     */
    public void check() {
        HoldException suspended = null;
        for (Hold hold : holds) {
            try {
                hold.check();
            } catch (HoldException e) {
                if (e.kind() != ErrorKind.SUSPENDED) {
                    throw e;
                }
                suspended = e;
            }
        }
        if (suspended != null) {
            throw suspended;
        }
    }

    /** Releases all of them at once, as {@link Hold#release} does with one. Of several errors, throws that of the first lock. */
    public void release() {
        holds.forEach(Grant::give);
        RuntimeException first = null;
        for (Hold hold : holds) {
            try {
                hold.giveAndWait();
            } catch (RuntimeException e) {
                first = first == null ? e : first;
            }
        }
        if (first != null) {
            throw first;
        }
    }

    /** Releases all of them without waiting. */
    public CompletableFuture<Void> releaseAsync() {
        return CompletableFuture.allOf(holds.stream().map(Hold::releaseAsync).toArray(CompletableFuture[]::new));
    }

    /** Releases all of them, as {@link Hold#close} does with one. */
    @Override
    public void close() {
        Waits.unlessLost(this::release);
    }
}
