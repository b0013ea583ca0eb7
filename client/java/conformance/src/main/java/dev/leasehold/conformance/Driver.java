package dev.leasehold.conformance;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import dev.leasehold.AcquireException;
import dev.leasehold.Actor;
import dev.leasehold.ErrorKind;
import dev.leasehold.Grant;
import dev.leasehold.Hold;
import dev.leasehold.HoldException;
import dev.leasehold.HoldState;
import dev.leasehold.Leader;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import dev.leasehold.Observer;
import dev.leasehold.SessionInfo;
import dev.leasehold.Term;
import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.Threads;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Program that lets the conformance runner test this library: it carries out what the runner asks for on stdin, by the library's public
 * interface, and reports on stdout what the library says. {@code docs/conformance.md} describes the lines. It contains no rule of its own.
 * Its argument is the interface to use: {@code blocking} or {@code async}.
 */
public final class Driver {
    private static final Gson GSON = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
            .serializeNulls().disableHtmlEscaping().create();

    /** Thing that the runner calls by a name: holds, a leadership, or a body. */
    private static final class Handle {
        List<? extends Grant> grants = List.of();
        List<Hold> holds = List.of();
        Term term;
        Library.Body body;
    }

    private final Library library;
    private final PrintStream output = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final Map<String, LeaseholdClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Handle> handles = new ConcurrentHashMap<>();
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();
    private final Map<Long, Runnable> cancels = new ConcurrentHashMap<>();

    private Driver(Library library) {
        this.library = library;
    }

