package dev.leasehold;

import dev.leasehold.Candidacies.Candidacy;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.Checks;
import dev.leasehold.internal.Retrying;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.Threads;
import dev.leasehold.internal.machine.Output.Granted;
import dev.leasehold.v1.ElectionServiceGrpc;
import dev.leasehold.v1.LeaderRequest;
import dev.leasehold.v1.LeaderResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Election: one of several candidates leads, all can observe it, and the next one leads as soon as it ends. Its settings return a changed
 * copy. It is the exclusive lock of that name: the leader is its holder, the candidates are its waiters in order, and the value is that of
 * the hold.
 */
public final class Election {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    private final Acquiring acquiring;
    private final Supplier<Candidacies> candidacies;
    private final Calls calls;

    Election(Acquiring acquiring, Supplier<Candidacies> candidacies, Calls calls) {
        this.acquiring = acquiring;
        this.candidacies = candidacies;
        this.calls = calls;
    }

    /** Returns the name. */
    public String name() {
        return acquiring.label();
    }

    /** Sets a text in UTF-8, as {@link #value(byte[])} does. */
    public Election value(String value) {
        return value(Grant.utf8(value));
    }

    /** Sets what observers see of this candidate when it leads, for example its address: at most 4 KiB. Default: empty. */
    public Election value(byte[] value) {
        return new Election(acquiring.value(value), candidacies, calls);
    }

    /**
     * Sets the longest wait to be elected: at most 24 h; zero means not to wait. Default: as long as it takes, over reconnects too, until the
     * thread is interrupted or the future cancelled.
     */
    public Election waitAtMost(Duration wait) {
        return new Election(acquiring.longestWait(wait), candidacies, calls);
    }

    /**
     * Sets the time for which no candidate is elected after a leadership that ended uncleanly, that is in any way other than by resigning:
     * zero to the maximum TTL. Default: zero.
     */
    public Election lockDelay(Duration delay) {
        return new Election(acquiring.lockDelay(delay), candidacies, calls);
    }

    /** Bounds the time for which this candidate leads without being elected anew; see {@link LockRequest#maxHold}. */
    public Election maxHold(Duration bound) {
        return new Election(acquiring.maxHold(bound), candidacies, calls);
    }

    /**
     * Waits to be elected. Fails as {@link LockRequest#acquire()} does, and with {@link ErrorKind#ALREADY_CANDIDATE} if this session campaigns
     * for the election already, or leads it: it would wait behind itself. Use {@link Term#proclaim} to change the value, and another session
     * for another candidate.
     *
     * @throws AcquireException if this process is not elected
     * @throws InterruptedException if the thread is interrupted before that
     */
    public Term campaign() throws InterruptedException {
        Candidacy candidacy = begin();
        try {
            // An actor of its own, since a candidate that lost its term may campaign while its former hold is still there, closed for a
            // lock-delay.
            Actor actor = new Actor();
            return acquiring.actor(actor).acquire(elected(candidacy, actor));
        } catch (Throwable e) {
            candidacy.end();
            throw e;
        }
    }

    /** Campaigns without waiting. Cancelling the future ends the campaign; see {@link LockRequest#acquireAsync()}. */
    public CompletableFuture<Term> campaignAsync() {
        Candidacy candidacy;
        try {
            candidacy = begin();
        } catch (LeaseholdException e) {
            return CompletableFuture.failedFuture(e);
        }
        Actor actor = new Actor();
        CompletableFuture<Term> result = acquiring.actor(actor).acquireAsync(elected(candidacy, actor));
        result.whenComplete((term, failure) -> {
            // Completed by the program, what was granted is given back.
            if (failure != null || term == null) {
                candidacy.end();
            }
        });
        return result;
    }

    private Candidacy begin() {
        acquiring.check();
        Candidacy begun;
        try {
            begun = candidacies.get().begin(name());
        } catch (LeaseholdException e) {
            throw new AcquireException(e.kind(), name(), e.failure);
        }
        if (begun == null) {
            throw new AcquireException(ErrorKind.ALREADY_CANDIDATE, name(), null);
        }
        return begun;
    }

    private BiFunction<SessionDriver, List<Granted>, Term> elected(Candidacy candidacy, Actor actor) {
        return (session, granted) -> {
            candidacy.elected(granted.get(0).lease());
            return new Term(session, granted.get(0), actor.number(), candidacy::end);
        };
    }

    /**
     * Campaigns, and runs the work on this thread while this process leads; again and again, until the thread is interrupted. The work is
     * interrupted if the leadership is lost, and waited for before this process resigns or campaigns again, so that nobody else leads because
     * of this process while its work still runs.
     *
     * <p>While the leadership is only suspended, the work goes on, and {@link Term#check} tells it not to act. If the leadership moves to
     * another coordinator, the work goes on too.
     *
     * <p>A loss of the leadership never ends this method, whatever the work throws then, and neither does a failure that may pass: no
     * connection, a coordinator or a store that does not serve at present, a limit that is reached. Both are logged. If the work returns
     * while it leads, this process resigns, and campaigns again behind the others.
     *
     * @throws E what the work throws while it leads, after resigning
     * @throws AcquireException if a campaign fails in a way that another attempt can't mend, or with {@link ErrorKind#TIMED_OUT} if there is
     *     a {@link #waitAtMost}
     * @throws LeaseholdException with {@link ErrorKind#CLOSED} when the client or the session is closed, which interrupts the work and waits
     *     for it
     * @throws InterruptedException when the thread is interrupted
     */
    public <E extends Exception> void run(LockBody.Action<? super Term, E> work) throws E, InterruptedException {
        runUntil(() -> false, Checks.given(work, "work"));
    }

