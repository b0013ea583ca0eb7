package leasehold

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// never stands for a time that is not set.
const never = clock.Never

// message handles a message of the coordinator on this stream.
func (m *machine) message(now moment, number uint64, message *leaseholdv1.SessionResponse) {
	m.expire(now)
	if m.isNext(number) {
		m.messageOfNext(now, message)
		return
	}
	s := m.stream
	if s == nil || s.number != number {
		return
	}
	if !s.isHeard() {
		if _, isAck := message.GetResponse().(*leaseholdv1.SessionResponse_Heartbeat); isAck && s.opened != nil {
			// It lives, and keeps what has not been moved.
			s.opened.answered(now)
		}
		if s.hearing == hearingWithheld {
			s.withheld = append(s.withheld, message)
		}
		// An end counts at once, whatever becomes of the attempt: somebody else may have the lock.
		switch answer := message.GetResponse().(type) {
		case *leaseholdv1.SessionResponse_Lost:
			m.lostInDoubt(now, answer.Lost.GetLocks())
		case *leaseholdv1.SessionResponse_Closed:
			m.hangUp(now, number)
		case *leaseholdv1.SessionResponse_Draining:
			// A plain end after this is the coordinator's stop, which leaves what is held.
			s.draining = s.draining || !answer.Draining.GetKeepsServing()
		}
		return
	}
	m.heard(now, message)
	m.leaveIfDrained(now)
	m.askNextIfDue(now)
}

func (m *machine) heard(now moment, message *leaseholdv1.SessionResponse) {
	id := message.GetRequestId()
	actor, wasAbandoned := m.abandonedBy(id)
	switch answer := message.GetResponse().(type) {
	case *leaseholdv1.SessionResponse_Granted:
		m.granted(now, id, answer.Granted)
	case *leaseholdv1.SessionResponse_NotGranted:
		m.notGranted(id, answer.NotGranted)
	case *leaseholdv1.SessionResponse_Released:
		m.released(now, id, answer.Released.GetReleased())
	case *leaseholdv1.SessionResponse_ValueSet:
		m.changed(now, id, answer.ValueSet.GetValueSet())
	case *leaseholdv1.SessionResponse_Downgraded:
		m.changed(now, id, answer.Downgraded.GetDowngraded())
	case *leaseholdv1.SessionResponse_Reduced:
		m.changed(now, id, answer.Reduced.GetReduced())
	case *leaseholdv1.SessionResponse_Heartbeat:
		m.heartbeatAcked(now, answer.Heartbeat)
	case *leaseholdv1.SessionResponse_Lost:
		m.lost(now, answer.Lost)
	case *leaseholdv1.SessionResponse_ReleaseRequested:
		asked := answer.ReleaseRequested
		m.holds.ask(asked.GetOwnerId(), now, releaseRequest(asked, now))
	case *leaseholdv1.SessionResponse_Draining:
		m.draining(now, answer.Draining)
	case *leaseholdv1.SessionResponse_Closed:
		m.hangUp(now, m.stream.number)
	case *leaseholdv1.SessionResponse_Queued:
		m.queued(id, answer.Queued)
	case *leaseholdv1.SessionResponse_Error:
		m.failed(now, id, failureOf(answer.Error))
	default:
		// It has been opened before. What a newer coordinator says besides is not for this client.
	}
	if wasAbandoned {
		if _, still := m.abandonedBy(id); !still {
			m.sendHeldBack(now, actor)
		}
	}
}

// abandonedBy returns the actor of this acquire, if it was abandoned and has not been answered.
func (m *machine) abandonedBy(id uint64) (actor uint64, isAbandoned bool) {
	if m.stream == nil || id == 0 {
		return 0, false
	}
	request := m.stream.inFlight[id]
	return request.actor, request.kind == inFlightAbandoned
}

// answered returns the request that this answers; its kind is 0 if it is not in flight any more.
func (m *machine) answered(id uint64) inFlight {
	if m.stream == nil {
		return inFlight{}
	}
	request := m.stream.inFlight[id]
	delete(m.stream.inFlight, id)
	return request
}

