package dev.leasehold.internal.machine;

import static dev.leasehold.internal.machine.Rig.INTERVAL;
import static dev.leasehold.internal.machine.Rig.NO_WAIT;
import static dev.leasehold.internal.machine.Rig.acks;
import static dev.leasehold.internal.machine.Rig.asksToMove;
import static dev.leasehold.internal.machine.Rig.at;
import static dev.leasehold.internal.machine.Rig.drains;
import static dev.leasehold.internal.machine.Rig.granted;
import static dev.leasehold.internal.machine.Rig.grants;
import static dev.leasehold.internal.machine.Rig.notGrantedAs;
import static dev.leasehold.internal.machine.Rig.opensInPlace;
import static dev.leasehold.internal.machine.Rig.opensWith;
import static dev.leasehold.internal.machine.Rig.queuedAs;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.internal.machine.Machine.StreamEnd;
import dev.leasehold.v1.AcquireOutcome;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Sessions whose coordinator asks them to move, and goes on serving. */
class AskedToMoveTest {
    @Test
    void aSessionTakesItsHoldsAndPlacesAlong() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.message(0, 3, queuedAs("ticket"));
        r.want(r.message(10, 0, asksToMove()), "");
        assertTrue(r.m.wantsConnection() && !r.m.isDraining());
        r.want(r.tick(10), "");
        r.want(r.connect(20), "open");
        assertEquals(2, r.resumes.size());
        var opened = opensInPlace(r.next(1)).toBuilder().addAllResumed(opensWith(r.next()).getResumedList());
        r.want(r.message(30, 1, opened.build()), "close", "opened");
        r.wantState(30, 0, "held");
        assertFalse(r.m.wantsConnection());
    }

    @Test
    void aSessionThatHasNothingMoves() {
        Rig r = Rig.open();
        r.want(r.message(10, 0, asksToMove()), "");
        assertTrue(r.m.wantsConnection());
        r.want(r.connect(20), "open");
        r.want(r.message(30, 1, opensWith()), "close", "opened");
    }

    @Test
    void acquiresAreSentUntilThereIsAnotherStream() {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.message(10, 0, asksToMove());
        r.want(r.acquire(20, 2, NO_WAIT), "acquire 3 lock2");
        // What is on its way is waited for, and nothing is added to it.
        r.want(r.connect(30), "");
        r.want(r.acquire(40, 3, NO_WAIT), "");
        r.want(r.release(40, 0, 80), "");
        r.want(r.messageOn(50, former, 3, grants(0, granted(2, 2, 1))), "acquired 2", "open");
        r.want(r.message(60, 1, opensWith(r.next())), "close", "opened", "release 2 of 1", "acquire 3 lock3");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aSessionThatCantMoveStaysAndTriesAgainAfterTenSeconds(boolean isAskedAgain) {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.message(10, 0, asksToMove());
        r.want(r.connect(20), "open");
        r.want(r.acquire(30, 2, NO_WAIT), "");
        r.want(r.attemptFailed(40, Fate.DECLINED), "acquire 3 lock2");
        r.stream = former;
        assertTrue(r.m.staysAfterRound(at(50)));
        assertFalse(r.m.wantsConnection());
        r.want(r.grant(60, 3, 2, 2, 0), "acquired 2");
        r.want(r.acquire(70, 3, NO_WAIT), "acquire 4 lock3");
        if (isAskedAgain) {
            r.message(80, 0, asksToMove());
            r.m.askToMove();
        }
        for (int sequence = 1; sequence <= 3; sequence++) {
            r.want(r.tick(sequence * INTERVAL), "heartbeat " + sequence);
            r.want(r.message(sequence * INTERVAL, 0, acks(sequence, 9_900)), "");
        }
        r.tick(10_049);
        r.wantAlarm(10_050);
        assertFalse(r.m.wantsConnection());
        r.tick(10_050);
        r.wantState(10_050, 0, "held");
        assertTrue(r.m.wantsConnection());
        r.connect(10_060);
        r.tick(11_060);
        String seen = r.message(11_070, 1, opensWith(r.next(0), r.next(1)));
        assertTrue(seen.matches(".*close; opened; acquire \\d+ lock3"), seen);
    }

    @Test
    void aDrainAfterwardsIsLeftAtOnce() {
        Rig r = Rig.holding(0);
        r.message(10, 0, asksToMove());
        assertTrue(r.m.staysAfterRound(at(20)));
        r.want(r.message(30, 0, drains()), "draining");
        r.want(r.acquire(30, 2, NO_WAIT), "");
        assertTrue(r.m.wantsConnection());
        assertFalse(r.m.staysAfterRound(at(40)));
        r.want(r.tick(40), "heartbeat 1");
    }

    @Test
    void silenceAfterwardsIsLeftAtOnce() {
        Rig r = Rig.holding(0);
        r.message(10, 0, asksToMove());
        assertTrue(r.m.staysAfterRound(at(20)));
        r.tick(INTERVAL);
        r.tick(5_000);
        assertTrue(r.m.wantsConnection());
        assertFalse(r.m.staysAfterRound(at(5_010)));
    }

    @Test
    void aCoordinatorThatDrainsAndStopsDuringTheAttemptCostsNoHold() {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.message(10, 0, asksToMove());
        r.want(r.connect(20), "open");
        r.want(r.messageOn(30, former, 0, drains()), "");
        assertEquals(StreamEnd.STOPPED, r.m.streamEndedBy(at(40), former, null));
        r.wantState(40, 0, "held");
        r.want(r.message(50, 1, opensWith(r.next())), "opened");
        r.wantState(50, 0, "held");
    }

    @Test
    void aStreamThatEndsAfterItAskedAgainIsNoStop() {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.message(10, 0, asksToMove());
        r.want(r.connect(20), "open");
        r.messageOn(30, former, 0, asksToMove());
        assertEquals(StreamEnd.LEFT, r.m.streamEndedBy(at(40), former, null));
        r.wantState(40, 0, "session_ended");
    }

    @Test
    void aCancelledWaitIsNotPutOutByADrain() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.message(10, 0, asksToMove());
        r.want(r.message(20, 3, notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_CANCELLED)), "failed 2 refused");
    }
}
