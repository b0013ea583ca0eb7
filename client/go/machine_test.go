package leasehold

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	busy      = leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_BUSY
	cancelled = leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_CANCELLED
)

func TestDeadlinesCountFromWhenTheAcknowledgedHeartbeatWasSent(t *testing.T) {
	r := openRig(t)
	r.want(r.acquire(100, 1, noWait), "acquire 2 lock1")
	r.want(r.grant(200, 2, 1, 1, 0), "acquired 1")
	r.wantDeadline(200, 0, 9_900)
	r.want(r.tick(testInterval), "heartbeat 1")
	r.ack(9_000, 1, 9_900)
	r.wantDeadline(9_000, 0, 12_900)
}

func TestDeadlinesAreNotMovedByAnswersToUnknownHeartbeatsNorShortened(t *testing.T) {
	for name, answer := range map[string]struct {
		sequence uint64
		validFor int64
	}{
		"never sent": {5, 60_000},
		"absurd":     {1<<64 - 1, 60_000},
		"shorter":    {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := holdingRig(t, 0)
			r.ack(1_000, answer.sequence, answer.validFor)
			r.wantDeadline(1_000, 0, 9_900)
		})
	}
}

func TestAnAnswerThatComesAtTheDeadlineIsTooLate(t *testing.T) {
	r := holdingRig(t, 0)
	r.tick(testInterval)
	// As after a pause: the answer has been lying there, and nobody looked at the clock meanwhile. The coordinator goes on renewing what
	// nobody holds, so it is given back.
	r.want(r.ack(9_900, 1, 9_900), "release 4 of 1")
	r.wantState(9_900, 0, "expired")
}

func TestAnUnaskedAcknowledgementLengthensTheDeadline(t *testing.T) {
	r := holdingRig(t, 0)
	r.ack(500, 0, 9_950)
	r.wantDeadline(500, 0, 9_950)
}

func TestALostHoldWithALockDelayIsGivenBackWhenThatHasPassed(t *testing.T) {
	r := openRig(t)
	spec := exclusiveSpec(1)
	spec.lockDelay = 2 * time.Second
	r.ask(0, 1, spec)
	r.grant(0, 2, 1, 1, 0)
	r.tick(testInterval)
	r.want(r.ack(9_950, 1, 0), "")
	r.wantState(9_950, 0, "expired")
	if seen := r.tick(11_950); !strings.Contains(seen, "of 1") {
		t.Errorf("it is not given back: %q", seen)
	}
}

// grantBounded grants lock1, asked for by request 2, with a bound.
func grantBounded(r *rig, now, endsIn int64) {
	r.t.Helper()
	r.acquire(now, 1, noWait)
	granted := grants(0, grantedLock(1, 1, 1))
	granted.Bounded = []*leaseholdv1.BoundedLock{{OwnerId: []byte{1}, EndsIn: wireMS(endsIn)}}
	r.want(r.message(now, 2, granted), "acquired 1")
}

func TestABoundEndsAHoldWhateverIsAnswered(t *testing.T) {
	r := openRig(t)
	grantBounded(r, 200, 11_000)
	r.wantDeadline(200, 0, 9_900)
	for beat := int64(1); beat < 4; beat++ {
		r.tick(testInterval * beat)
		r.ack(testInterval*beat+1, uint64(beat), 9_900)
	}
	r.wantDeadline(9_100, 0, 11_000)
	r.want(r.tick(9_900), "")
	r.wantAlarm(11_000)
	if seen := r.tick(11_000); !strings.Contains(seen, "of 1") {
		t.Errorf("it is not given back: %q", seen)
	}
	r.wantState(11_000, 0, "max_hold")
}

func TestABoundStaysOrComesCloserWhenTheHoldIsResumed(t *testing.T) {
	for told, want := range map[int64]int64{0: 10_900, 20_000: 10_900, 6_000: 7_000} {
		r := openRig(t)
		grantBounded(r, 0, 11_000)
		r.connect(1_000)
		opened := opensWith(r.next())
		if told > 0 {
			opened.Resumed[0].EndsIn = wireMS(told)
		}
		r.message(1_000, 1, opened)
		r.wantDeadline(1_000, 0, want)
	}
}

func TestHeartbeatsGoOutAtTheirInterval(t *testing.T) {
	r := openRig(t)
	r.want(r.tick(testInterval-1), "")
	r.want(r.tick(testInterval), "heartbeat 1")
	r.want(r.tick(testInterval+1), "")
	r.want(r.tick(2*testInterval), "heartbeat 2")
}

func TestSilenceForATTLGivesTheStreamUp(t *testing.T) {
	r := openRig(t)
	r.tick(testInterval)
	r.ack(3_100, 1, 9_900)
	r.want(r.tick(3_100+testTTL-1), "heartbeat 2")
	r.want(r.tick(3_100+testTTL), "hang up")
	if r.m.stream != nil {
		t.Error("the stream is still there")
	}
}

func TestAnOpenThatIsNotAnsweredIsGivenUp(t *testing.T) {
	r := newRig(t, 0)
	r.want(r.connect(0), "open")
	r.wantAlarm(5_000)
	r.want(r.tick(5_000), "hang up")
	if fateOf(r.connectErr) != fateKept {
		t.Error("the stream is not kept until another one has opened")
	}
}

func TestARestPutsHeartbeatsOffUntilSomethingIsAskedFor(t *testing.T) {
	resting := func(t *testing.T) *rig {
		r := openRig(t)
		r.tick(testInterval)
		ack := &leaseholdv1.SessionHeartbeatAck{AckedHeartbeat: 1, ValidFor: wireMS(9_900), NextWithin: wireMS(30_000)}
		r.message(testInterval+10, 0, ack)
		return r
	}
	t.Run("it ends by itself", func(t *testing.T) {
		r := resting(t)
		r.wantAlarm(testInterval + 30_000)
		r.want(r.tick(testInterval+30_000-1), "")
		r.want(r.tick(testInterval+30_000), "heartbeat 2")
		r.tick(testInterval + 30_000 + testTTL - 1)
		r.want(r.tick(testInterval+30_000+testTTL), "hang up")
	})
	t.Run("a heartbeat goes before the acquire", func(t *testing.T) {
		r := resting(t)
		r.want(r.acquire(20_000, 1, noWait), "heartbeat 2", "acquire 4 lock1")
		r.want(r.tick(20_000+testInterval), "heartbeat 3")
	})
	t.Run("not soon after the last", func(t *testing.T) {
		r := resting(t)
		r.want(r.acquire(testInterval+100, 1, noWait), "acquire 3 lock1")
		r.want(r.tick(2*testInterval), "heartbeat 2")
	})
	t.Run("not for a session that waits", func(t *testing.T) {
		r := openRig(t)
		r.tick(testInterval)
		r.acquire(testInterval+5, 1, noWait)
		ack := &leaseholdv1.SessionHeartbeatAck{AckedHeartbeat: 1, ValidFor: wireMS(9_900), NextWithin: wireMS(30_000)}
		r.message(testInterval+10, 0, ack)
		r.want(r.tick(2*testInterval), "heartbeat 2")
	})
}

