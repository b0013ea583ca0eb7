package dev.leasehold.internal.machine;

import static dev.leasehold.internal.machine.Rig.INTERVAL;
import static dev.leasehold.internal.machine.Rig.NO_WAIT;
import static dev.leasehold.internal.machine.Rig.TTL;
import static dev.leasehold.internal.machine.Rig.acks;
import static dev.leasehold.internal.machine.Rig.at;
import static dev.leasehold.internal.machine.Rig.drains;
import static dev.leasehold.internal.machine.Rig.failsWith;
import static dev.leasehold.internal.machine.Rig.loses;
import static dev.leasehold.internal.machine.Rig.notGrantedAs;
import static dev.leasehold.internal.machine.Rig.opensWith;
import static dev.leasehold.internal.machine.Rig.queuedAs;
import static dev.leasehold.internal.machine.Rig.refuses;
import static dev.leasehold.internal.machine.Rig.releasedAs;
import static org.junit.jupiter.api.Assertions.fail;

import com.google.protobuf.ByteString;
import dev.leasehold.internal.machine.Machine.StreamEnd;
import dev.leasehold.v1.AcquireOutcome;
import dev.leasehold.v1.LostReason;
import dev.leasehold.v1.SessionClosed;
import io.grpc.Status;
import org.junit.jupiter.api.Test;

/** Rules that a sequence of inputs and outputs shows. */
class MachineTest {
    @Test
    void deadlinesCountFromWhenTheAcknowledgedHeartbeatWasSent() {
        Rig r = Rig.open();
        r.want(r.acquire(100, 1, NO_WAIT), "acquire 2 lock1");
        r.want(r.grant(200, 2, 1, 1, 0), "acquired 1");
        r.wantDeadline(200, 0, 9_900);
        r.want(r.tick(INTERVAL), "heartbeat 1");
        r.ack(9_000, 1, 9_900);
        r.wantDeadline(9_000, 0, 12_900);
    }

    @Test
    void anAnswerThatComesAtTheDeadlineIsTooLate() {
        Rig r = Rig.holding(0);
        r.tick(INTERVAL);
        // As after a pause: the answer has been lying there, and nobody looked at the clock meanwhile. The coordinator goes on renewing what
        // nobody holds, so it is given back.
        r.want(r.ack(9_900, 1, 9_900), "release 4 of 1");
        r.wantState(9_900, 0, "expired");
    }

    @Test
    void anUnaskedAcknowledgementLengthensTheDeadline() {
        Rig r = Rig.holding(0);
        r.ack(500, 0, 9_950);
        r.wantDeadline(500, 0, 9_950);
    }

    @Test
    void heartbeatsGoOutAtTheirInterval() {
        Rig r = Rig.open();
        r.want(r.tick(INTERVAL-1), "");
        r.want(r.tick(INTERVAL), "heartbeat 1");
        r.want(r.tick(INTERVAL+1), "");
        r.want(r.tick(2*INTERVAL), "heartbeat 2");
    }

    @Test
    void silenceForATTLGivesTheStreamUp() {
        Rig r = Rig.open();
        r.tick(INTERVAL);
        r.ack(3_100, 1, 9_900);
        r.want(r.tick(3_100+TTL-1), "heartbeat 2");
        r.want(r.tick(3_100+TTL), "hang up");
        if (r.m.stream != null) {
            fail("the stream is still there");
        }
    }

    @Test
    void anOpenThatIsNotAnsweredIsGivenUp() {
        Rig r = new Rig(0);
        r.want(r.connect(0), "open");
        r.wantAlarm(5_000);
        r.want(r.tick(5_000), "hang up");
        if (Fate.of(r.connectFailure) != Fate.KEPT) {
            fail("the stream is not kept until another one has opened");
        }
    }