    /** Reads and begins requests until stdin ends. */
    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver(arguments[0].equals("async") ? new Asynchronous() : new Blocking());
        Boot.now();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Request request;
            try {
                request = GSON.fromJson(line, Request.class);
            } catch (JsonParseException e) {
                driver.reply(0, null, new Fault("internal", "malformed request: " + e.getMessage()));
                continue;
            }
            driver.begin(request);
        }
        // Nothing is released, as when a process dies.
        Runtime.getRuntime().halt(0);
    }

    private void begin(Request request) {
        CompletableFuture<Map<String, Object>> answer;
        try {
            answer = carryOut(request);
        } catch (RuntimeException e) {
            answer = CompletableFuture.failedFuture(e);
        }
        answer.whenComplete((ok, failure) -> {
            cancels.remove(request.id);
            reply(request.id, ok, failure);
            if (failure == null && (request.op.equals("acquire") || request.op.equals("campaign"))) {
                watch(request.as, handles.get(request.as));
            }
        });
    }

    private static CompletableFuture<Map<String, Object>> done(Object... fields) {
        return CompletableFuture.completedFuture(History.object(fields));
    }

    private static CompletableFuture<Map<String, Object>> plain(CompletableFuture<?> call) {
        return call.thenApply(none -> History.object());
    }

    private CompletableFuture<Map<String, Object>> carryOut(Request request) {
        switch (request.op) {
            case "hello":
                return done(
                        "protocol", 1, "library", library.name(), "version", LeaseholdClient.VERSION, "capabilities",
                        Library.CAPABILITIES);
            case "connect":
                return connect(request);
            case "acquire":
                return acquire(request);
            case "cancel":
                cancels.getOrDefault(request.of, () -> {}).run();
                return done();
            case "body":
                return plain(cancellable(request, library.body(request, client(request), actor(request), body(request))));
            case "campaign":
                return campaign(request);
            case "lead":
                return plain(cancellable(request, library.lead(request, client(request), body(request))));
            case "observe":
                return observe(request);
            case "close":
                return CompletableFuture.supplyAsync(() -> {
                    client(request).close();
                    return History.object();
                });
            case "clock":
                return done("clock_ns", Long.toString(BootClock.now()));
            case "skew_clock":
                BootClock.skew(request.ms * 1_000_000);
                return done();
            default:
                return about(request);
        }
    }

    /** Carries out a request about a handle. */
    private CompletableFuture<Map<String, Object>> about(Request request) {
        Handle handle = request.h == null ? null : handles.get(request.h);
        if (!List.of("release", "set_value", "downgrade", "state", "proclaim", "resign", "finish", "fail", "block_ms")
                .contains(request.op)) {
            throw new Fault("unsupported", "unknown op " + request.op);
        }
        if (handle == null) {
            throw new Fault("internal", "there is no handle " + request.h);
        }
        switch (request.op) {
            case "release":
                return plain(handle.term != null ? library.resign(handle.term) : library.release(handle.holds));
            case "set_value":
                return plain(library.setValue(handle.holds.get(0), request.bytes()));
            case "downgrade":
                return plain(library.downgrade(handle.holds.get(0)));
            case "proclaim":
                return plain(library.proclaim(handle.term, request.bytes()));
            case "resign":
                return plain(library.resign(handle.term));
            case "finish":
                handle.body.done.complete(null);
                return done();
            case "fail":
                handle.body.done.completeExceptionally(new Fault.OfBody(request.message));
                return done();
            case "block_ms":
                CompletableFuture<Map<String, Object>> blocked = new CompletableFuture<>();
                Threads.occupyTimers(() -> {
                    try {
                        Thread.sleep(request.ms);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                    blocked.complete(stateOf(handle));
                });
                return blocked;
            default:
                return CompletableFuture.completedFuture(stateOf(handle));
        }
    }

    private <T> CompletableFuture<T> cancellable(Request request, CompletableFuture<T> call) {
        cancels.put(request.id, () -> call.cancel(true));
        return call;
    }

    private LeaseholdClient client(Request request) {
        LeaseholdClient client = request.on == null ? null : clients.get(request.on);
        if (client == null) {
            throw new Fault("internal", "there is no client " + request.on);
        }
        return client;
    }

    private Actor actor(Request request) {
        return request.actor == null ? null : actors.computeIfAbsent(request.actor, name -> new Actor());
    }

    private CompletableFuture<Map<String, Object>> connect(Request request) {
        LeaseholdClient.Builder builder = LeaseholdClient.builder(String.join(",", request.endpoints))
                .grace(Request.millis(request.graceMs))
                .allowPlaintextToken();
        if (request.clientName != null) {
            builder.clientName(request.clientName);
        }
        if (request.ttlMs > 0) {
            builder.ttl(Request.millis(request.ttlMs));
        }
        if (request.connectTimeoutMs > 0) {
            builder.connectTimeout(Request.millis(request.connectTimeoutMs));
        }
        if (request.backoffMinMs > 0 && request.backoffMaxMs > 0) {
            builder.backoff(Request.millis(request.backoffMinMs), Request.millis(request.backoffMaxMs));
        }
        if (request.tls != null) {
            builder.ca(Path.of(request.tls.ca));
            if (request.tls.serverName != null) {
                builder.serverName(request.tls.serverName);
            }
            if (request.tls.cert != null) {
                builder.certificate(Path.of(request.tls.cert), Path.of(request.tls.key));
            }
        }
        if (request.tokenFile != null) {
            builder.tokenFile(Path.of(request.tokenFile));
        }
        return CompletableFuture.supplyAsync(() -> {
            try {
                LeaseholdClient client = builder.connect();
                clients.put(request.as, client);
                return History.object("session_id", client.session().info().map(SessionInfo::sessionId).orElse(null));
            } catch (InterruptedException e) {
                throw new Fault("cancelled", "interrupted");
            } catch (IllegalArgumentException e) {
                throw new Fault("invalid", e.getMessage());
            }
        });
    }

    private CompletableFuture<Map<String, Object>> acquire(Request request) {
        return cancellable(request, library.acquire(request, client(request), actor(request)))
                .thenApply(holds -> granted(request, holds, holds, null));
    }

    private CompletableFuture<Map<String, Object>> campaign(Request request) {
        return cancellable(request, library.campaign(request, client(request)))
                .thenApply(term -> granted(request, List.of(term), List.of(), term));
    }

    private Map<String, Object> granted(Request request, List<? extends Grant> grants, List<Hold> holds, Term term) {
        String stamp = Boot.now();
        Handle handle = new Handle();
        handle.grants = grants;
        handle.holds = holds;
        handle.term = term;
        handles.put(request.as, handle);
        List<Object> list = new ArrayList<>();
        grants.forEach(grant -> list.add(History.object(
                "name", grant.name(), "token", Long.toString(grant.token()), "count", grant instanceof Hold hold ? hold.count() : 1)));
        return History.object("holds", list, "boot_ns", stamp);
    }

    private Library.Body body(Request request) {
        Handle handle = new Handle();
        Library.Body body = new Library.Body(
                request,
                grants -> {
                    handle.grants = grants;
                    handles.put(request.as, handle);
                    write(History.object(
                            "ev", "body", "h", request.as, "what", "started", "token", Long.toString(grants.get(0).token()),
                            "boot_ns", Boot.now()));
                },
                what -> write(History.object("ev", "body", "h", request.as, "what", what, "boot_ns", Boot.now())));
        handle.body = body;
        return body;
    }

    private CompletableFuture<Map<String, Object>> observe(Request request) {
        LeaseholdClient client = client(request);
        reply(request.id, History.object(), null);
        Observer observer = client.election(request.election).observe(
                change -> {
                    Map<String, Object> leader = change.leader().map(Driver::leader).orElse(null);
                    write(History.object(
                            "ev", "leader", "o", request.as, "leader", leader, "skipped", change.isSkipped(), "boot_ns", Boot.now()));
                },
                failure -> write(History.object("ev", "observe_failed", "o", request.as, "err", describe(failure))));
        cancels.put(request.id, observer::close);
        // Answered already.
        return new CompletableFuture<>();
    }

    private static Map<String, Object> leader(Leader leader) {
        Map<String, Object> seen = History.object("value", new String(leader.value(), StandardCharsets.UTF_8));
        if (leader.token() != 0) {
            seen.put("token", Long.toString(leader.token()));
        }
        return seen;
    }

    /** Reports the changes of a handle's state. */
    private void watch(String name, Handle handle) {
        String[] last = {"held"};
        for (Grant grant : handle.grants) {
            watch(name, handle, grant, HoldState.HELD, last);
        }
    }

    private void watch(String name, Handle handle, Grant grant, HoldState from, String[] last) {
        grant.changeFrom(from).thenAccept(state -> {
            synchronized (last) {
                Map<String, Object> event = stateOf(handle);
                String now = (String) event.get("state");
                if (!now.equals(last[0]) && !last[0].equals("lost") && !now.equals("released")) {
                    event.put("ev", "state");
                    event.put("h", name);
                    event.put("boot_ns", Boot.now());
                    write(event);
                    last[0] = now;
                }
            }
            if (!state.isFinal()) {
                watch(name, handle, grant, state, last);
            }
        });
    }

    /** Asks the library's check. */
    private static Map<String, Object> stateOf(Handle handle) {
        String stamp = Boot.now();
        String state = "held";
        for (Grant grant : handle.grants) {
            try {
                grant.check();
            } catch (LockLostException e) {
                return History.object("state", "lost", "reason", reason(e), "name", e.name(), "boot_ns", stamp);
            } catch (HoldException e) {
                if (e.kind() == ErrorKind.RELEASED) {
                    state = "released";
                } else if (state.equals("held")) {
                    state = "suspended";
                }
            }
        }
        return History.object("state", state, "boot_ns", stamp);
    }

    private static String reason(LockLostException lost) {
        return lost.reason().name().toLowerCase(Locale.ROOT);
    }

    static Throwable unwrapped(Throwable failure) {
        return failure instanceof CompletionException && failure.getCause() != null ? unwrapped(failure.getCause()) : failure;
    }

    /** Returns an error as the runner reads it. */
    private static Map<String, Object> describe(Throwable raised) {
        Throwable failure = unwrapped(raised);
        Map<String, Object> described = History.object("kind", "refused", "message", String.valueOf(failure.getMessage()));
        if (failure instanceof Fault fault) {
            described.put("kind", fault.kind);
        } else if (failure instanceof CancellationException) {
            described.put("kind", "cancelled");
        } else if (failure instanceof Fault.OfBody own) {
            described.put("kind", "body");
            described.put("body", own.getMessage());
        } else if (failure instanceof LockLostException lost) {
            described.put("kind", "lost");
            described.put("reason", reason(lost));
            described.put("name", lost.name());
            for (Throwable suppressed : lost.getSuppressed()) {
                if (suppressed instanceof Fault.OfBody own) {
                    described.put("body", own.getMessage());
                }
            }
        } else if (failure instanceof LeaseholdException error) {
            describe(error, described);
        } else {
            described.put("kind", "internal");
            described.put("message", failure.toString());
        }
        return described;
    }

    private static void describe(LeaseholdException error, Map<String, Object> described) {
        switch (error.kind()) {
            case RELEASED -> {
                described.put("kind", "lost");
                described.put("reason", "released");
            }
            case TIMED_OUT -> described.put("kind", "timeout");
            default -> described.put("kind", error.kind().name().toLowerCase(Locale.ROOT));
        }
        error.failure().ifPresent(answer -> {
            described.put("reason", answer.reason());
            if (!answer.retryAfter().isZero()) {
                described.put("retry_after_ms", answer.retryAfter().toMillis());
            }
        });
        if (error instanceof AcquireException acquire) {
            acquire.limit().ifPresent(limit -> described.put("limit", limit));
        }
    }

    private void reply(long id, Map<String, Object> ok, Throwable failure) {
        write(failure == null ? History.object("id", id, "ok", ok) : History.object("id", id, "err", describe(failure)));
    }

    private void write(Map<String, Object> line) {
        String encoded = GSON.toJson(line);
        synchronized (output) {
            output.print(encoded + "\n");
            output.flush();
        }
    }
}