func TestGrantsThatNobodyWaitsForAreGivenBack(t *testing.T) {
	t.Run("after a cancel", func(t *testing.T) {
		r := openRig(t)
		r.acquire(0, 1, noWait)
		r.want(r.cancel(1, 1), "cancel 2")
		r.want(r.grant(2, 2, 1, 1, 0), "release 4 of 1")
	})
	t.Run("unasked", func(t *testing.T) {
		r := openRig(t)
		r.want(r.grant(2, 99, 1, 1, 0), "release 2 of 1")
	})
	t.Run("another lock", func(t *testing.T) {
		r := openRig(t)
		r.acquire(0, 1, noWait)
		r.want(r.grant(2, 2, 5, 1, 0), "release 3 of 1", "failed 1 refused")
	})
	t.Run("too late", func(t *testing.T) {
		r := openRig(t)
		r.acquire(0, 1, 60_000)
		r.acquire(0, 2, 0)
		r.want(r.grant(9_900, 2, 1, 1, 0), "release 4 of 1", "acquire 5 lock1 for 50100")
		r.want(r.grant(9_900, 3, 2, 2, 0), "release 6 of 2", "failed 2 unavailable")
	})
	t.Run("for an unknown heartbeat", func(t *testing.T) {
		r := openRig(t)
		r.acquire(0, 1, 0)
		r.want(r.grant(1, 2, 1, 1, 9), "release 3 of 1", "failed 1 unavailable")
	})
}

func TestAnswersTellBusyFromTimedOutByWhatWasAsked(t *testing.T) {
	r := openRig(t)
	r.want(r.acquire(0, 1, 0), "acquire 2 lock1 for 0")
	r.want(r.acquire(0, 2, 50), "acquire 3 lock2 for 50")
	r.want(r.message(1, 3, notGrantedAs(busy)), "failed 2 timed out")
	r.want(r.message(1, 2, notGrantedAs(busy)), "failed 1 busy")
}

func TestAFailureConcernsItsRequestAlone(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(0, 2, noWait)
	r.want(r.message(2, 3, failsWith(codes.InvalidArgument, "INVALID_FIELD")), "failed 2 invalid")
	r.wantState(2, 0, "held")
}

func TestUnknownMessagesAreIgnored(t *testing.T) {
	r := holdingRig(t, 0)
	r.want(r.message(1, 0, nil), "")
	r.want(r.message(2, 77, failsWith(codes.Internal, "NEW")), "")
	r.wantState(2, 0, "held")
}

func TestALossEndsTheHoldWithItsReason(t *testing.T) {
	r := holdingRig(t, 0)
	r.want(r.message(2, 0, loses(1, leaseholdv1.LostReason_LOST_REASON_FORCED)), "")
	r.wantState(2, 0, "forced")
	// There is nothing to release.
	r.want(r.release(3, 0, 80), "done 80 lost")
}

func TestAChangeThatFindsNoHoldEndsIt(t *testing.T) {
	r := holdingRig(t, 0)
	r.want(r.change(2, 0, changeValue, 70), "set value 3")
	r.want(r.change(2, 0, changeDowngrade, 71), "downgrade 4")
	r.want(r.change(2, 0, changeReduce, 72), "reduce 5 to 1")
	r.want(r.message(3, 3, &leaseholdv1.SessionValueSet{ValueSet: true}), "done 70")
	r.want(r.message(3, 4, &leaseholdv1.SessionDowngraded{}), "done 71 lost")
	r.wantState(3, 0, "unknown")
	r.want(r.change(4, 0, changeValue, 73), "done 73 lost")
	if len(r.m.replies) != 1 {
		t.Errorf("got %d callers that wait; want that of request 5 alone", len(r.m.replies))
	}
}

func TestAReleaseIsConfirmedOrFoundLost(t *testing.T) {
	r := holdingRig(t, 0)
	r.want(r.release(1, 0, 80), "release 3 of 1")
	r.want(r.message(2, 3, releasedAs(true)), "done 80")
	r.acquire(3, 2, noWait)
	r.grant(3, 4, 2, 2, 0)
	r.want(r.release(4, 1, 81), "release 5 of 2")
	r.want(r.message(5, 5, releasedAs(false)), "done 81 lost")
}

func TestAReleaseThatCannotBeServedIsRepeatedUntilItIs(t *testing.T) {
	r := holdingRig(t, 0)
	r.release(0, 0, 80)
	r.want(r.message(10, 3, failsWith(codes.Unavailable, "STORE_UNAVAILABLE")), "done 80 refused")
	r.wantAlarm(110)
	r.want(r.tick(109), "")
	r.want(r.tick(110), "release 4 of 1")
	r.message(120, 4, failsWith(codes.Unavailable, "STORE_UNAVAILABLE"))
	r.want(r.tick(320), "release 5 of 1")
	r.want(r.message(330, 5, releasedAs(true)), "")
	r.want(r.tick(2_900), "")
}

func TestRequestsWithoutAnAnswerInTimeAreUnconfirmedAndGoOn(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(0, 2, noWait)
	r.grant(0, 3, 2, 2, 0)
	r.change(1_000, 1, changeDowngrade, 90)
	r.release(2_000, 0, 80)
	for _, step := range []struct {
		now  int64
		want string
	}{{10_999, ""}, {11_000, "done 90 unconfirmed"}, {11_999, ""}, {12_000, "done 80 unconfirmed"}} {
		r.ack(step.now, 0, 60_000)
		if seen := r.tick(step.now); step.want != "" && !strings.Contains(seen, step.want) || step.want == "" && strings.Contains(seen, "done") {
			t.Fatalf("at %d: %q, want %q", step.now, seen, step.want)
		}
	}
	// The answers come after all, to nobody.
	r.want(r.message(12_100, 4, &leaseholdv1.SessionDowngraded{Downgraded: true}), "")
	r.want(r.message(12_100, 5, releasedAs(true)), "")
}

func TestTheEndOfTheStreamLosesEveryLockAndRepeatsEveryWait(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(100, 2, noWait)
	r.acquire(100, 3, 5_000)
	r.acquire(100, 4, 0)
	r.acquire(100, 5, noWait)
	r.cancel(100, 5)
	r.change(100, 0, changeValue, 90)
	r.want(r.ended(200, endLeft), "done 90 unconfirmed", "failed 4 unavailable")
	r.wantState(200, 0, "session_ended")
	// Numbers begin anew, and the wait is what is left of it.
	r.want(r.reopen(1_100), "opened", "acquire 2 lock2", "acquire 3 lock3 for 4000")
	// Nothing is asked about the old hold on the new stream.
	r.want(r.release(1_200, 0, 80), "done 80 lost")
}