// answeredAcquire returns the acquire that this answers, if its caller still waits. It is no longer among those that wait.
func (m *machine) answeredAcquire(id uint64) (acquire uint64, asked *waiting) {
	request := m.answered(id)
	if request.kind != inFlightAcquire {
		return 0, nil
	}
	asked = m.waiting[request.acquire]
	delete(m.waiting, request.acquire)
	return request.acquire, asked
}

// waitOn lets an acquire wait on, to be asked for again.
func (m *machine) waitOn(acquire uint64, asked *waiting) {
	m.waiting[acquire] = asked
	m.askAgain(acquire)
	m.wakeForWaits()
}

func (m *machine) granted(now moment, id uint64, answer *leaseholdv1.SessionGranted) {
	// Whatever was granted and has nobody to hold it is given back.
	acquire, asked := m.answeredAcquire(id)
	if asked == nil {
		m.giveBack(answer.GetLocks())
		return
	}
	if !asked.spec.isOf(answer.GetLocks()) {
		m.giveBack(answer.GetLocks())
		m.fail(asked, acquireRefused(protocolFailure("the coordinator granted another lock")))
		return
	}
	sentAt, isKnown := m.stream.heartbeats.at(answer.GetAckedHeartbeat())
	deadline := sentAt.After(duration(answer.GetValidFor()))
	if isKnown && now < deadline && !m.stream.isClosing() {
		m.hold(asked, answer.GetLocks(), answer.GetBounded(), sentAt, deadline)
		return
	}
	m.log.Warn("gave back a grant that came too late to be used", "lock", asked.spec.label())
	// Where it crossed our close, that gives it back.
	if !m.stream.isClosing() {
		m.giveBack(answer.GetLocks())
	}
	if asked.spec.isTry() {
		m.fail(asked, unconnected(nil))
		return
	}
	m.waitOn(acquire, asked)
	m.sendAcquire(now, acquire)
	m.wakeForWaits()
}

// hold hands the granted locks to the caller. They are good until the deadline, or until their bounds, which count from when the
// heartbeat was sent that the coordinator had heard.
func (m *machine) hold(asked *waiting, locks []*leaseholdv1.GrantedLock, bounded []*leaseholdv1.BoundedLock, sentAt, deadline moment) {
	grants := make([]granted, len(locks))
	for i, lock := range locks {
		endsAt := never
		for _, bound := range bounded {
			if string(bound.GetOwnerId()) == string(lock.GetOwnerId()) && bound.GetEndsIn() != nil {
				endsAt = sentAt.After(duration(bound.GetEndsIn()))
				break
			}
		}
		// Coordinators that name no number grant all that was asked for.
		permits := int64(lock.GetPermits())
		if permits == 0 {
			permits = asked.spec.locks[i].permits
		}
		held := newLease(asked.spec.locks[i].name, lock.GetFencingToken(), permits, deadline, endsAt)
		held.losses = m.losses
		key := m.holds.insert(held, lock.GetOwnerId(), asked.spec.lockDelay, min(deadline, endsAt))
		grants[i] = granted{key: key, lease: held, holdCount: lock.GetHoldCount()}
	}
	m.put(output{kind: outAcquired, acquire: asked.call, granted: grants})
}

func (m *machine) giveBack(locks []*leaseholdv1.GrantedLock) {
	for _, lock := range locks {
		m.sendRelease(newRelease(owned{name: lock.GetName(), ids: newIDs(lock.GetOwnerId())}, nil))
	}
}

