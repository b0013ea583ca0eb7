package dev.leasehold.conformance;

import dev.leasehold.Actor;
import dev.leasehold.Entry;
import dev.leasehold.Grant;
import dev.leasehold.Hold;
import dev.leasehold.Term;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** One of the library's two interfaces. Every call returns at once. */
interface Library {
    List<String> CAPABILITIES = List.of(
            "cancel", "cancel_body", "suspended_event", "cleanup", "fail_with", "backoff", "tls", "clock", "skew_clock", "block");

    String name();

    /** Call that goes on; cancelling it cancels it as a program would. */
    CompletableFuture<List<Hold>> acquire(Request request, Entry client, Actor actor);

    CompletableFuture<Void> release(List<Hold> holds);

    CompletableFuture<Void> setValue(Hold hold, byte[] value);

    CompletableFuture<Void> downgrade(Hold hold);

    /** Runs the scoped form; the handle is made when the body starts. */
    CompletableFuture<Void> body(Request request, Entry client, Actor actor, Body body);

    CompletableFuture<Term> campaign(Request request, Entry client);

    CompletableFuture<Void> proclaim(Term term, byte[] value);

    CompletableFuture<Void> resign(Term term);

    CompletableFuture<Void> lead(Request request, Entry client, Body body);

    /** Body of a scoped form. */
    final class Body {
        private final Request request;
        private final Consumer<List<? extends Grant>> started;
        private final Consumer<String> tells;
        /** Completed to let it end: plainly, or with its own error. */
        final CompletableFuture<Void> done = new CompletableFuture<>();

        Body(Request request, Consumer<List<? extends Grant>> started, Consumer<String> tells) {
            this.request = request;
            this.started = started;
            this.tells = tells;
        }

        void start(List<? extends Grant> grants) {
            started.accept(grants);
        }

        void cancelled() {
            tells.accept("cancelled");
        }

        void ended() {
            tells.accept("ended");
        }

        /** Returns the error with which it ends after it was told to stop; null if it has none of its own. */
        RuntimeException failure() {
            return request.failWith == null ? null : new Fault.OfBody(request.failWith);
        }
    }
}