func TestAnswersOfAnOldStreamMeanNothingOnANewOne(t *testing.T) {
	r := openRig(t)
	r.tick(testInterval)
	r.ended(3_100, endLeft)
	r.reopen(4_000)
	r.acquire(4_000, 1, noWait)
	r.grant(4_000, 2, 1, 1, 0)
	// Heartbeat 1 was sent on the old stream only.
	r.ack(4_100, 1, 60_000)
	r.wantDeadline(4_100, 0, 13_900)
}

func TestWithoutAConnectionWaitsEndByTheOwnClock(t *testing.T) {
	r := newRig(t, 0)
	r.want(r.acquire(0, 1, 500), "")
	r.wantAlarm(500)
	r.m.connectFailed(at(100), unreachable(true))
	r.want(r.seen(), "")
	r.want(r.tick(499), "")
	r.want(r.tick(500), "failed 1 unavailable")
}

func TestAFailedAttemptFailsTriesAndAHopelessOneEverybody(t *testing.T) {
	r := newRig(t, 0)
	r.acquire(0, 1, 0)
	r.acquire(0, 2, noWait)
	r.m.connectFailed(at(100), unreachable(true))
	r.want(r.seen(), "failed 1 unavailable")
	r.m.connectFailed(at(200), unreachable(false))
	r.want(r.seen(), "failed 2 unavailable")
}

func TestAnAcquireThatIsNotAnsweredEndsAWhileAfterItsWait(t *testing.T) {
	r := openRig(t)
	r.acquire(0, 1, 500)
	r.acquire(0, 2, 0)
	r.want(r.tick(500), "")
	r.want(r.tick(2_000), "cancel 3", "failed 2 unavailable")
	r.wantAlarm(2_500)
	r.want(r.tick(2_500), "cancel 2", "failed 1 unavailable")
	// The grant crossed: it is given back.
	r.want(r.grant(2_600, 2, 1, 1, 0), "release 6 of 1")
}

func TestAnActorAsksAnewOnlyWhenWhatItAbandonedIsAnswered(t *testing.T) {
	for name, answer := range map[string]struct {
		with any
		want []string
	}{
		"cancelled": {notGrantedAs(cancelled), []string{"acquire 4 lock2"}},
		"granted":   {grants(0, grantedLock(1, 1, 1)), []string{"release 4 of 1", "acquire 5 lock2"}},
		"failed":    {failsWith(codes.Unavailable, "STORE_UNAVAILABLE"), []string{"acquire 4 lock2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRig(t)
			first, second := exclusiveSpec(1), exclusiveSpec(2)
			first.actor, second.actor = 5, 5
			r.ask(0, 1, first)
			r.want(r.cancel(1, 1), "cancel 2")
			r.want(r.ask(2, 2, second), "")
			r.want(r.message(3, 2, answer.with), answer.want...)
		})
	}
}

func TestReentrantHoldsAreReleasedOneByOneAndLostTogether(t *testing.T) {
	twice := func(t *testing.T) *rig {
		r := openRig(t)
		for i := range uint32(2) {
			spec := exclusiveSpec(1)
			spec.actor, spec.reentrant = 5, true
			r.ask(0, int(i)+1, spec)
			r.message(0, uint64(i)+2, grants(0, grantedLock(1, 1, i+1)))
		}
		return r
	}
	t.Run("released one by one", func(t *testing.T) {
		r := twice(t)
		r.want(r.release(1, 0, 80), "release 4 of 1")
		r.wantState(1, 1, "held")
		r.want(r.message(2, 4, releasedAs(true)), "done 80")
		r.want(r.release(3, 1, 81), "release 5 of 1")
		r.want(r.message(4, 5, releasedAs(true)), "done 81")
	})
	t.Run("lost together", func(t *testing.T) {
		r := twice(t)
		r.message(1, 0, loses(1, leaseholdv1.LostReason_LOST_REASON_TAKEN))
		r.wantState(1, 0, "taken")
		r.wantState(1, 1, "taken")
	})
	t.Run("a release that finds nothing ends the other", func(t *testing.T) {
		r := twice(t)
		r.release(1, 0, 80)
		r.want(r.message(2, 4, releasedAs(false)), "done 80 lost")
		r.wantState(2, 1, "unknown")
		r.want(r.release(3, 1, 0), "")
	})
	t.Run("given back as often as granted", func(t *testing.T) {
		r := twice(t)
		r.tick(testInterval)
		r.want(r.ack(9_900, 1, 9_900), "release 5 of 1", "release 6 of 1")
	})
	t.Run("an unanswered release is counted in the resume", func(t *testing.T) {
		r := newRig(t, 4_000)
		r.reopen(0)
		for i := range uint32(2) {
			spec := exclusiveSpec(1)
			spec.actor, spec.reentrant = 5, true
			r.ask(0, int(i)+1, spec)
			r.message(0, uint64(i)+2, grants(0, grantedLock(1, 1, i+1)))
		}
		r.release(10, 1, 80)
		r.want(r.ended(20, endLeft), "")
		r.connect(30)
		if count := r.resumes[0].GetHold().GetHoldCount(); count != 1 {
			t.Fatalf("the resume counts %d holds, want 1", count)
		}
		r.want(r.message(40, 1, opensWith(r.next())), "opened", "done 80")
	})
}

func TestADrainIsLeftWhenNothingIsHeldAndWaitsMoveOn(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(0, 2, noWait)
	r.want(r.message(1, 0, drains()), "draining")
	// New ones are kept for the next coordinator; a try does not wait where there is none.
	r.want(r.acquire(2, 3, noWait), "")
	r.want(r.acquire(2, 4, 0), "")
	r.m.connectFailed(at(2), unreachable(true))
	r.want(r.seen(), "failed 4 unavailable")
	// The coordinator puts its waiters out.
	r.want(r.message(3, 3, notGrantedAs(cancelled)), "")
	r.wantState(3, 0, "held")
	r.want(r.release(4, 0, 80), "release 4 of 1")
	r.want(r.message(5, 4, releasedAs(true)), "done 80", "close")
	r.want(r.message(6, 5, &leaseholdv1.SessionClosed{}), "hang up")
	r.want(r.reopen(100), "opened", "acquire 2 lock2", "acquire 3 lock3")
}

