package dev.leasehold.spring.integration;

import dev.leasehold.Election;
import dev.leasehold.ErrorKind;
import dev.leasehold.HoldState;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LeaseholdException;
import dev.leasehold.LockLostException;
import dev.leasehold.Term;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.ApplicationEventPublisherAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.leader.event.DefaultLeaderEventPublisher;
import org.springframework.integration.leader.event.LeaderEventPublisher;

/**
 * Leader initiator of Spring Integration: campaigns for an election from the start of the application to its end, and tells its candidate
 * and the application's listeners when it is granted the leadership and when that is revoked. The election has the name of the candidate's
 * role, and its value is the candidate's id.
 *
 * <p>The leadership is revoked as soon as it is lost or suspended, or when the candidate yields or the application stops. {@link
 * Candidate#onGranted} is interrupted then if it still runs. Nobody else is elected because this candidate yields or stops before {@code
 * onGranted} and {@link Candidate#onRevoked} have returned. A leadership that was suspended is granted once more if it has been resumed.
 */
public final class LeaseholdLeaderInitiator implements SmartLifecycle, DisposableBean, ApplicationEventPublisherAware {
    /** Phase in which it starts and stops: late and early, as other initiators do. */
    public static final int DEFAULT_PHASE = Integer.MAX_VALUE - 1000;

