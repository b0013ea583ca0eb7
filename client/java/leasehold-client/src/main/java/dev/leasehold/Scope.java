package dev.leasehold;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** Work that runs on this thread while locks are held, and is interrupted when one of them is lost. */
final class Scope {
    private final Thread thread = Thread.currentThread();
    private boolean isOver;
    private boolean hasInterrupted;

    private Scope() {}

    private synchronized void interrupt(HoldState state) {
        // Releasing it is the work's own doing.
        if (!isOver && state == HoldState.LOST) {
            // An interrupt that came before is not taken back.
            hasInterrupted |= !thread.isInterrupted();
            thread.interrupt();
        }
    }

    /** Ends the scope: no interrupt comes after it, and that of a loss is taken back. Returns whether there was one. */
    private synchronized boolean end() {
        isOver = true;
        if (hasInterrupted) {
            Thread.interrupted();
        }
        return hasInterrupted;
    }

    /**
     * Runs the work until it returns, and then gives the locks up: never before, so that nobody else gets them while it still runs. Throws
     * what the work throws; if a lock was lost before the work was done, its loss, with what the work threw as a suppressed exception.
     */
    static <T> T run(List<? extends Grant> grants, Runnable giveUp, Callable<T> work) {
        Scope scope = new Scope();
        List<Runnable> watches = new ArrayList<>();
        grants.forEach(grant -> watches.add(grant.watch(scope::interrupt)));
        T value = null;
        Throwable thrown = null;
        try {
            value = work.call();
        } catch (Throwable e) {
            thrown = e;
        }
        watches.forEach(Runnable::run);
        boolean wasInterrupted = scope.end();
        LockLostException lost = null;
        for (Grant grant : grants) {
            LockLostException one = grant.settled();
            lost = lost == null ? one : lost;
        }
        try {
            giveUp.run();
        } catch (LeaseholdException e) {
            System.getLogger("dev.leasehold").log(System.Logger.Level.DEBUG, "the release after the work failed", e);
        }
        if (lost == null) {
            if (thrown != null) {
                throw Waits.<RuntimeException>sneaky(thrown);
            }
            return value;
        }
        boolean saysMore = thrown != null && !(thrown instanceof LockLostException)
                && !(thrown instanceof InterruptedException && wasInterrupted);
        if (saysMore) {
            lost.addSuppressed(thrown);
        }
        throw lost;
    }
}