func TestADrainIsLeftWithWhatIsHeldWhenWhatWasAskedIsAnswered(t *testing.T) {
	r := holdingRig(t, 0)
	former := r.stream
	r.acquire(10, 2, 0)
	r.message(20, 0, drains())
	if !r.m.wantsConnection() {
		t.Fatal("it does not look for another coordinator")
	}
	// The try is on its way: its answer is waited for.
	r.want(r.connect(30), "")
	r.want(r.messageOn(40, former, 3, notGrantedAs(busy)), "failed 2 busy", "open")
	if len(r.resumes) != 1 || string(r.resumes[0].GetOwnerId()) != "\x01" || len(r.resumes[0].GetTriedOwnerIds()) != 0 {
		t.Fatalf("unexpected resumes %v", r.resumes)
	}
	next := r.next()
	// From now on the former says nothing that counts.
	r.messageOn(50, former, 0, &leaseholdv1.SessionHeartbeatAck{ValidFor: wireMS(60_000)})
	r.messageOn(50, former, 0, loses(1, leaseholdv1.LostReason_LOST_REASON_RESUMED))
	r.wantState(60, 0, "held")
	r.want(r.message(70, 1, opensWith(next)), "close", "opened")
	r.messageOn(80, former, 0, loses(1, leaseholdv1.LostReason_LOST_REASON_RESUMED))
	r.wantDeadline(80, 0, 9_940)
}

func TestADrainWaitsForAnswersForAWhileOnly(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(10, 2, 0)
	r.message(20, 0, drains())
	r.want(r.connect(30), "")
	r.m.tick(at(1_029))
	r.m.tick(at(1_030))
	if seen := r.seen(); !strings.HasSuffix(seen, "open") || len(r.resumes) != 1 {
		t.Fatalf("%q with %d resumes", seen, len(r.resumes))
	}
}

func TestHeartbeatsComeCloserTogetherWhileTheCoordinatorDrains(t *testing.T) {
	r := holdingRig(t, 0)
	r.message(1_000, 0, drains())
	r.want(r.tick(1_000), "heartbeat 1")
	r.want(r.tick(2_999), "")
	r.want(r.tick(3_000), "heartbeat 2")
}

func TestSilenceForHalfTheTTLIsLeftAndAnAnswerInTimeIsHeard(t *testing.T) {
	r := holdingRig(t, 0)
	r.tick(testInterval)
	r.tick(4_999)
	if r.m.wantsConnection() {
		t.Fatal("it moves too early")
	}
	r.tick(5_000)
	if !r.m.wantsConnection() {
		t.Fatal("it does not move")
	}
	r.want(r.acquire(5_000, 2, noWait), "")
	// Nothing has moved yet.
	r.want(r.ack(5_010, 1, 9_900), "acquire 4 lock2")
	if r.m.wantsConnection() {
		t.Fatal("it moves though there is no need")
	}
}

func TestAStreamThatDeclinesLeavesAllAsItWas(t *testing.T) {
	r := holdingRig(t, 0)
	former := r.stream
	r.message(10, 0, drains())
	r.want(r.connect(20), "open")
	// Both wait for what becomes of the attempt.
	r.messageOn(30, former, 0, &leaseholdv1.SessionHeartbeatAck{ValidFor: wireMS(9_900)})
	r.want(r.release(30, 0, 80), "")
	r.want(r.attemptFailed(40, fateDeclined), "release 3 of 1")
	r.want(r.messageOn(50, former, 3, releasedAs(true)), "done 80", "close")
}

func TestTriedIDsAreNamedToTheNextCoordinatorAndAllAreReleased(t *testing.T) {
	r := holdingRig(t, 0)
	r.message(10, 0, drains())
	r.connect(20)
	first := r.next()
	r.attemptFailed(30, fateKept)
	r.wantState(30, 0, "held")
	r.connect(40)
	if tried := r.resumes[0].GetTriedOwnerIds(); len(tried) != 1 || string(tried[0]) != first {
		t.Fatalf("tried ids %q, want %q", tried, first)
	}
	second := r.next()
	if first == second || len(second) != 16 {
		t.Fatalf("the next owner id %q is not a new one of 16 bytes", second)
	}
	r.attemptFailed(50, fateKept)
	r.release(60, 0, 80)
	r.want(r.connect(70), "open")
	if len(r.resumes) != 0 {
		t.Fatal("what was released is resumed")
	}
	r.want(r.message(80, 1, opensWith()), "close", "opened", "release 2 of 1")
	r.want(r.message(90, 2, releasedAs(false)), "release 3 of "+first)
	r.want(r.message(90, 3, releasedAs(false)), "release 4 of "+second)
	r.want(r.message(90, 4, releasedAs(true)), "done 80")
}

func TestTheOldestTriedIDsAreForgottenAndTheConfirmedOneNever(t *testing.T) {
	known := newIDs([]byte{0})
	for n := range mostTried + 2 {
		known.next = ownerID(fmt.Sprint(n))
		known.unanswered()
	}
	if len(known.tried) != mostTried || known.nth(0) != "\x00" || known.nth(1) != "2" {
		t.Errorf("%d tried, beginning with %q and %q", len(known.tried), known.nth(0), known.nth(1))
	}
}

func TestAnAttemptWhoseEndTheCoordinatorMayHaveHeardCountsAsTheEndOfTheStream(t *testing.T) {
	for grace, want := range map[int64]string{0: "session_ended", 4_000: "suspended"} {
		r := holdingRig(t, grace)
		r.message(10, 0, drains())
		r.connect(20)
		r.ended(30, endLeft)
		r.wantState(30, 0, want)
		if r.m.stream == nil {
			t.Error("the former stream is gone")
		}
	}
	// An operator ended it: no grace helps.
	r := holdingRig(t, 4_000)
	r.message(10, 0, drains())
	r.connect(20)
	r.attemptFailed(30, fateEnded)
	r.wantState(30, 0, "session_ended")
}

func TestAGraceSuspendsUntilItIsOverOrTheHoldIsResumed(t *testing.T) {
	r := holdingRig(t, 4_000)
	r.ended(1_000, endLeft)
	r.wantState(1_000, 0, "suspended")
	r.connect(1_500)
	r.want(r.message(1_600, 1, opensWith(r.next())), "opened")
	r.wantDeadline(1_600, 0, 11_400)
	r.ended(2_000, endLeft)
	r.tick(5_999)
	r.wantState(5_999, 0, "suspended")
	r.tick(6_000)
	r.wantState(6_000, 0, "session_ended")
	// It is not asked for any more.
	r.connect(6_100)
	if len(r.resumes) != 0 {
		t.Error("what is lost is resumed")
	}
}

func TestASuspensionNeverOutlastsTheDeadline(t *testing.T) {
	r := holdingRig(t, 10_000)
	r.ended(9_000, endLeft)
	r.wantState(9_899, 0, "suspended")
	r.wantState(9_900, 0, "session_ended")
}

