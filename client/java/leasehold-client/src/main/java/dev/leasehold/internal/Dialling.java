package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.internal.Endpoint.Candidate;
import dev.leasehold.internal.machine.ConnectFailure;
import dev.leasehold.internal.machine.Moments;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Attempts of a session to reach a coordinator, in rounds that try each once. A round has a thread of its own; the session's mutex guards
 * the fields.
 */
final class Dialling {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    /** A round that goes on. */
    private static final class Round {
        /** Completed to end it. */
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        /** Completed to end its pause. */
        final CompletableFuture<Void> hurried = new CompletableFuture<>();

        boolean isEnded() {
            return ended.isDone();
        }
    }

    private final SessionDriver session;
    /** The round that goes on; null if none does. */
    private Round round;
    /** Pause to be made before the next round, in nanoseconds. */
    private long pause;

    Dialling(SessionDriver session) {
        this.session = session;
    }

    /** Begins a round if there is to be another connection, and ends it if there is not. */
    void beginOrEnd(long now) {
        boolean isWanted = session.machine.wantsConnection();
        if (round == null && isWanted) {
            if (session.current != null) {
                session.route.failed(session.current.candidate, now);
            }
            Round begun = new Round();
            long before = pause;
            round = begun;
            pause = 0;
            Threads.start("leasehold-dial", () -> run(begun, before));
        } else if (round != null && !isWanted && !session.machine.hasNext()) {
            // The machine sees to the attempts that it knows.
            end();
        }
    }

    /** Ends the pause of the round that goes on. */
    void hurry() {
        if (round != null) {
            round.hurried.complete(null);
        }
    }

    void end() {
        if (round != null) {
            round.ended.complete(null);
        }
    }

    void opened() {
        pause = 0;
    }

    /** Notes that the stream has ended on which the session was open. */
    void streamEnded(long now) {
        if (round != null) {
            return;
        }
        // Another one may be there at once. What ended as soon as it was open is paused for all the same.
        boolean isElsewhere = session.route.isSeveral() && session.pauses.hasLived(now);
        long next = session.pauses.pause(now);
        pause = isElsewhere ? 0 : next;
    }