    /** Shortest and longest pause after a campaign or a term that failed or ended at once. */
    private static final Duration SHORTEST_PAUSE = Duration.ofMillis(100);

    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);

    private static final System.Logger LOG = System.getLogger("dev.leasehold");

    private final Election election;
    private final Candidate candidate;
    private LeaderEventPublisher events = new DefaultLeaderEventPublisher();
    private boolean isAutoStartup = true;
    private int phase = DEFAULT_PHASE;
    /** The campaign; null while it does not run. */
    private Campaign campaign;
    /** End of the last campaign that was stopped. */
    private CompletableFuture<Void> stopped = CompletableFuture.completedFuture(null);

    /** Makes an initiator whose candidate does nothing: what leads listens to the events. */
    public LeaseholdLeaderInitiator(LeaseholdClient client) {
        this(client, new DefaultCandidate());
    }

    /** Makes an initiator for this candidate. */
    public LeaseholdLeaderInitiator(LeaseholdClient client, Candidate candidate) {
        this.election =
                client.election(candidate.getRole()).value(candidate.getId().getBytes(StandardCharsets.UTF_8));
        this.candidate = candidate;
    }

    /** Sets the publisher of events. Default: one for the application's context. */
    public void setLeaderEventPublisher(LeaderEventPublisher publisher) {
        events = publisher;
    }

    @Override
    public void setApplicationEventPublisher(ApplicationEventPublisher publisher) {
        if (events instanceof DefaultLeaderEventPublisher own) {
            own.setApplicationEventPublisher(publisher);
        }
    }

    /** Sets whether it starts with the application. Default: true. */
    public void setAutoStartup(boolean starts) {
        isAutoStartup = starts;
    }

    @Override
    public boolean isAutoStartup() {
        return isAutoStartup;
    }

    /** Sets the phase in which it starts and stops. Default: {@link #DEFAULT_PHASE}. */
    public void setPhase(int when) {
        phase = when;
    }

    @Override
    public int getPhase() {
        return phase;
    }

    /** Returns the context of the leadership; of none, if this process does not lead at present. */
    public Context getContext() {
        Campaign running = running();
        Leadership current = running == null ? null : running.leadership;
        return current == null ? () -> false : current;
    }

    private synchronized Campaign running() {
        return campaign;
    }

    /** Begins to campaign. Does nothing if it does already. */
    @Override
    public synchronized void start() {
        if (campaign == null) {
            campaign = new Campaign();
            campaign.thread.start();
        }
    }

    @Override
    public boolean isRunning() {
        return running() != null;
    }

    /** Ends the campaign, and waits until the candidate has been told and the leadership has been given up. */
    @Override
    public void stop() {
        beginStop().join();
    }

    @Override
    public void stop(Runnable callback) {
        beginStop().thenRun(callback);
    }

    private synchronized CompletableFuture<Void> beginStop() {
        if (campaign != null) {
            stopped = campaign.stop();
            campaign = null;
        }
        return stopped;
    }

    @Override
    public void destroy() {
        stop();
    }

    /** Campaign from a start to a stop, on a thread of its own. */
    private final class Campaign {
        private final Thread thread = new Thread(this::run, "leasehold-leader-" + candidate.getRole());
        private final CompletableFuture<Void> stopping = new CompletableFuture<>();
        private final CompletableFuture<Void> ended = new CompletableFuture<>();
        private volatile Leadership leadership;

        private CompletableFuture<Void> stop() {
            stopping.complete(null);
            thread.interrupt();
            return ended;
        }

        private void run() {
            try {
                Duration pause = SHORTEST_PAUSE;
                while (!stopping.isDone()) {
                    long begunAt = System.nanoTime();
                    boolean goesOn = campaignOnce();
                    if (!goesOn) {
                        return;
                    }
                    // What fails or ends at once must not become a loop.
                    boolean isQuick = System.nanoTime() - begunAt < LONGEST_PAUSE.toNanos();
                    if (isQuick) {
                        await(pause);
                    }
                    Duration longer = pause.multipliedBy(2);
                    pause = !isQuick ? SHORTEST_PAUSE : longer.compareTo(LONGEST_PAUSE) < 0 ? longer : LONGEST_PAUSE;
                }
            } finally {
                ended.complete(null);
            }
        }

        /** Campaigns, and leads for a term. Returns whether there is another campaign, if this process does not stop. */
        private boolean campaignOnce() {
            try {
                election.campaign().run(this::lead);
            } catch (InterruptedException e) {
                LOG.log(System.Logger.Level.DEBUG, "the candidate of election \"{0}\" stops", election.name());
            } catch (LockLostException e) {
                LOG.log(
                        System.Logger.Level.INFO,
                        "lost the leadership of election \"" + election.name() + "\": " + e.reason().description() + "; campaigning again");
            } catch (LeaseholdException e) {
                if (e.kind() == ErrorKind.CLOSED) {
                    LOG.log(System.Logger.Level.DEBUG, "the client of election \"{0}\" is closed", election.name());
                    return false;
                }
                LOG.log(System.Logger.Level.WARNING, "the campaign failed, and is repeated: " + e.getMessage());
            }
            return true;
        }

        /** Waits for this long, or until it stops. */
        private void await(Duration pause) {
            try {
                stopping.get(pause.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException | InterruptedException | ExecutionException e) {
                // The campaign goes on, unless it stops.
            }
        }

        private void lead(Term term) {
            do {
                Leadership granted = new Leadership(term, stopping);
                leadership = granted;
                granted.run();
                leadership = null;
                if (granted.hasYielded()) {
                    return;
                }
            } while (!stopping.isDone() && isResumed(term));
        }

        /** Waits while the term is suspended. Returns whether it is held again. */
        private boolean isResumed(Term term) {
            CompletableFuture.anyOf(term.changeFrom(HoldState.SUSPENDED), stopping).join();
            return term.isHeld() && !stopping.isDone();
        }
    }

    /** Leadership from a grant to its revocation. */
    private final class Leadership implements Context {
        private final Term term;
        private final CompletableFuture<Void> yielded = new CompletableFuture<>();
        private final CompletableFuture<Object> over;

        private Leadership(Term term, CompletableFuture<Void> stopping) {
            this.term = term;
            this.over = CompletableFuture.anyOf(term.changeFrom(HoldState.HELD), yielded, stopping);
            // A close of the client.
            term.onStop(this::yield);
        }

        @Override
        public boolean isLeader() {
            return !over.isDone() && term.isHeld();
        }

        /** Gives the leadership up. It goes to another candidate, if there is one. */
        @Override
        public void yield() {
            yielded.complete(null);
        }

        @Override
        public String getRole() {
            return candidate.getRole();
        }

        private boolean hasYielded() {
            return yielded.isDone();
        }

        /** Runs the candidate until the leadership is over. Whatever interrupts this thread completes {@code over} too. */
        private void run() {
            CompletableFuture<Void> granted = new CompletableFuture<>();
            Thread work = new Thread(() -> grant(granted), Thread.currentThread().getName() + "-granted");
            work.start();
            over.join();
            if (!granted.isDone()) {
                work.interrupt();
            }
            granted.join();
            // What ended the leadership may yet interrupt this thread, and the candidate may have to wait for its work.
            String name = Thread.currentThread().getName() + "-revoked";
            CompletableFuture.runAsync(this::revoke, task -> new Thread(task, name).start()).join();
        }

        private void grant(CompletableFuture<Void> done) {
            try {
                events.publishOnGranted(LeaseholdLeaderInitiator.this, this, getRole());
                candidate.onGranted(this);
            } catch (InterruptedException e) {
                LOG.log(System.Logger.Level.DEBUG, "the leader of election \"{0}\" was interrupted", election.name());
            } catch (Throwable e) {
                LOG.log(System.Logger.Level.WARNING, "the leader of election \"" + election.name() + "\" failed; yielding", e);
                this.yield();
            } finally {
                done.complete(null);
            }
        }

        private void revoke() {
            try {
                candidate.onRevoked(this);
                events.publishOnRevoked(LeaseholdLeaderInitiator.this, this, getRole());
            } catch (RuntimeException e) {
                LOG.log(System.Logger.Level.WARNING, "the candidate of election \"" + election.name() + "\" failed to be revoked", e);
            }
        }
    }
}