func TestAnOperatorWhoEndsTheSessionLeavesNothingToResume(t *testing.T) {
	r := holdingRig(t, 10_000)
	failure := &Failure{Code: codes.Aborted, Reason: "SESSION_ENDED"}
	if end := r.m.streamEndedBy(at(1_000), r.stream, failure); end != endByOperator {
		t.Fatalf("end %d", end)
	}
	r.wantState(1_000, 0, "session_ended")
	r.connect(1_100)
	if len(r.resumes) != 0 {
		t.Error("what an operator took is resumed")
	}
}

func TestHoldsThatTheNextCoordinatorRefusesAreLost(t *testing.T) {
	r := holdingRig(t, 4_000)
	r.ended(1_000, endLeft)
	r.connect(1_100)
	r.message(1_200, 1, refuses(r.next(), leaseholdv1.LostReason_LOST_REASON_TAKEN))
	r.wantState(1_200, 0, "taken")
}

func TestAnswersInPartsAreTakenTogether(t *testing.T) {
	r := holdingRig(t, 4_000)
	r.acquire(0, 2, noWait)
	r.grant(0, 3, 2, 2, 0)
	r.ended(1_000, endLeft)
	r.connect(1_100)
	one, two := string(r.resumes[0].GetNextOwnerId()), string(r.resumes[1].GetNextOwnerId())
	part := opensWith(one)
	part.More = true
	r.want(r.message(1_200, 1, part), "")
	r.wantState(1_200, 0, "suspended")
	r.want(r.message(1_200, 1, opensWith(two)), "opened")
	r.wantState(1_200, 0, "held")
	r.wantState(1_200, 1, "held")
}

func TestAPlaceIsTakenAlongAndAskedForAnewIfItIsRefused(t *testing.T) {
	r := openRig(t)
	r.acquire(0, 1, 5_000)
	r.message(10, 2, queuedAs("ticket"))
	r.ended(1_000, endLeft)
	r.connect(1_100)
	if string(r.resumes[0].GetOwnerId()) != "ticket" || r.resumes[0].GetWait().GetAcquireRequestId() != 2 {
		t.Fatalf("unexpected resume %v", r.resumes[0])
	}
	if wait := r.resumes[0].GetWait().GetWait().AsDuration(); wait != 3_900*time.Millisecond {
		t.Fatalf("the rest of the wait is %v", wait)
	}
	next := r.next()
	r.want(r.message(1_200, 1, opensInPlace(next)), "opened")
	// By its new ticket from now on.
	r.ended(1_300, endLeft)
	r.connect(1_400)
	if string(r.resumes[0].GetOwnerId()) != next {
		t.Fatalf("unexpected resume %v", r.resumes[0])
	}
	r.want(r.message(1_500, 1, opensWith()), "opened", "acquire 3 lock1 for 3500")
}

func TestAPlaceThatHasComeToAGrantIsAcquired(t *testing.T) {
	r := openRig(t)
	r.acquire(0, 1, noWait)
	r.message(10, 2, queuedAs("ticket"))
	r.message(20, 0, drains())
	r.connect(30)
	next := r.next()
	r.want(r.message(40, 1, opensWith(next)), "acquired 1", "close", "opened")
	r.wantDeadline(40, 0, 9_930)
	r.want(r.release(50, 0, 80), "release 3 of "+next)
}

func TestAPlaceThatIsRefusedForGoodFails(t *testing.T) {
	for reason, want := range map[leaseholdv1.LostReason]string{
		leaseholdv1.LostReason_LOST_REASON_FORCED:             "failed 1 force-released",
		leaseholdv1.LostReason_LOST_REASON_PERMISSION_REVOKED: "failed 1 permission denied",
	} {
		r := openRig(t)
		r.acquire(0, 1, noWait)
		r.message(10, 2, queuedAs("ticket"))
		r.ended(20, endLeft)
		r.connect(30)
		r.want(r.message(40, 1, refuses(r.next(), reason)), want, "opened")
	}
}

func TestAStoppedCoordinatorLeavesHoldsHeldUntilTheirDeadlines(t *testing.T) {
	for _, grace := range []int64{0, 1_000} {
		r := holdingRig(t, grace)
		r.message(1_000, 0, drains())
		r.tick(1_000)
		r.ack(1_010, 1, 9_900)
		r.want(r.ended(6_000, endStopped), "")
		r.wantState(9_000, 0, "held")
		if !r.m.isOrphaned(at(9_000)) {
			t.Error("it does not hurry")
		}
		r.m.connectFailed(at(9_000), unreachable(true))
		r.want(r.seen(), "")
		r.connect(9_100)
		r.want(r.message(9_200, 1, opensWith(r.next())), "opened")
		r.wantDeadline(9_200, 0, 19_000)
	}
}

func TestWhatAStoppedCoordinatorHeldIsLostAtItsDeadline(t *testing.T) {
	r := holdingRig(t, 0)
	r.ended(6_000, endStopped)
	r.tick(9_900)
	r.wantState(9_900, 0, "expired")
	// It is not asked for any more, but given back should it still be there.
	r.want(r.connect(10_000), "open")
	if len(r.resumes) != 0 {
		t.Error("what is lost is resumed")
	}
	r.want(r.message(10_100, 1, opensWith()), "opened", "release 2 of 1")
}

func TestTheEndOfAStreamIsJudgedByItsStatus(t *testing.T) {
	for name, end := range map[string]struct {
		drains  bool
		failure *Failure
		want    streamEnd
	}{
		"stopped, as the status says": {false, &Failure{Code: codes.Unavailable, Reason: "DRAINING"}, endStopped},
		"plain end after draining":    {true, nil, endStopped},
		"plain end":                   {false, nil, endLeft},
		"broken while draining":       {true, &Failure{Code: codes.Unavailable, transport: true}, endLeft},
		"identity expired":            {false, &Failure{Code: codes.Unauthenticated, Reason: "IDENTITY_EXPIRED"}, endDisowned},
		"silent":                      {false, &Failure{Code: codes.DeadlineExceeded, Reason: "SESSION_SILENT"}, endLeft},
	} {
		t.Run(name, func(t *testing.T) {
			r := holdingRig(t, 0)
			if end.drains {
				r.message(10, 0, drains())
			}
			if got := r.m.streamEndedBy(at(20), r.stream, end.failure); got != end.want {
				t.Errorf("got %d, want %d", got, end.want)
			}
			want := map[streamEnd]string{endStopped: "held", endLeft: "session_ended", endDisowned: "suspended"}[end.want]
			r.wantState(20, 0, want)
		})
	}
}

