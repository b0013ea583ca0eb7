package dev.leasehold;

import dev.leasehold.internal.BootClock;
import dev.leasehold.internal.Calls;
import dev.leasehold.internal.SessionDriver;
import dev.leasehold.internal.machine.Moments;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * Lease stream, through which a client holds locks for as long as the stream lives. All methods may be called from any thread.
 *
 * <p>When its coordinator is about to go away, or falls silent, the session moves to another one, and takes along what it holds and waits
 * for. When its coordinator asks it to move and goes on serving, it stays where it is until another stream is open. When its coordinator
 * stops before the session has moved, holds stay held until their own deadlines, and the session resumes them on the first
 * coordinator that it reaches. When its stream breaks, every lock of it is lost at once, or suspended if it has a grace, and the session is
 * made anew in the background; acquires that were waiting go on waiting, in their old place where that still stands. Locks are never
 * re-taken by themselves.
 */
public final class Session extends Entry implements AutoCloseable {
    private final SessionDriver driver;
    private final Candidacies candidacies = new Candidacies();

    Session(SessionDriver driver, Calls calls) {
        super(calls);
        this.driver = driver;
    }

    @Override
    SessionDriver driver() {
        return driver;
    }

    @Override
    Candidacies candidacies() {
        return candidacies;
    }

    /** Returns the description of the session; empty while it is not open. */
    public Optional<SessionInfo> info() {
        return Optional.ofNullable(driver.info());
    }

    /**
     * Returns the time left until the coordinator goes away, if it has said that it will. Nothing needs to be done about it: the session moves
     * to another coordinator by itself, with all that it holds and waits for.
     */
    public Optional<Duration> drainsIn() {
        long drains = driver.drains();
        return drains == Moments.NEVER ? Optional.empty() : Optional.of(Duration.ofNanos(Moments.since(drains, BootClock.now())));
    }

    boolean hasEnded() {
        return driver.ended().isDone();
    }

    /** Waits until it has been open, or throws why it can't be opened. */
    void awaitOpen() throws InterruptedException {
        Waits.interruptibly(CompletableFuture.anyOf(driver.opened(), driver.ended()));
        if (!driver.opened().isDone()) {
            throw driver.failed() == null
                    ? new LeaseholdException(ErrorKind.CLOSED, "the session was closed", null)
                    : new SessionOpenException(driver.failed());
        }
    }

    /** Begins to close it; what is returned is completed when it has ended. */
    CompletableFuture<Void> beginClose() {
        driver.close();
        return driver.ended();
    }

    /**
     * Closes the session: its holds are lost first (with {@link LostReason#SESSION_CLOSED}) and its acquires fail with {@link
     * ErrorKind#CLOSED}, then the coordinator releases everything and hands it to the next waiters. Returns when it has confirmed that, or
     * after a few seconds. Closing it again does nothing.
     */
    @Override
    public void close() {
        Waits.uninterruptibly(beginClose());
    }
}