func (m *machine) notGranted(id uint64, answer *leaseholdv1.SessionNotGranted) {
	acquire, asked := m.answeredAcquire(id)
	if asked == nil {
		return
	}
	outcome := answer.GetOutcome()
	// This client did not cancel it: the coordinator puts its waiters out because it goes away.
	if outcome == leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_CANCELLED && m.isDraining() {
		m.waitOn(acquire, asked)
		return
	}
	isOver := outcome == leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_BUSY ||
		outcome == leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_TIMED_OUT
	switch {
	case isOver && asked.spec.isTry():
		m.fail(asked, &AcquireError{Kind: ErrBusy, Holder: some(answer.GetHolder(), holderOf)})
	case isOver && asked.spec.waits:
		m.fail(asked, &AcquireError{Kind: ErrTimedOut, Wait: asked.spec.wait, Holder: some(answer.GetHolder(), holderOf)})
	default:
		m.fail(asked, acquireRefused(protocolFailure(fmt.Sprintf("the coordinator ended the acquire unasked: %v", outcome))))
	}
}

func (m *machine) heartbeatAcked(now moment, ack *leaseholdv1.SessionHeartbeatAck) {
	s := m.stream
	deadline, isKnown := s.deadline(ack.GetAckedHeartbeat(), duration(ack.GetValidFor()))
	if !isKnown {
		m.log.Debug("ignored an answer to a heartbeat that was never sent, or long ago")
		return
	}
	if s.opened != nil {
		s.opened.answered(now)
		if ack.GetNextWithin() != nil && m.isIdle() {
			sentAt, _ := s.heartbeats.at(ack.GetAckedHeartbeat())
			s.opened.rest(sentAt, duration(ack.GetNextWithin()))
		}
	}
	m.holds.extend(deadline)
	// No attempt to move has come to anything yet, so that there is no need any more.
	if s.silent {
		s.silent = false
		m.sendUnsent(now)
	}
}

func (m *machine) lost(now moment, lost *leaseholdv1.SessionLost) {
	for _, lock := range lost.GetLocks() {
		reason := lostReasonOf[lock.GetReason()]
		m.log.Warn("lost the lock, as the coordinator says", "lock", lock.GetName(), "reason", reason)
		m.holds.lost(lock.GetOwnerId(), now, reason)
	}
}

// lostInDoubt handles the losses that a coordinator reports which may not be the one that has the holds. A hold that is lost without need
// does no harm.
func (m *machine) lostInDoubt(now moment, locks []*leaseholdv1.LostLock) {
	lost := make(map[ownerID]LostReason)
	for _, lock := range locks {
		// The client's own resume does that.
		if reason := lostReasonOf[lock.GetReason()]; reason != LostResumed {
			m.log.Warn("lost the lock, as a coordinator says", "lock", lock.GetName(), "reason", reason)
			lost[ownerID(lock.GetOwnerId())] = reason
		}
	}
	m.holds.lostInDoubt(now, lost)
}

func (m *machine) draining(now moment, draining *leaseholdv1.SessionDraining) {
	if draining.GetKeepsServing() {
		m.askedToMove()
		return
	}
	m.stream.draining = true
	if m.stream.opened != nil {
		m.stream.opened.nextHeartbeat = now
	}
	m.put(output{kind: outDraining, until: now.After(duration(draining.GetDeadline()))})
}

func (m *machine) failed(now moment, id uint64, failure *Failure) {
	request := m.answered(id)
	switch request.kind {
	case inFlightAcquire:
		asked := m.waiting[request.acquire]
		if asked == nil {
			return
		}
		delete(m.waiting, request.acquire)
		// What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
		waitsOn := failure.Retryable() && failure.Code != codes.Aborted && !asked.spec.isTry()
		switch {
		case m.isDraining() && waitsOn:
			m.waitOn(request.acquire, asked)
		case waitsOn && failure.Code == codes.Unavailable:
			m.waitForStore(now, request.acquire, asked, failure)
		default:
			m.fail(asked, acquireRefused(failure))
		}
	case inFlightRelease:
		m.releaseFailed(now, request.release, failure)
	case inFlightChange:
		m.reply(request.change.reply, holdResult{outcome: holdRefused, failure: failure})
	case inFlightAbandoned:
		// A cancelled acquire that failed has ended as well.
	default:
		m.log.Debug("the coordinator could not serve a request", "error", failure)
	}
}

// remainingShare returns a third of the time until a moment.
func remainingShare(now, until moment) time.Duration {
	return until.Since(now) / 3
}