func TestADrainThatCrossesAMoveIsHeard(t *testing.T) {
	for _, keepsServing := range []bool{false, true} {
		r := holdingRig(t, 0)
		former := r.stream
		r.m.outdated()
		r.want(r.connect(10), "open")
		draining := drains()
		draining.KeepsServing = keepsServing
		r.messageOn(15, former, 0, draining)
		r.m.streamEndedBy(at(20), former, nil)
		r.wantState(20, 0, map[bool]string{false: "held", true: "session_ended"}[keepsServing])
	}
}

func TestADisownedStreamSuspendsWhatIsHeldWhateverTheGrace(t *testing.T) {
	r := holdingRig(t, 0)
	r.ended(5_000, endDisowned)
	r.wantState(5_000, 0, "suspended")
	r.connect(5_100)
	r.want(r.message(5_200, 1, opensWith(r.next())), "opened")
	r.wantState(5_200, 0, "held")
	// It is kept for no longer than it was promised.
	r.ended(6_000, endDisowned)
	r.wantState(14_999, 0, "suspended")
	r.wantState(15_000, 0, "unauthenticated")
}

func TestNewerCredentialsAreMovedToOrLeaveEverythingAsItWas(t *testing.T) {
	r := holdingRig(t, 0)
	r.m.outdated()
	r.want(r.connect(10), "open")
	r.wantState(10, 0, "held")
	r.want(r.message(20, 1, opensWith(r.next())), "close", "opened")

	r = holdingRig(t, 0)
	r.m.outdated()
	r.connect(10)
	r.want(r.acquire(15, 2, noWait), "")
	r.want(r.message(20, 1, failsWith(codes.Unauthenticated, "UNAUTHENTICATED")), "acquire 3 lock2", "hang up")
	r.wantMove(true)
	if goesOn, wasOutdated := r.m.goesOn(at(30)); !goesOn || !wasOutdated {
		t.Fatal("it does not go on")
	}
	r.wantMove(false)
	r.wantState(40, 0, "held")
}

func TestASessionThatIsAskedToMoveMovesWithAllThatItHas(t *testing.T) {
	r := holdingRig(t, 0)
	former := r.stream
	r.acquire(0, 2, noWait)
	r.message(1, 3, queuedAs("ticket"))
	// Nobody is told that it drains, and no heartbeat is sent before its time.
	r.want(r.message(10, 0, asksToMove()), "")
	r.wantAlarm(testInterval)
	r.wantMove(true)
	// What has been asked is answered first, and nothing more is asked meanwhile.
	r.want(r.acquire(20, 3, noWait), "acquire 4 lock3")
	r.want(r.connect(30), "")
	r.want(r.acquire(30, 4, noWait), "")
	r.want(r.messageOn(40, former, 4, queuedAs("other")), "open")
	if len(r.resumes) != 3 {
		t.Fatalf("it takes along %v", r.resumes)
	}
	answer := opensWith(r.next())
	for _, place := range r.resumes[1:] {
		answer.Resumed = append(answer.Resumed, opensInPlace(string(place.GetNextOwnerId())).GetResumed()...)
	}
	r.want(r.message(50, 1, answer), "close", "opened", "acquire 4 lock4")
	r.wantState(50, 0, "held")
	r.wantMove(false)
}

func TestASessionThatHasNothingMovesWhenItIsAskedTo(t *testing.T) {
	r := openRig(t)
	r.want(r.message(10, 0, asksToMove()), "")
	r.want(r.connect(20), "open")
	r.want(r.message(30, 1, opensWith()), "close", "opened")
}

func TestASessionThatIsAskedToMoveAndCannotGoesOn(t *testing.T) {
	r := holdingRig(t, 0)
	r.message(10, 0, asksToMove())
	// There is nowhere to move to yet.
	r.want(r.acquire(20, 2, 0), "acquire 3 lock2 for 0")
	r.want(r.message(30, 3, notGrantedAs(busy)), "failed 2 busy")
	former := r.stream
	r.want(r.connect(40), "open")
	r.want(r.acquire(50, 3, noWait), "")
	r.messageOn(60, former, 0, &leaseholdv1.SessionHeartbeatAck{ValidFor: wireMS(9_950)})
	r.want(r.release(60, 0, 80), "")
	r.want(r.message(70, 1, failsWith(codes.ResourceExhausted, "TOO_MANY_SESSIONS")), "release 4 of 1", "acquire 5 lock3", "hang up")
	r.want(r.messageOn(80, former, 4, releasedAs(true)), "done 80")
	r.want(r.messageOn(80, former, 5, grants(0, grantedLock(3, 3, 1))), "acquired 3")
	r.want(r.goesOn(100), "")
	// It is asked again, and tries in its own time.
	r.messageOn(200, former, 0, asksToMove())
	r.wantMove(false)
	for sequence, now := range []int64{3_000, 6_000, 9_000} {
		r.m.tick(at(now))
		r.messageOn(now, former, 0, &leaseholdv1.SessionHeartbeatAck{AckedHeartbeat: uint64(sequence + 1), ValidFor: wireMS(9_900)})
	}
	r.m.tick(at(10_099))
	r.wantMove(false)
	r.wantAlarm(10_100)
	r.m.tick(at(10_100))
	r.wantMove(true)
	r.seen()
	r.want(r.acquire(10_200, 4, noWait), "acquire 9 lock4")
	r.wantState(10_200, 1, "held")
	r.want(r.goesOn(10_300), "")
	r.m.tick(at(11_000))
	r.wantMove(false)
}

func TestAnAttemptToMoveThatWasNotAskedSendsWhatWasPutOff(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(0, 2, noWait)
	r.message(10, 0, asksToMove())
	r.want(r.connect(20), "")
	r.want(r.acquire(30, 3, noWait), "")
	r.want(r.release(30, 0, 80), "")
	r.want(r.attemptFailed(40, fateDropped), "release 4 of 1", "acquire 5 lock3")
	r.want(r.goesOn(50), "")
}

