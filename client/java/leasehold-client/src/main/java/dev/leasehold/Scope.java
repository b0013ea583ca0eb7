package dev.leasehold;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** Work that runs on this thread while locks are held, and is interrupted when one of them is lost. */
final class Scope {
    private static final ThreadLocal<Interrupts> INTERRUPTS = new ThreadLocal<>();

    /** What the scopes of a thread, one within the other, have interrupted it for. Locked, but for what only its own thread counts. */
    private static final class Interrupts {
        final Thread thread = Thread.currentThread();
        /** Scopes that are not over. */
        int open;
        /** Those of them that have lost a lock. */
        int lost;
        /** Whether somebody else had interrupted the thread before the first of them did: that is not taken back. */
        boolean hadAnother;
    }

    private final Interrupts interrupts;
    private boolean isOver;
    private boolean hasLost;

    private Scope() {
        Interrupts outer = INTERRUPTS.get();
        interrupts = outer == null ? new Interrupts() : outer;
        INTERRUPTS.set(interrupts);
        interrupts.open++;
    }

    private void interrupt(HoldState state) {
        synchronized (interrupts) {
            // Releasing it is the work's own doing.
            if (isOver || hasLost || state != HoldState.LOST) {
                return;
            }
            hasLost = true;
            if (interrupts.lost == 0) {
                interrupts.hadAnother = interrupts.thread.isInterrupted();
            }
            interrupts.lost++;
            interrupts.thread.interrupt();
        }
    }

    /**
     * Ends the scope: no interrupt comes after it, and that of its loss is taken back, unless a scope around it has lost a lock too, whose
     * work has to learn of that. Returns whether there was one, and none before it.
     */
    private boolean end() {
        synchronized (interrupts) {
            isOver = true;
            interrupts.open--;
            if (interrupts.open == 0) {
                INTERRUPTS.remove();
            }
            if (!hasLost) {
                return false;
            }
            interrupts.lost--;
            if (interrupts.lost > 0) {
                interrupts.thread.interrupt();
            } else if (!interrupts.hadAnother) {
                Thread.interrupted();
            }
            return !interrupts.hadAnother;
        }
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
        if (thrown instanceof InterruptedException && !wasInterrupted) {
            // Somebody else's, or of the loss of a lock around this one: the caller of this has to see it.
            Thread.currentThread().interrupt();
        }
        boolean saysMore = thrown != null && !(thrown instanceof LockLostException)
                && !(thrown instanceof InterruptedException && wasInterrupted);
        if (saysMore) {
            lost.addSuppressed(thrown);
        }
        throw lost;
    }
}
