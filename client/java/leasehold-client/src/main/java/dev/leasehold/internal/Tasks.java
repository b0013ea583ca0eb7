package dev.leasehold.internal;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The program's executor, as far as the client can rely on it. What is to be executed while a session is locked is handed on once it is not:
 * an executor may run a task at once, in the thread that hands it on. A task that it does not take runs on a thread of its own: the end of
 * the executor must not leave a session that nobody closes, or a hold that nobody gives back.
 */
public final class Tasks implements Executor {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    private final Executor program;
    /** Tasks of this thread that wait; none while it has no session locked. */
    private final ThreadLocal<List<Runnable>> waiting = new ThreadLocal<>();

    /** Makes tasks of this executor. */
    public Tasks(Executor program) {
        this.program = program;
    }

    @Override
    public void execute(Runnable task) {
        List<Runnable> later = waiting.get();
        if (later != null) {
            later.add(task);
        } else {
            begin(task);
        }
    }

    /** Runs an action that locks a session, and then hands on what it wanted to be executed. */
    void afterwards(Runnable action) {
        if (waiting.get() != null) {
            action.run();
            return;
        }
        List<Runnable> later = new ArrayList<>();
        waiting.set(later);
        try {
            action.run();
        } finally {
            waiting.remove();
            later.forEach(this::begin);
        }
    }

    private void begin(Runnable task) {
        AtomicBoolean hasBegun = new AtomicBoolean();
        Runnable once = () -> {
            if (hasBegun.compareAndSet(false, true)) {
                task.run();
            }
        };
        try {
            program.execute(once);
        } catch (RuntimeException e) {
            if (hasBegun.get()) {
                // The executor ran it at once.
                LOG.log(System.Logger.Level.WARNING, "a callback failed", e);
                return;
            }
            LOG.log(System.Logger.Level.DEBUG, "the client's executor does not take a task, which runs on a thread of its own", e);
            Threads.start("leasehold-task", once);
        }
    }
}