func TestWhatEndsAStreamCountsMoreThanThatItIsAskedToMove(t *testing.T) {
	t.Run("a drain", func(t *testing.T) {
		for _, pauses := range []bool{false, true} {
			r := holdingRig(t, 0)
			r.message(10, 0, asksToMove())
			if pauses {
				r.goesOn(20)
			}
			r.want(r.message(30, 0, drains()), "draining")
			r.want(r.tick(30), "heartbeat 1")
			r.wantMove(true)
			r.want(r.acquire(40, 2, noWait), "")
			if goesOn, _ := r.m.goesOn(at(50)); goesOn {
				t.Fatal("it goes on where the coordinator stops")
			}
			// Asked to move, or not, it ends as a coordinator does that stops.
			r.message(60, 0, asksToMove())
			if end := r.m.streamEndedBy(at(70), r.stream, nil); end != endStopped {
				t.Fatalf("the end is %d", end)
			}
			r.wantState(70, 0, "held")
		}
	})
	t.Run("silence", func(t *testing.T) {
		r := holdingRig(t, 0)
		r.message(10, 0, asksToMove())
		r.goesOn(20)
		r.m.tick(at(5_000))
		r.wantMove(true)
		r.seen()
		r.want(r.acquire(5_100, 2, noWait), "")
		if goesOn, _ := r.m.goesOn(at(5_200)); goesOn {
			t.Fatal("it goes on where nobody answers")
		}
	})
	t.Run("an attempt that is not answered", func(t *testing.T) {
		r := holdingRig(t, 0)
		r.message(10, 0, asksToMove())
		r.connect(20)
		r.want(r.attemptFailed(30, fateKept), "")
		if goesOn, _ := r.m.goesOn(at(40)); goesOn {
			t.Fatal("it goes on though another stream may have the lock")
		}
		r.want(r.acquire(50, 2, noWait), "")
	})
	t.Run("a plain end", func(t *testing.T) {
		r := holdingRig(t, 0)
		r.message(10, 0, asksToMove())
		if end := r.m.streamEndedBy(at(20), r.stream, nil); end != endLeft {
			t.Fatalf("the end is %d", end)
		}
		r.wantState(20, 0, "session_ended")
	})
	t.Run("a wait that is put out", func(t *testing.T) {
		r := openRig(t)
		r.acquire(0, 2, noWait)
		r.message(10, 0, asksToMove())
		// No drain explains it.
		r.want(r.message(20, 2, notGrantedAs(cancelled)), "failed 2 refused")
	})
}

func TestWaitsFailWhenNoCoordinatorKnowsTheClient(t *testing.T) {
	r := openRig(t)
	r.acquire(0, 2, noWait)
	r.ended(10, endDisowned)
	failure := &Failure{Code: codes.Unauthenticated, Reason: "UNAUTHENTICATED"}
	r.m.connectFailed(at(20), connectFailed("http://test", failure))
	r.want(r.seen(), "failed 2 unauthenticated")
}

func TestClosingTellsHoldsFirstThenTheCoordinator(t *testing.T) {
	r := holdingRig(t, 0)
	r.acquire(0, 2, noWait)
	r.m.close(at(1))
	r.wantState(1, 0, "session_closed")
	r.want(r.seen(), "failed 2 closed", "close")
	r.want(r.acquire(2, 3, noWait), "failed 3 closed")
	r.want(r.release(2, 0, 0), "")
	r.want(r.message(3, 4, &leaseholdv1.SessionClosed{}), "ended", "hang up")
}

func TestACloseThatIsNotAnsweredCutsTheStream(t *testing.T) {
	r := openRig(t)
	r.want(r.message(1, 0, drains()), "draining", "close")
	r.wantAlarm(2_001)
	r.want(r.tick(2_001), "hang up")
}

func TestClosingOnTheWayClosesBothStreams(t *testing.T) {
	r := holdingRig(t, 0)
	r.message(1, 0, drains())
	r.want(r.connect(2), "open")
	r.m.close(at(3))
	r.want(r.seen(), "close", "leave", "close")
	// Nothing is asked of this one.
	r = newRig(t, 0)
	r.connect(0)
	r.m.close(at(1))
	r.want(r.seen(), "hang up", "ended")
}

func TestOnlyWhatIsSaidBeforeAnythingIsDoneDeclinesAResume(t *testing.T) {
	for _, answer := range []struct {
		code   codes.Code
		reason string
		want   fate
	}{
		{codes.InvalidArgument, "INVALID_FIELD", fateDeclined},
		{codes.Unavailable, "DRAINING", fateDeclined},
		{codes.DeadlineExceeded, "OPEN_TIMEOUT", fateDeclined},
		{codes.Unavailable, "STORE_INDETERMINATE", fateKept},
		{codes.Unavailable, "NOT_REPLICATED", fateKept},
		{codes.Aborted, "SESSION_ENDED", fateEnded},
		{codes.PermissionDenied, "", fateDeclined},
		{codes.Unavailable, "", fateDropped},
	} {
		failure := &Failure{Code: answer.code, Reason: answer.reason}
		if got := fateOf(connectFailed("http://test", failure)); got != answer.want {
			t.Errorf("%v %q: fate %d, want %d", answer.code, answer.reason, got, answer.want)
		}
	}
}

func TestAResumeOfMoreThanAMiBGoesInParts(t *testing.T) {
	r := openRig(t)
	const count = 9_000
	for i := range count {
		spec := acquireSpec{locks: []LockSpec{Exclusive(fmt.Sprintf("%0500d", i))}}
		r.ask(0, i+1, spec)
		owner := fmt.Sprintf("owner%011d", i)
		lock := &leaseholdv1.GrantedLock{Name: spec.label(), OwnerId: []byte(owner), FencingToken: 7, HoldCount: 1}
		r.message(0, uint64(i)+2, grants(0, lock))
	}
	r.m.ended(r)
	r.m.connected(at(20), "http://test")
	resumed := 0
	for i, o := range r.m.outputs {
		open := o.request.GetOpen()
		size := 0
		for _, resume := range open.GetResume() {
			size += len(resume.GetName())
		}
		if size > longestResume || open.GetMore() != (i < len(r.m.outputs)-1) || o.request.GetRequestId() != 1 {
			t.Fatalf("part %d has %d bytes of names, more: %v", i, size, open.GetMore())
		}
		resumed += len(open.GetResume())
	}
	if len(r.m.outputs) < 2 || resumed != count {
		t.Errorf("%d parts with %d of %d resumes", len(r.m.outputs), resumed, count)
	}
}

// ended ends the stream as a coordinator that stops does.
func (m *machine) ended(r *rig) {
	m.streamEnded(at(10), r.stream, endStopped)
}