    /** Runs the work as {@link #run} does, and looks before each campaign whether there shall be another. */
    private <E extends Exception> void runUntil(BooleanSupplier isOver, LockBody.Action<? super Term, E> work) throws E, InterruptedException {
        Retrying retrying = new Retrying(calls.settings());
        int failures = 0;
        while (!isOver.getAsBoolean()) {
            Term term;
            try {
                term = campaign();
            } catch (AcquireException e) {
                if (!mayPass(e)) {
                    throw e;
                }
                // The first of a row as a warning, since no caller sees the error and it may go on for ever.
                failures++;
                LOG.log(
                        failures == 1 ? System.Logger.Level.WARNING : System.Logger.Level.DEBUG,
                        "a campaign for election \"" + name() + "\" failed; repeating it until it succeeds: " + e.getMessage());
                retrying.pause(e.failure);
                continue;
            }
            failures = 0;
            retrying.opened();
            try {
                term.run(work);
            } catch (LockLostException e) {
                // The loss of another lock is the work's own failure.
                if (!e.name().equals(term.name()) || e.token() != term.token()) {
                    throw e;
                }
                LOG.log(
                        System.Logger.Level.INFO,
                        "lost the leadership of election \"" + name() + "\": " + e.reason().description() + "; campaigning again");
            }
            // Terms that end as soon as they begin must not become a loop.
            retrying.pauseUnlessLived();
        }
    }

    /**
     * Campaigns and leads as {@link #run} does, on a thread of its own. The work begins there, and goes on until the stage that it returns is
     * done. It learns of a loss by {@link Term#onLost}, and by {@link Term#onStop} that this future was cancelled or completed by
     * the program, which ends the campaign; it is waited for before this process resigns.
     */
    public CompletableFuture<Void> runAsync(Function<? super Term, ? extends CompletionStage<?>> work) {
        Checks.given(work, "work");
        CompletableFuture<Void> result = new CompletableFuture<>();
        AtomicReference<Term> leading = new AtomicReference<>();
        Thread runner = Threads.start("leasehold-election", () -> {
            try {
                // The interrupt of a cancellation that comes with a loss is taken for that of the loss.
                runUntil(result::isDone, term -> {
                    leading.set(term);
                    if (result.isDone()) {
                        term.requestStop(StopReason.CANCELLED);
                    }
                    try {
                        Waits.uninterruptibly(work.apply(term).toCompletableFuture());
                    } finally {
                        leading.set(null);
                    }
                });
            } catch (InterruptedException e) {
                result.cancel(false);
            } catch (Throwable e) {
                result.completeExceptionally(e);
            }
        });
        result.whenComplete((none, failure) -> {
            Term term = leading.get();
            if (term != null) {
                term.requestStop(StopReason.CANCELLED);
            }
            // Not if it has completed the future itself.
            if (Thread.currentThread() != runner) {
                runner.interrupt();
            }
        });
        return result;
    }

    /** Returns whether a campaign that failed is worth repeating. Another leader is an answer, not a failure. */
    private static boolean mayPass(AcquireException failed) {
        return switch (failed.kind()) {
            case BUSY, TIMED_OUT -> false;
            // An operator who ends the wait of a candidate sends it to the end of the queue, and does not end its program.
            case FORCE_RELEASED -> true;
            default -> failed.isRetryable();
        };
    }

    /**
     * Returns the present leader; empty while there is none, also before the first campaign.
     *
     * @throws CallException if no coordinator answers, or if it refuses
     */
    public Optional<Leader> leader() {
        CallException.check(Checks.name(name()));
        LeaderRequest request = LeaderRequest.newBuilder().setElection(name()).build();
        LeaderResponse answer = CallException.unwrapping(
                () -> calls.call(Calls.Rule.FREELY, ElectionServiceGrpc.getLeaderMethod(), request));
        return answer.hasLeader() ? Optional.of(Leader.of(answer.getLeader())) : Optional.empty();
    }

    /**
     * Observes the election until the observer is closed: tells the present leader, then every change, including to no leader. It never tells
     * the same term with the same value twice in a row, and never a leader with a smaller token than an earlier one. A listener that is slow
     * gets the newest state, and that others were skipped. A leader that is resumed on another session stays in its term, which is no change.
     *
     * <p>If the connection breaks or the coordinator goes away, the observer asks again, for as long as it takes; the next change then says
     * that it may have skipped some. The listener is called on the client's executor, for one change after the other; what it throws is logged.
     *
     * @param listener is told the changes
     * @param failed is told why the observer ended, if a coordinator refuses for good
     */
    public Observer observe(Consumer<LeaderChange> listener, Consumer<LeaseholdException> failed) {
        CallException.check(Checks.name(name()));
        return new Observer(calls, name(), Checks.given(listener, "listener"), Checks.given(failed, "failed"));
    }
}
