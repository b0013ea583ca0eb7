package dev.leasehold;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

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

    private static RuntimeException unwrapped(ExecutionException e) {
        return e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
    }

    /** Throws any exception as if it were unchecked. */
    @SuppressWarnings("unchecked")
    static <E extends Throwable> RuntimeException sneaky(Throwable thrown) throws E {
        throw (E) thrown;
    }
}