// TestRandomInputs feeds the machine with whatever may come, and checks what must hold whatever comes: no request id is used twice, every
// caller is answered exactly once and none waits for an answer when the session has ended, and nothing is held then.
func TestRandomInputs(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, int64(random.IntN(3)*2_000))
		answers := map[string]int{}
		asked := 0
		now := int64(0)
		note := func(seen string) {
			for word := range strings.SplitSeq(seen, "; ") {
				fields := strings.Fields(word)
				if word == "ended" && r.m.replyDue() != never {
					t.Fatalf("seed %d: the session has ended, and callers wait for answers", seed)
				}
				if len(fields) > 1 && (fields[0] == "acquired" || fields[0] == "failed" || fields[0] == "done") {
					answers[fields[1]]++
					if answers[fields[1]] > 1 {
						t.Fatalf("seed %d: caller %s was answered twice", seed, fields[1])
					}
				}
			}
		}
		// A caller reads the clock before it waits for its turn.
		early := func() int64 { return int64(random.IntN(3)) }
		for range 400 {
			now += int64(random.IntN(800))
			id := uint64(random.IntN(30))
			stream := r.stream - uint64(random.IntN(2))
			switch random.IntN(17) {
			case 0, 1:
				if r.m.wantsConnection() {
					note(r.connect(now))
				}
			case 2:
				opened := opensWith()
				for _, resume := range r.resumes {
					opened = opensWith(string(resume.GetNextOwnerId()))
				}
				note(r.message(now, 1, opened))
			case 3, 4, 5:
				asked++
				spec := exclusiveSpec(random.IntN(3))
				spec.actor = uint64(random.IntN(3))
				if random.IntN(2) == 0 {
					spec.setWait(time.Duration(random.IntN(3)) * time.Second)
				}
				note(r.ask(now-early(), asked, spec))
			case 6, 7:
				lock, owner := random.IntN(3), byte(random.IntN(200))
				note(r.messageOn(now, stream, id, grants(uint64(random.IntN(3)), grantedLock(lock, owner, 1))))
			case 8:
				note(r.messageOn(now, stream, id, queuedAs("ticket")))
			case 9:
				note(r.messageOn(now, stream, id, releasedAs(random.IntN(2) == 0)))
			case 10:
				if random.IntN(2) == 0 {
					note(r.messageOn(now, stream, 0, drains()))
					break
				}
				note(r.messageOn(now, stream, 0, asksToMove()))
				if random.IntN(2) == 0 {
					r.m.goesOn(at(now))
					note(r.seen())
				}
			case 11:
				note(r.ended(now, streamEnd(random.IntN(4))))
			case 12:
				note(r.attemptFailed(now, fate(random.IntN(4))))
			case 13:
				if len(r.leases) > 0 {
					asked++
					index := random.IntN(len(r.leases))
					note(r.release(now-early(), index, asked))
				}
			case 14:
				note(r.messageOn(now, stream, id, failsWith(codes.Unavailable, "STORE_UNAVAILABLE")))
			case 15:
				note(r.messageOn(now, stream, 0, loses(byte(random.IntN(200)), leaseholdv1.LostReason_LOST_REASON_TAKEN)))
			case 16:
				if len(r.leases) > 0 {
					asked++
					index := random.IntN(len(r.leases))
					note(r.change(now, index, changeDowngrade, asked))
				}
			}
			note(r.tick(now))
		}
		r.m.close(at(now))
		note(r.seen())
		note(r.tick(now + closeTimeout.Milliseconds()))
		// From then on nobody ticks it.
		for index := range r.leases {
			asked += 2
			note(r.change(now, index, changeDowngrade, asked-1))
			note(r.release(now, index, asked))
		}
		for i := 1; i <= asked; i++ {
			if answers[fmt.Sprint(i)] != 1 {
				t.Fatalf("seed %d: caller %d was answered %d times", seed, i, answers[fmt.Sprint(i)])
			}
		}
		for _, granted := range r.leases {
			if _, isAlive := granted.lease.alive(at(now)); isAlive {
				t.Fatalf("seed %d: a hold outlives its session", seed)
			}
		}
	}
}

func TestWhatMayHaveBrokenTheStreamIsNotSentAgain(t *testing.T) {
	for _, c := range []struct {
		failure *Failure
		// kind is that of the error; empty if the message did not break the stream.
		kind string
	}{
		{&Failure{Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE"}, "limit reached"},
		{&Failure{Code: codes.InvalidArgument, Reason: "UNKNOWN_REQUEST"}, "invalid"},
		{failureFrom("", status.Error(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8")), "invalid"},
		{&Failure{Code: codes.Unavailable, transport: true}, ""},
	} {
		r := holdingRig(t, 7_000)
		r.want(r.acquire(1, 2, noWait), "acquire 3 lock2")
		r.want(r.message(2, 3, queuedAs("ticket")))
		r.want(r.acquire(3, 3, noWait), "acquire 4 lock3")
		r.want(r.change(4, 0, changeValue, 1), "set value 5")
		r.m.streamEndedBy(at(5), r.stream, c.failure)
		if c.kind == "" {
			r.want(r.seen())
			r.want(r.connect(6), "open")
			r.want(r.message(7, 1, opensWith(r.next())), "opened; set value 3; acquire 4 lock2; acquire 5 lock3")
			continue
		}
		r.want(r.seen(), "failed 3 "+c.kind, "done 1 refused")
		// What had an answer goes on.
		r.want(r.connect(6), "open")
		r.want(r.message(7, 1, opensWith(r.next())), "opened; acquire 3 lock2")
	}
}

func TestAWaitGoesOnWhileTheStoreIsDown(t *testing.T) {
	away := failsWith(codes.Unavailable, "STORE_UNAVAILABLE")
	r := openRig(t)
	r.want(r.acquire(0, 1, noWait), "acquire 2 lock1")
	r.want(r.message(10, 2, away))
	r.wantAlarm(110)
	r.want(r.tick(109))
	r.want(r.tick(110), "acquire 3 lock1")
	// Pauses grow, and begin anew when it has a place.
	r.want(r.message(120, 3, away))
	r.wantAlarm(320)
	r.want(r.tick(320), "acquire 4 lock1")
	r.want(r.message(330, 4, queuedAs("ticket")))
	r.want(r.message(340, 4, away))
	r.wantAlarm(440)
	// Another stream is asked at once.
	r.want(r.ended(350, endLeft))
	r.want(r.reopen(360), "opened; acquire 2 lock1")
	r.want(r.grant(370, 2, 1, 1, 0), "acquired 1")

	// A try fails at once, and a wait with its end; both say why.
	r = openRig(t)
	r.want(r.acquire(0, 1, 0), "acquire 2 lock1 for 0")
	r.want(r.message(10, 2, away), "failed 1 unavailable")
	r.want(r.acquire(20, 2, 60), "acquire 3 lock2 for 60")
	r.want(r.message(30, 3, away))
	r.want(r.tick(80), "failed 2 unavailable")
	if failure := r.acquireErr.Failure(); failure == nil || failure.Reason != "STORE_UNAVAILABLE" {
		t.Errorf("got %v", r.acquireErr)
	}
	// A cancelled one is not asked again, and limits and mistakes are answers.
	r.want(r.acquire(100, 3, noWait), "acquire 4 lock3")
	r.want(r.message(110, 4, away))
	r.want(r.cancel(120, 3))
	r.want(r.tick(300))
	r.want(r.acquire(310, 4, noWait), "acquire 5 lock4")
	r.want(r.message(320, 5, failsWith(codes.ResourceExhausted, "TOO_MANY_WAITERS")), "failed 4 limit reached")
}
