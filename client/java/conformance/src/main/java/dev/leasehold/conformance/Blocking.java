package dev.leasehold.conformance;

import dev.leasehold.Actor;
import dev.leasehold.Entry;
import dev.leasehold.Grant;
import dev.leasehold.Hold;
import dev.leasehold.Term;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** The blocking interface: each call has a thread, and is cancelled by an interrupt. */
final class Blocking implements Library {
    @Override
    public String name() {
        return "java";
    }

    private static <T> CompletableFuture<T> start(Callable<T> call) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(call.call());
            } catch (InterruptedException e) {
                result.completeExceptionally(new Fault("cancelled", "interrupted"));
            } catch (Throwable e) {
                result.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return new Interrupting<>(thread, result);
    }

    /** Future of a call. To cancel it interrupts the call, and leaves it to that how it ends. */
    private static final class Interrupting<T> extends CompletableFuture<T> {
        private final Thread thread;

        Interrupting(Thread thread, CompletableFuture<T> result) {
            this.thread = thread;
            result.whenComplete((value, failure) -> {
                if (failure == null) {
                    complete(value);
                } else {
                    completeExceptionally(failure);
                }
            });
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            thread.interrupt();
            return true;
        }
    }

    private static CompletableFuture<Void> run(Action action) {
        return start(() -> {
            action.run();
            return null;
        });
    }

    private interface Action {
        void run() throws Exception;
    }

    @Override
    public CompletableFuture<List<Hold>> acquire(Request request, Entry client, Actor actor) {
        return start(() -> request.names.size() > 1
                ? List.copyOf(request.several(client, actor).acquire())
                : List.of(request.one(client, actor).acquire()));
    }

    @Override
    public CompletableFuture<Void> release(List<Hold> holds) {
        return run(() -> holds.forEach(Hold::release));
    }

    @Override
    public CompletableFuture<Void> setValue(Hold hold, byte[] value) {
        return run(() -> hold.setValue(value));
    }

    @Override
    public CompletableFuture<Void> downgrade(Hold hold) {
        return run(hold::downgrade);
    }

    @Override
    public CompletableFuture<Void> body(Request request, Entry client, Actor actor, Body body) {
        return run(() -> {
            if (request.names.size() > 1) {
                request.several(client, actor).run(holds -> work(request, body, holds));
            } else {
                request.one(client, actor).run(hold -> work(request, body, List.of(hold)));
            }
        });
    }

    @Override
    public CompletableFuture<Term> campaign(Request request, Entry client) {
        return start(() -> request.candidate(client).campaign());
    }

    @Override
    public CompletableFuture<Void> proclaim(Term term, byte[] value) {
        return run(() -> term.proclaim(value));
    }

    @Override
    public CompletableFuture<Void> resign(Term term) {
        return run(term::resign);
    }

    @Override
    public CompletableFuture<Void> lead(Request request, Entry client, Body body) {
        return run(() -> {
            try {
                request.candidate(client).run(term -> {
                    work(request, body, List.of(term));
                    // It campaigns no further.
                    throw new Fault.Finished();
                });
            } catch (Fault.Finished e) {
                return;
            }
        });
    }

    private static void work(Request request, Body body, List<? extends Grant> grants) throws InterruptedException {
        body.start(grants);
        try {
            body.done.get();
        } catch (ExecutionException e) {
            throw (RuntimeException) e.getCause();
        } catch (InterruptedException e) {
            body.cancelled();
            Thread.sleep(request.cleanupMs);
            if (body.failure() != null) {
                throw body.failure();
            }
            throw e;
        } finally {
            body.ended();
        }
    }
}
