package dev.leasehold;

import dev.leasehold.internal.Bodies;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/** Work that goes on in the background while locks are held. */
final class AsyncScope {
    private AsyncScope() {}

    /**
     * Runs the work once the locks are granted. To cancel what is returned cancels the request, or asks the work to stop, which is then waited
     * for before the locks are given up.
     *
     * @param grants the locks in what is granted
     */
    static <G, T> CompletableFuture<T> whenGranted(
            CompletableFuture<G> asked,
            Function<G, List<? extends Grant>> grants,
            Function<G, CompletableFuture<Void>> giveUp,
            Function<? super G, ? extends CompletionStage<T>> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        asked.whenComplete((granted, failure) -> {
            if (failure != null) {
                result.completeExceptionally(failure);
            } else if (result.isDone()) {
                // Granted at the moment at which it was cancelled.
                giveUp.apply(granted);
            } else {
                settle(result, run(grants.apply(granted), () -> giveUp.apply(granted), () -> work.apply(granted)));
            }
        });
        result.whenComplete((value, failure) -> {
            if (result.isCancelled()) {
                asked.cancel(false);
                asked.thenAccept(granted -> grants.apply(granted).forEach(grant -> grant.requestStop(StopReason.CANCELLED)));
            }
        });
        return result;
    }

    /**
     * Turns an acquire that finds the locks busy into an empty value. To cancel what is returned cancels the request, and what was granted at
     * the same moment is given up.
     */
    static <G> CompletableFuture<Optional<G>> ifFree(CompletableFuture<G> asked, Consumer<G> giveUp) {
        CompletableFuture<Optional<G>> result = new CompletableFuture<>();
        asked.whenComplete((granted, failure) -> {
            if (failure instanceof AcquireException busy && busy.kind() == ErrorKind.BUSY) {
                result.complete(Optional.empty());
            } else if (failure != null) {
                result.completeExceptionally(failure);
            } else if (!result.complete(Optional.of(granted))) {
                giveUp.accept(granted);
            }
        });
        result.whenComplete((granted, failure) -> asked.cancel(false));
        return result;
    }

    private static <T> void settle(CompletableFuture<T> result, CompletableFuture<T> ran) {
        ran.whenComplete((value, failure) -> {
            if (failure == null) {
                result.complete(value);
            } else {
                result.completeExceptionally(failure);
            }
        });
    }

    /** Begins the work, and gives the locks up when it is done: never before, so that nobody else gets them while it still goes on. */
    private static <T> CompletableFuture<T> run(
            List<? extends Grant> grants, Supplier<CompletableFuture<Void>> giveUp, Supplier<? extends CompletionStage<T>> work) {
        Bodies.Body body = grants.get(0).begin(grants, () -> {});
        CompletionStage<T> begun;
        try {
            if (body == null) {
                throw grants.get(0).closed();
            }
            begun = Objects.requireNonNull(work.get(), "the work returned no stage");
        } catch (Throwable e) {
            begun = CompletableFuture.failedFuture(e);
        }
        if (body != null) {
            body.detach();
        }
        CompletableFuture<T> result = new CompletableFuture<>();
        begun.whenComplete((value, thrown) -> settled(grants).whenComplete((lost, none) -> giveUp.get()
                .whenComplete((released, failure) -> {
                    if (body != null) {
                        body.end();
                    }
                    Throwable cause = thrown instanceof CompletionException ? thrown.getCause() : thrown;
                    if (lost != null) {
                        if (cause != null && !(cause instanceof LockLostException)) {
                            lost.addSuppressed(cause);
                        }
                        result.completeExceptionally(lost);
                    } else if (cause instanceof CancellationException
                            && grants.get(0).stopReason().filter(StopReason.CLOSED::equals).isPresent()) {
                        // The work gave up because of the close.
                        result.completeExceptionally(grants.get(0).closed());
                    } else if (thrown != null) {
                        result.completeExceptionally(thrown);
                    } else {
                        result.complete(value);
                    }
                })));
        return result;
    }

    /** Waits while one of the locks is suspended. Returns the first loss; null if none is lost. */
    private static CompletableFuture<LockLostException> settled(List<? extends Grant> grants) {
        for (Grant grant : grants) {
            if (grant.state() == HoldState.SUSPENDED) {
                return grant.changeFrom(HoldState.SUSPENDED).thenCompose(state -> settled(grants));
            }
        }
        for (Grant grant : grants) {
            LockLostException lost = grant.settled();
            if (lost != null) {
                return CompletableFuture.completedFuture(lost);
            }
        }
        return CompletableFuture.completedFuture(null);
    }
}