    @Test
    void answersTellBusyFromTimedOutByWhatWasAsked() {
        Rig r = Rig.open();
        r.want(r.acquire(0, 1, 0), "acquire 2 lock1 for 0");
        r.want(r.acquire(0, 2, 50), "acquire 3 lock2 for 50");
        r.want(r.message(1, 3, notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_BUSY)), "failed 2 timed out");
        r.want(r.message(1, 2, notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_BUSY)), "failed 1 busy");
    }

    @Test
    void aFailureConcernsItsRequestAlone() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.want(r.message(2, 3, failsWith(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD")), "failed 2 invalid");
        r.wantState(2, 0, "held");
    }

    @Test
    void unknownMessagesAreIgnored() {
        Rig r = Rig.holding(0);
        r.want(r.unknownMessage(1, 0), "");
        r.want(r.message(2, 77, failsWith(Status.Code.INTERNAL, "NEW")), "");
        r.wantState(2, 0, "held");
    }

    @Test
    void aLossEndsTheHoldWithItsReason() {
        Rig r = Rig.holding(0);
        r.want(r.message(2, 0, loses(1, LostReason.LOST_REASON_FORCED)), "");
        r.wantState(2, 0, "forced");
        // There is nothing to release.
        r.want(r.release(3, 0, 80), "done 80 lost");
    }

    @Test
    void aReleaseIsConfirmedOrFoundLost() {
        Rig r = Rig.holding(0);
        r.want(r.release(1, 0, 80), "release 3 of 1");
        r.want(r.message(2, 3, releasedAs(true)), "done 80");
        r.acquire(3, 2, NO_WAIT);
        r.grant(3, 4, 2, 2, 0);
        r.want(r.release(4, 1, 81), "release 5 of 2");
        r.want(r.message(5, 5, releasedAs(false)), "done 81 lost");
    }

    @Test
    void aReleaseThatCannotBeServedIsRepeatedUntilItIs() {
        Rig r = Rig.holding(0);
        r.release(0, 0, 80);
        r.want(r.message(10, 3, failsWith(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE")), "done 80 refused");
        r.wantAlarm(110);
        r.want(r.tick(109), "");
        r.want(r.tick(110), "release 4 of 1");
        r.message(120, 4, failsWith(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE"));
        r.want(r.tick(320), "release 5 of 1");
        r.want(r.message(330, 5, releasedAs(true)), "");
        r.want(r.tick(2_900), "");
    }

    @Test
    void theEndOfTheStreamLosesEveryLockAndRepeatsEveryWait() {
        Rig r = Rig.holding(0);
        r.acquire(100, 2, NO_WAIT);
        r.acquire(100, 3, 5_000);
        r.acquire(100, 4, 0);
        r.acquire(100, 5, NO_WAIT);
        r.cancel(100, 5);
        r.change(100, 0, Change.value(ByteString.EMPTY), 90);
        r.want(r.ended(200, StreamEnd.LEFT), "done 90 unconfirmed", "failed 4 unavailable");
        r.wantState(200, 0, "session_ended");
        // Numbers begin anew, and the wait is what is left of it.
        r.want(r.reopen(1_100), "opened", "acquire 2 lock2", "acquire 3 lock3 for 4000");
        // Nothing is asked about the old hold on the new stream.
        r.want(r.release(1_200, 0, 80), "done 80 lost");
    }

    @Test
    void answersOfAnOldStreamMeanNothingOnANewOne() {
        Rig r = Rig.open();
        r.tick(INTERVAL);
        r.ended(3_100, StreamEnd.LEFT);
        r.reopen(4_000);
        r.acquire(4_000, 1, NO_WAIT);
        r.grant(4_000, 2, 1, 1, 0);
        // Heartbeat 1 was sent on the old stream only.
        r.ack(4_100, 1, 60_000);
        r.wantDeadline(4_100, 0, 13_900);
    }

    @Test
    void withoutAConnectionWaitsEndByTheOwnClock() {
        Rig r = new Rig(0);
        r.want(r.acquire(0, 1, 500), "");
        r.wantAlarm(500);
        r.want(r.connectFailed(100, true), "");
        r.want(r.tick(499), "");
        r.want(r.tick(500), "failed 1 unavailable");
    }

    @Test
    void aFailedAttemptFailsTriesAndAHopelessOneEverybody() {
        Rig r = new Rig(0);
        r.acquire(0, 1, 0);
        r.acquire(0, 2, NO_WAIT);
        r.want(r.connectFailed(100, true), "failed 1 unavailable");
        r.want(r.connectFailed(200, false), "failed 2 unavailable");
    }

    @Test
    void anAcquireThatIsNotAnsweredEndsAWhileAfterItsWait() {
        Rig r = Rig.open();
        r.acquire(0, 1, 500);
        r.acquire(0, 2, 0);
        r.want(r.tick(500), "");
        r.want(r.tick(2_000), "cancel 3", "failed 2 unavailable");
        r.wantAlarm(2_500);
        r.want(r.tick(2_500), "cancel 2", "failed 1 unavailable");
        // The grant crossed: it is given back.
        r.want(r.grant(2_600, 2, 1, 1, 0), "release 6 of 1");
    }

    @Test
    void aDrainIsLeftWhenNothingIsHeldAndWaitsMoveOn() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.want(r.message(1, 0, drains()), "draining");
        // New ones are kept for the next coordinator; a try does not wait where there is none.
        r.want(r.acquire(2, 3, NO_WAIT), "");
        r.want(r.acquire(2, 4, 0), "");
        r.want(r.connectFailed(2, true), "failed 4 unavailable");
        // The coordinator puts its waiters out.
        r.want(r.message(3, 3, notGrantedAs(AcquireOutcome.ACQUIRE_OUTCOME_CANCELLED)), "");
        r.wantState(3, 0, "held");
        r.want(r.release(4, 0, 80), "release 4 of 1");
        r.want(r.message(5, 4, releasedAs(true)), "done 80", "close");
        r.want(r.message(6, 5, SessionClosed.getDefaultInstance()), "hang up");
        r.want(r.reopen(100), "opened", "acquire 2 lock2", "acquire 3 lock3");
    }

    @Test
    void heartbeatsComeCloserTogetherWhileTheCoordinatorDrains() {
        Rig r = Rig.holding(0);
        r.message(1_000, 0, drains());
        r.want(r.tick(1_000), "heartbeat 1");
        r.want(r.tick(2_999), "");
        r.want(r.tick(3_000), "heartbeat 2");
    }

    @Test
    void silenceForHalfTheTTLIsLeftAndAnAnswerInTimeIsHeard() {
        Rig r = Rig.holding(0);
        r.tick(INTERVAL);
        r.tick(4_999);
        if (r.m.wantsConnection()) {
            fail("it moves too early");
        }
        r.tick(5_000);
        if (!r.m.wantsConnection()) {
            fail("it does not move");
        }
        r.want(r.acquire(5_000, 2, NO_WAIT), "");
        // Nothing has moved yet.
        r.want(r.ack(5_010, 1, 9_900), "acquire 4 lock2");
        if (r.m.wantsConnection()) {
            fail("it moves though there is no need");
        }
    }

    @Test
    void aStreamThatDeclinesLeavesAllAsItWas() {
        Rig r = Rig.holding(0);
        long former = r.stream;
        r.message(10, 0, drains());
        r.want(r.connect(20), "open");
        // Both wait for what becomes of the attempt.
        r.messageOn(30, former, 0, acks(0, 9_900));
        r.want(r.release(30, 0, 80), "");
        r.want(r.attemptFailed(40, Fate.DECLINED), "release 3 of 1");
        r.want(r.messageOn(50, former, 3, releasedAs(true)), "done 80", "close");
    }

    @Test
    void aGraceSuspendsUntilItIsOverOrTheHoldIsResumed() {
        Rig r = Rig.holding(4_000);
        r.ended(1_000, StreamEnd.LEFT);
        r.wantState(1_000, 0, "suspended");
        r.connect(1_500);
        r.want(r.message(1_600, 1, opensWith(r.next())), "opened");
        r.wantDeadline(1_600, 0, 11_400);
        r.ended(2_000, StreamEnd.LEFT);
        r.tick(5_999);
        r.wantState(5_999, 0, "suspended");
        r.tick(6_000);
        r.wantState(6_000, 0, "session_ended");
        // It is not asked for any more.
        r.connect(6_100);
        if (!r.resumes.isEmpty()) {
            fail("what is lost is resumed");
        }
    }

    @Test
    void aSuspensionNeverOutlastsTheDeadline() {
        Rig r = Rig.holding(10_000);
        r.ended(9_000, StreamEnd.LEFT);
        r.wantState(9_899, 0, "suspended");
        r.wantState(9_900, 0, "session_ended");
    }

    @Test
    void holdsThatTheNextCoordinatorRefusesAreLost() {
        Rig r = Rig.holding(4_000);
        r.ended(1_000, StreamEnd.LEFT);
        r.connect(1_100);
        r.message(1_200, 1, refuses(r.next(), LostReason.LOST_REASON_TAKEN));
        r.wantState(1_200, 0, "taken");
    }

    @Test
    void aPlaceThatHasComeToAGrantIsAcquired() {
        Rig r = Rig.open();
        r.acquire(0, 1, NO_WAIT);
        r.message(10, 2, queuedAs("ticket"));
        r.message(20, 0, drains());
        r.connect(30);
        ByteString next = r.next();
        r.want(r.message(40, 1, opensWith(next)), "acquired 1", "close", "opened");
        r.wantDeadline(40, 0, 9_930);
        r.want(r.release(50, 0, 80), "release 3 of " + next.toStringUtf8());
    }

    @Test
    void whatAStoppedCoordinatorHeldIsLostAtItsDeadline() {
        Rig r = Rig.holding(0);
        r.ended(6_000, StreamEnd.STOPPED);
        r.tick(9_900);
        r.wantState(9_900, 0, "expired");
        // It is not asked for any more, but given back should it still be there.
        r.want(r.connect(10_000), "open");
        if (!r.resumes.isEmpty()) {
            fail("what is lost is resumed");
        }
        r.want(r.message(10_100, 1, opensWith()), "opened", "release 2 of 1");
    }

    @Test
    void aDisownedStreamSuspendsWhatIsHeldWhateverTheGrace() {
        Rig r = Rig.holding(0);
        r.ended(5_000, StreamEnd.DISOWNED);
        r.wantState(5_000, 0, "suspended");
        r.connect(5_100);
        r.want(r.message(5_200, 1, opensWith(r.next())), "opened");
        r.wantState(5_200, 0, "held");
        // It is kept for no longer than it was promised.
        r.ended(6_000, StreamEnd.DISOWNED);
        r.wantState(14_999, 0, "suspended");
        r.wantState(15_000, 0, "unauthenticated");
    }

    @Test
    void newerCredentialsAreMovedToOrLeaveEverythingAsItWas() {
        Rig r = Rig.holding(0);
        r.m.askToMove();
        r.want(r.connect(10), "open");
        r.wantState(10, 0, "held");
        r.want(r.message(20, 1, opensWith(r.next())), "close", "opened");

        r = Rig.holding(0);
        r.m.askToMove();
        r.connect(10);
        r.want(r.acquire(15, 2, NO_WAIT), "");
        r.want(r.message(20, 1, failsWith(Status.Code.UNAUTHENTICATED, "UNAUTHENTICATED")), "acquire 3 lock2", "hang up");
        if (!r.m.staysAfterRound(at(30))) {
            fail("it does not stay");
        }
        r.wantState(40, 0, "held");
    }

    @Test
    void closingTellsHoldsFirstThenTheCoordinator() {
        Rig r = Rig.holding(0);
        r.acquire(0, 2, NO_WAIT);
        r.m.close(at(1));
        r.wantState(1, 0, "session_closed");
        r.want(r.seen(), "failed 2 closed", "close");
        r.want(r.acquire(2, 3, NO_WAIT), "failed 3 closed");
        r.want(r.release(2, 0, 0), "");
        r.want(r.message(3, 4, SessionClosed.getDefaultInstance()), "ended", "hang up");
    }

    @Test
    void aCloseThatIsNotAnsweredCutsTheStream() {
        Rig r = Rig.open();
        r.want(r.message(1, 0, drains()), "draining", "close");
        r.wantAlarm(2_001);
        r.want(r.tick(2_001), "hang up");
    }

    @Test
    void closingOnTheWayClosesBothStreams() {
        Rig r = Rig.holding(0);
        r.message(1, 0, drains());
        r.want(r.connect(2), "open");
        r.want(r.close(3), "close", "leave", "close");
        // Nothing is asked of this one.
        r = new Rig(0);
        r.connect(0);
        r.want(r.close(1), "hang up", "ended");
    }
}
