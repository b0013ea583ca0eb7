package dev.leasehold;

import dev.leasehold.internal.Bodies;
import dev.leasehold.internal.Checks;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** Work that runs on this thread while locks are held, and is interrupted when one of them is lost or the session is closed. */
final class Scope {
    private static final ThreadLocal<Interrupts> INTERRUPTS = new ThreadLocal<>();

    /** What the scopes of a thread, one within the other, have interrupted it for. Locked, but for what only its own thread uses. */
    private static final class Interrupts {
        final Thread thread = Thread.currentThread();
        /** Scopes that are not over. */
        int open;
        /** Actor of the innermost of them. */
        long actor;
        /** Those of them that have been told to stop. */
        int stopped;
        /** Whether somebody else had interrupted the thread before the first of them was: that is not taken back. */
        boolean hadAnother;
    }

    private final Interrupts interrupts;
    private final long outerActor;
    private boolean isOver;
    private boolean isStopped;

    private Scope(long actor) {
        Interrupts outer = INTERRUPTS.get();
        interrupts = outer == null ? new Interrupts() : outer;
        INTERRUPTS.set(interrupts);
        interrupts.open++;
        outerActor = interrupts.actor;
        interrupts.actor = actor;
    }

    /** Returns the actor of the work that runs on this thread under locks; 0 if none does. */
    static long actor() {
        Interrupts present = INTERRUPTS.get();
        return present == null ? 0 : present.actor;
    }

    private void interrupt() {
        synchronized (interrupts) {
            if (isOver || isStopped) {
                return;
            }
            isStopped = true;
            if (interrupts.stopped == 0) {
                interrupts.hadAnother = interrupts.thread.isInterrupted();
            }
            interrupts.stopped++;
            interrupts.thread.interrupt();
        }
    }

    /**
     * Ends the scope: no interrupt comes after it, and its own is taken back, unless a scope around it has been told to stop too, whose
     * work has to learn of that. Returns whether there was one, and none before it.
     */
    private boolean end() {
        synchronized (interrupts) {
            isOver = true;
            interrupts.open--;
            interrupts.actor = outerActor;
            if (interrupts.open == 0) {
                INTERRUPTS.remove();
            }
            if (!isStopped) {
                return false;
            }
            interrupts.stopped--;
            if (interrupts.stopped > 0) {
                interrupts.thread.interrupt();
            } else if (!interrupts.hadAnother) {
                Thread.interrupted();
            }
            return !interrupts.hadAnother;
        }
    }

    /** Returns work that returns nothing as work that returns null. */
    static <H, E extends Exception> LockBody<H, Void, E> returning(LockBody.Action<H, E> work) {
        Checks.given(work, "work");
        return held -> {
            work.run(held);
            return null;
        };
    }

    private static void giveUp(Runnable release) {
        try {
            release.run();
        } catch (LeaseholdException e) {
            System.getLogger("dev.leasehold").log(System.Logger.Level.DEBUG, "the release after the work failed", e);
        }
    }

    /**
     * Runs the work until it returns, and then gives the locks up: never before, so that nobody else gets them while it still runs. Throws
     * what the work throws; if a lock was lost before the work was done, its loss, with what the work threw as a suppressed exception; and
     * if the work ended with the interrupt of a close, that the session is closed.
     *
     * @param actor the flow's actor while the work runs; 0 for none
     */
    static <T> T run(List<? extends Grant> grants, long actor, Runnable giveUp, Callable<T> work) {
        Scope scope = new Scope(actor);
        Bodies.Body body = grants.get(0).begin(grants, scope::interrupt);
        if (body == null) {
            scope.end();
            giveUp(giveUp);
            throw grants.get(0).closed();
        }
        List<Runnable> watches = new ArrayList<>();
        // Releasing a lock is the work's own doing.
        grants.forEach(grant -> watches.add(grant.watch(state -> {
            if (state == HoldState.LOST) {
                scope.interrupt();
            }
        })));
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
            giveUp(giveUp);
        } finally {
            body.end();
        }
        boolean isOwnInterrupt = thrown instanceof InterruptedException && wasInterrupted;
        if (lost == null) {
            if (isOwnInterrupt) {
                throw grants.get(0).closed();
            }
            if (thrown != null) {
                throw Waits.<RuntimeException>sneaky(thrown);
            }
            return value;
        }
        if (thrown instanceof InterruptedException && !wasInterrupted) {
            // Somebody else's, or of the loss of a lock around this one: the caller of this has to see it.
            Thread.currentThread().interrupt();
        }
        if (thrown != null && !(thrown instanceof LockLostException) && !isOwnInterrupt) {
            lost.addSuppressed(thrown);
        }
        throw lost;
    }
}
