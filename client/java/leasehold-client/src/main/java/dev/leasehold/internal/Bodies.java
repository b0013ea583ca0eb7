package dev.leasehold.internal;

import dev.leasehold.internal.machine.Moments;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;

/** Work that runs under locks of one session, or of a client's calls: what a close tells to stop, and waits for. */
public final class Bodies {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    /** Work from its begin to its end. */
    public final class Body {
        private final String label;
        private final Runnable stop;
        /** Thread whose own close does not wait for the work; null if no thread is known to run it. */
        private volatile Thread owner = Thread.currentThread();

        private Body(String label, Runnable stop) {
            this.label = label;
            this.stop = stop;
        }

        /** Notes that the work goes on, but not on the thread that began it. */
        public void detach() {
            owner = null;
        }

        /** Notes that the work has ended. Does nothing if it had. */
        public void end() {
            synchronized (Bodies.this) {
                running.remove(this);
                if (isClosing && running.isEmpty()) {
                    idle.complete(null);
                }
            }
        }
    }

    private final Set<Body> running = new LinkedHashSet<>();
    private final CompletableFuture<Void> idle = new CompletableFuture<>();
    private boolean isClosing;

    /**
     * Notes that work begins under locks. Returns null if a close has begun: then the work must not begin.
     *
     * @param label names of the locks
     * @param stop tells the work to stop, once, when a close begins
     */
    public synchronized Body begin(String label, Runnable stop) {
        if (isClosing) {
            return null;
        }
        Body begun = new Body(label, stop);
        running.add(begun);
        return begun;
    }

    /**
     * Begins the close, or joins the one that has begun. What is returned is completed when no work runs any more, but for that of the
     * calling thread, which can't end before this call has returned, or after this time in nanoseconds; then the log has what still runs.
     */
    public CompletableFuture<Void> close(long timeout) {
        List<Body> told = List.of();
        Thread caller = Thread.currentThread();
        synchronized (this) {
            running.removeIf(body -> body.owner == caller);
            if (!isClosing) {
                isClosing = true;
                told = new ArrayList<>(running);
                if (timeout <= 0) {
                    idle.complete(null);
                } else if (!told.isEmpty()) {
                    Runnable disarm = Threads.after(timeout, () -> giveUp(timeout));
                    idle.thenRun(disarm);
                }
            }
            if (running.isEmpty()) {
                idle.complete(null);
            }
        }
        told.forEach(body -> body.stop.run());
        return idle;
    }

    /** Returns whether a close has begun. */
    public synchronized boolean isClosing() {
        return isClosing;
    }

    private void giveUp(long timeout) {
        String labels;
        synchronized (this) {
            labels = running.stream().map(body -> '"' + body.label + '"').collect(Collectors.joining(", "));
        }
        if (!labels.isEmpty()) {
            LOG.log(
                    System.Logger.Level.WARNING,
                    "closing although work under locks still runs after " + timeout / Moments.MILLIS + " ms: " + labels);
        }
        idle.complete(null);
    }
}
