package dev.leasehold.internal;

import java.lang.reflect.Method;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/** Threads of this library: virtual ones where there are, otherwise daemons, so that none keeps a program alive. */
public final class Threads {
    private static final ThreadFactory FACTORY = factory();
    private static final ScheduledThreadPoolExecutor TIMER = timer();

    private Threads() {}

    /** Starts a task on a thread of its own, and returns that. */
    public static Thread start(String name, Runnable task) {
        Thread thread = FACTORY.newThread(task);
        thread.setName(name);
        thread.start();
        return thread;
    }

    /** Returns an executor that has a thread for each task. */
    public static Executor perTask() {
        return task -> start("leasehold-task", task);
    }

    /** Calls a task, which must be quick, after this many nanoseconds. The returned action calls it off. */
    static Runnable after(long nanos, Runnable task) {
        var scheduled = TIMER.schedule(task, nanos, TimeUnit.NANOSECONDS);
        return () -> scheduled.cancel(false);
    }

    /** Makes the thread of the timers do nothing else for as long as the task takes. For tests. */
    public static void occupyTimers(Runnable task) {
        TIMER.execute(task);
    }

    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "leasehold-timer");
            thread.setDaemon(true);
            return thread;
        });
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }

    private static ThreadFactory factory() {
        try {
            // Java 21 and later.
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            Method factory = Class.forName("java.lang.Thread$Builder").getMethod("factory");
            return (ThreadFactory) factory.invoke(builder);
        } catch (ReflectiveOperationException e) {
            ThreadFactory platform = Executors.defaultThreadFactory();
            return task -> {
                Thread thread = platform.newThread(task);
                thread.setDaemon(true);
                return thread;
            };
        }
    }
}
