package dev.leasehold;

import dev.leasehold.internal.Threads;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** Waits for futures, with the exceptions that they hold. */
final class Waits {
    private Waits() {}

    /** Waits for the future, and unwraps its exception. */
    static <T> T interruptibly(CompletableFuture<T> future) throws InterruptedException {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw unwrapped(e);
        }
    }

    /** Waits for the future whatever interrupts it, and keeps the interrupt for the caller. */
    static <T> T uninterruptibly(CompletableFuture<T> future) {
        boolean wasInterrupted = false;
        try {
            while (true) {
                try {
                    return future.get();
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                } catch (ExecutionException e) {
                    throw unwrapped(e);
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Gives something up, and fails only if it was lost: what was not confirmed is repeated in the background. */
    static void unlessLost(Runnable giveUp) {
        try {
            giveUp.run();
        } catch (HoldException e) {
            System.getLogger("dev.leasehold").log(System.Logger.Level.DEBUG, "the release at the end of a block failed", e);
        }
    }

    /**
     * Makes a call on a thread of its own. To cancel the future, or to complete it in any other way, interrupts the call.
     *
     * @param undo gets the result if nobody else does
     */
    static <T> CompletableFuture<T> onThread(Executor executor, Callable<T> call, Consumer<T> undo) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = Threads.start("leasehold-call", () -> {
            try {
                T value = call.call();
                executor.execute(() -> {
                    if (!result.complete(value)) {
                        undo.accept(value);
                    }
                });
            } catch (Throwable e) {
                executor.execute(() -> result.completeExceptionally(e));
            }
        });
        result.whenComplete((value, failure) -> thread.interrupt());
        return result;
    }

    private static RuntimeException unwrapped(ExecutionException e) {
        return e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
    }

    /** Throws any exception as if it were unchecked. */
    @SuppressWarnings("unchecked")
    static <E extends Throwable> RuntimeException sneaky(Throwable thrown) throws E {
        throw (E) thrown;
    }
}
