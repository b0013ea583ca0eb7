package dev.leasehold.conformance;

import dev.leasehold.Actor;
import dev.leasehold.Entry;
import dev.leasehold.Grant;
import dev.leasehold.Hold;
import dev.leasehold.Term;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The interface of futures. */
final class Asynchronous implements Library {
    @Override
    public String name() {
        return "java_async";
    }

    @Override
    public CompletableFuture<List<Hold>> acquire(Request request, Entry client, Actor actor) {
        if (request.names.size() > 1) {
            return cancelling(request.several(client, actor).acquireAsync(), List::copyOf);
        }
        return cancelling(request.one(client, actor).acquireAsync(), List::of);
    }

    /** Returns the future of another form of the value, which cancels the call when it is cancelled. */
    private static <T, U> CompletableFuture<U> cancelling(CompletableFuture<T> call, java.util.function.Function<T, U> form) {
        CompletableFuture<U> result = call.thenApply(form);
        result.whenComplete((value, failure) -> call.cancel(true));
        return result;
    }

    @Override
    public CompletableFuture<Void> release(List<Hold> holds) {
        return CompletableFuture.allOf(holds.stream().map(Hold::releaseAsync).toArray(CompletableFuture[]::new));
    }

    @Override
    public CompletableFuture<Void> setValue(Hold hold, byte[] value) {
        return hold.setValueAsync(value);
    }

    @Override
    public CompletableFuture<Void> downgrade(Hold hold) {
        return hold.downgradeAsync();
    }

    @Override
    public CompletableFuture<Void> body(Request request, Entry client, Actor actor, Body body) {
        if (request.names.size() > 1) {
            return request.several(client, actor).callAsync(holds -> work(request, body, holds));
        }
        return request.one(client, actor).callAsync(hold -> work(request, body, List.of(hold)));
    }

    @Override
    public CompletableFuture<Term> campaign(Request request, Entry client) {
        return request.candidate(client).campaignAsync();
    }

    @Override
    public CompletableFuture<Void> proclaim(Term term, byte[] value) {
        return term.proclaimAsync(value);
    }

    @Override
    public CompletableFuture<Void> resign(Term term) {
        return term.resignAsync();
    }

    @Override
    public CompletableFuture<Void> lead(Request request, Entry client, Body body) {
        CompletableFuture<Void> leading = request.candidate(client)
                .runAsync(term -> work(request, body, List.of(term)).thenRun(() -> {
                    // It campaigns no further.
                    throw new Fault.Finished();
                }));
        CompletableFuture<Void> result = leading.exceptionally(failure -> {
            if (Driver.unwrapped(failure) instanceof Fault.Finished) {
                return null;
            }
            throw (RuntimeException) failure;
        });
        result.whenComplete((none, failure) -> leading.cancel(true));
        return result;
    }

    private static CompletableFuture<Void> work(Request request, Body body, List<? extends Grant> grants) {
        body.start(grants);
        CompletableFuture<Void> stop = new CompletableFuture<>();
        grants.forEach(grant -> grant.onStop(() -> {
            if (stop.complete(null) && !body.done.isDone()) {
                body.cancelled();
            }
        }));
        CompletableFuture<Void> stopped = stop.thenRunAsync(
                () -> {
                    throw body.failure() == null ? new CancellationException("the work was told to stop") : body.failure();
                },
                CompletableFuture.delayedExecutor(request.cleanupMs, TimeUnit.MILLISECONDS));
        return CompletableFuture.anyOf(body.done, stopped)
                .<Void>thenApply(none -> null)
                .whenComplete((none, failure) -> body.ended());
    }
}