    private void run(Round begun, long before) {
        List<ConnectFailure> failures = new ArrayList<>();
        boolean[] isOpen = new boolean[1];
        try {
            isOpen[0] = attempts(begun, before, failures);
        } catch (InterruptedException e) {
            // Nobody interrupts this thread; the next round goes on if somebody did.
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "an attempt to connect failed unexpectedly", e);
        }
        session.input(now -> {
            begun.ended.complete(null);
            round = null;
            if (session.isOver()) {
                return;
            }
            if (isOpen[0] && session.current == null) {
                // It has ended as soon as it was open.
                pause = session.pauses.pause(now);
            } else if (!isOpen[0] && session.machine.wantsConnection()) {
                roundFailed(now, failures);
            }
        });
    }

    /** Handles a round in which no coordinator opened the session. */
    private void roundFailed(long now, List<ConnectFailure> failures) {
        if (failures.isEmpty()) {
            return;
        }
        // An answer says more than the lack of one.
        Comparator<ConnectFailure> answers = Comparator.comparing(ConnectFailure::isAnswer);
        Comparator<ConnectFailure> retries = Comparator.comparing(ConnectFailure::isRetryable);
        if (session.mustEndAfter(now, best(failures, answers.thenComparing(retries)))) {
            return;
        }
        // The session waits as long as one coordinator may serve later.
        ConnectFailure leastFinal = best(failures, retries.thenComparing(answers));
        if (session.machine.staysAfterRound(now)) {
            if (session.current.credentials == session.settings.credentials().version()) {
                LOG.log(System.Logger.Level.INFO, "no coordinator took the session over, and it stays: {0}", leastFinal);
            } else {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "newer credentials are not accepted, and those before stay in use: {0}",
                        leastFinal);
            }
            return;
        }
        LOG.log(System.Logger.Level.DEBUG, "no coordinator opened the session: {0}", leastFinal);
        session.machine.connectFailed(now, leastFinal);
        long asked = leastFinal.failure() == null ? 0 : Moments.nanos(leastFinal.failure().retryAfter());
        pause = session.pauses.pauseAsAsked(now, asked);
        if (asked == 0 && session.machine.isOrphaned(now)) {
            // While what a stopped coordinator left can still be resumed. Partly at random, since all of its clients come back at once.
            pause = Math.min(pause, 250 * Moments.MILLIS + Pauses.jitter(250 * Moments.MILLIS));
        }
    }

    /** Returns the best by this order; the last of several. */
    private static ConnectFailure best(List<ConnectFailure> failures, Comparator<ConnectFailure> order) {
        ConnectFailure best = failures.get(0);
        for (ConnectFailure failure : failures) {
            if (order.compare(failure, best) >= 0) {
                best = failure;
            }
        }
        return best;
    }

    /** Tries each coordinator once. Returns whether the session is open on one; otherwise adds why not. */
    private boolean attempts(Round begun, long before, List<ConnectFailure> failures) throws InterruptedException {
        if (before > 0) {
            await(CompletableFuture.anyOf(begun.ended, begun.hurried), before);
            if (begun.isEnded()) {
                return false;
            }
        }
        List<Candidate> found = new ArrayList<>();
        for (Endpoint endpoint : session.settings.endpoints()) {
            endpoint.resolve(found, failures);
        }
        List<Candidate> candidates = new ArrayList<>();
        session.input(now -> candidates.addAll(session.route.round(found, now)));
        for (Candidate candidate : candidates) {
            ConnectFailure failure = attempt(begun, candidate);
            if (failure == null) {
                return true;
            }
            if (begun.isEnded()) {
                return false;
            }
            LOG.log(System.Logger.Level.DEBUG, "{0}", failure);
            session.input(now -> session.route.failed(candidate, now));
            failures.add(failure);
        }
        return false;
    }

    /** Waits for the future; returns false if it takes longer than this many nanoseconds. */
    private static boolean await(CompletableFuture<?> future, long nanos) throws InterruptedException {
        try {
            future.get(nanos, TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Tries to open the session at one coordinator. Returns null once it is open there. */
    private ConnectFailure attempt(Round begun, Candidate to) throws InterruptedException {
        String url = to.endpoint().url();
        long[] limit = new long[1];
        session.input(now -> limit[0] = session.machine.attemptLimit(now));
        long credentials = session.settings.credentials().version();
        // Not probed: the session misses answers to its heartbeats, and lives as long as its TTL says.
        ManagedChannel channel = Transport.builder(session.settings, to.endpoint(), to.address())
                .directExecutor()
                .build();
        long startedAt = System.nanoTime();
        Failure failure = Transport.ready(channel, to, limit[0], begun.ended);
        if (failure != null) {
            channel.shutdownNow();
            boolean isLate = System.nanoTime() - startedAt >= limit[0];
            return isLate ? ConnectFailure.timedOut(url, limit[0]) : ConnectFailure.of(url, failure);
        }
        Connection made = new Connection(session, to, credentials, channel);
        Metadata headers = session.settings.credentials().headers();
        boolean[] isAdopted = new boolean[1];
        session.input(now -> {
            // What there is is not touched before somebody is there to take it over.
            limit[0] = session.machine.isMoving() || session.machine.isOrphaned(now) ? session.machine.attemptLimit(now) : 0;
            isAdopted[0] = limit[0] == 0 && session.adopt(now, made);
            if (limit[0] > 0 || isAdopted[0]) {
                made.start(headers);
            }
        });
        if (limit[0] > 0) {
            boolean isServed = await(CompletableFuture.anyOf(made.served(), begun.ended), limit[0]);
            ConnectFailure[] refused = new ConnectFailure[1];
            session.input(now -> {
                if (made.end != null && made.end.failure() != null) {
                    refused[0] = ConnectFailure.of(url, made.end.failure());
                } else if (made.end != null) {
                    refused[0] = ConnectFailure.ended(url);
                } else if (!isServed) {
                    refused[0] = ConnectFailure.timedOut(url, limit[0]);
                } else {
                    isAdopted[0] = session.adopt(now, made);
                }
                if (!isAdopted[0]) {
                    made.cut();
                }
            });
            if (refused[0] != null) {
                return refused[0];
            }
        }
        if (!isAdopted[0]) {
            session.input(now -> made.cut());
            return ConnectFailure.ended(url);
        }
        try {
            return made.decided().get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }
}
