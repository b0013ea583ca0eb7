package dev.leasehold;

import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Output.Granted;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Leadership of this process, until it resigns or loses it. All methods may be called from any thread.
 *
 * <p>A term promises what a {@link Hold} promises: it is lost at its deadline, by this process's own clock, before anybody else can be
 * elected. It moves to another coordinator with its session, and nobody else is elected for that.
 */
public final class Term extends Grant {
    /** Number of the actor in whose name it campaigned. */
    private final long actor;

    private final Runnable end;

    Term(SessionDriver session, Granted granted, long actor, Runnable end) {
        super(session, granted);
        this.actor = actor;
        this.end = end;
    }

    /** Changes the value that observers see: at most 4 KiB. After an interrupt it may be changed all the same. */
    public void proclaim(byte[] value) throws InterruptedException {
        changeAndWait(value(value));
    }

    /** Changes the value to a text in UTF-8. */
    public void proclaim(String value) throws InterruptedException {
        proclaim(utf8(value));
    }

    /**
     * Runs the work on this thread under the leadership, and gives that up when the work has returned, as {@link Election#run} does for each
     * term.
     *
     * @throws E what the work throws
     * @throws LockLostException if the leadership was lost before the work was done
     */
    public <E extends Exception> void run(LockBody.Action<? super Term, E> work) throws E {
        LockBody<? super Term, Void, E> returning = Scope.returning(work);
        Scope.run(List.of(this), actor, this::resign, () -> returning.call(this));
    }

    /** Changes the value as {@link #proclaim(byte[])} does, without waiting. */
    public CompletableFuture<Void> proclaimAsync(byte[] value) {
        return change(value(value));
    }

    /**
     * Gives the leadership up, and the next candidate is elected. It returns, is shielded and idempotent as {@link Hold#release} is, and
     * fails with the same exceptions.
     */
    public void resign() {
        try {
            giveAndWait();
        } finally {
            end.run();
        }
    }

    /** Gives the leadership up without waiting. */
    public CompletableFuture<Void> resignAsync() {
        CompletableFuture<Void> given = giveAsync();
        end.run();
        return given;
    }

    /** Gives the leadership up, and fails only if it was lost, as {@link Hold#close} does. */
    @Override
    public void close() {
        Waits.unlessLost(this::resign);
    }
}
