package leasehold

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// longestResume is the most bytes of resume in one message.
const longestResume = 1 << 20

// outcome is what became of a hold that was to be resumed.
type outcome struct {
	isLost bool
	reason LostReason
}

// opens returns the messages that open the session on the next stream.
func (m *machine) opens(now moment, next *stream) []*leaseholdv1.SessionOpen {
	first := proto.CloneOf(m.open)
	var resumes []*leaseholdv1.SessionResume
	m.holds.resumable(now, func(held *hold, as *leaseholdv1.ResumedHold) {
		resume := next.resume(held.owned.name, held.owned.ids, m.draw(), asked{hold: held.owned.number})
		resume.What = &leaseholdv1.SessionResume_Hold{Hold: as}
		resumes = append(resumes, resume)
		// Another coordinator's default may be shorter, and must not end what holds still count on.
		if m.ttl > 0 {
			first.Ttl = wireDuration(m.ttl)
		}
	})
	for _, acquire := range inOrder(m.waiting) {
		waits := m.waiting[acquire]
		if waits.ticket == nil {
			continue
		}
		id := next.numberRequest(inFlight{kind: inFlightAcquire, acquire: acquire})
		place := asked{acquire: acquire, requestID: id, actor: waits.spec.actor}
		resume := next.resume(waits.spec.label(), waits.ticket, m.draw(), place)
		wait := &leaseholdv1.ResumedWait{AcquireRequestId: id}
		if waits.spec.waits {
			wait.Wait = wireDuration(waits.remaining(now))
		}
		resume.What = &leaseholdv1.SessionResume_Wait{Wait: wait}
		resumes = append(resumes, resume)
	}
	m.countReleases(next)
	opens := []*leaseholdv1.SessionOpen{first}
	size := 0
	for _, resume := range resumes {
		// Generous, for what is around it.
		length := len(resume.GetName()) + 20*(2+len(resume.GetTriedOwnerIds())) + 64
		if size += length; size > longestResume {
			size = length
			opens[len(opens)-1].More = true
			opens = append(opens, &leaseholdv1.SessionOpen{})
		}
		last := opens[len(opens)-1]
		last.Resume = append(last.Resume, resume)
	}
	return opens
}

// countReleases marks the releases that the counts in the request take into account already.
func (m *machine) countReleases(next *stream) {
	resumed := make(map[uint64]bool, len(next.resuming))
	for _, asked := range next.resuming {
		if asked.hold != 0 {
			resumed[asked.hold] = true
		}
	}
	if m.stream != nil {
		for _, request := range m.stream.inFlight {
			if request.kind == inFlightRelease {
				request.release.counted = resumed[request.release.owned.number]
			}
		}
	}
	for _, asked := range m.unsentReleases {
		asked.counted = resumed[asked.owned.number]
	}
}

// settleAttempt ends an attempt to resume that had no result that this session knows of.
func (m *machine) settleAttempt(what fate) {
	settle := func(known *ids) {
		if what == fateDeclined {
			known.declined()
		} else {
			known.unanswered()
		}
	}
	for _, held := range m.holds.held {
		settle(held.owned.ids)
	}
	for _, waits := range m.waiting {
		if waits.ticket != nil {
			settle(waits.ticket)
		}
	}
	for _, asked := range m.unsentReleases {
		asked.counted = false
		settle(asked.owned.ids)
	}
}

// openedInPart adds a part of the answer to open.
func (m *machine) openedInPart(now moment, id uint64, part *leaseholdv1.SessionOpened) {
	next := m.next
	if next.opening == nil {
		if next.inFlight[id].kind != inFlightOpen {
			return
		}
		delete(next.inFlight, id)
		next.opening = part
	} else {
		next.opening.Resumed = append(next.opening.Resumed, part.GetResumed()...)
		next.opening.Refused = append(next.opening.Refused, part.GetRefused()...)
	}
	if !part.GetMore() {
		m.openedOn(now, next.opening)
	}
}

// openedOn makes the next stream the session's own, with what it resumed. It replaces the former one.
func (m *machine) openedOn(now moment, answer *leaseholdv1.SessionOpened) {
	next, former := m.next, m.stream
	m.next = nil
	// Each stream numbers its requests anew: no number of the former may be taken for one of this one.
	for _, waits := range m.waiting {
		waits.unsend()
	}
	next.opening = nil
	info := next.open(now, answer)
	m.ttl = info.TTL
	sentAt, _ := next.heartbeats.at(0)
	deadline := sentAt.After(duration(answer.GetValidFor()))
	m.stream = next
	known := inOrder(m.holds.held)
	outcomes := m.resumed(now, sentAt, deadline, answer)
	next.resuming = nil
	leftBehind := false
	for _, number := range known {
		if _, wasAsked := outcomes[number]; wasAsked {
			continue
		}
		leftBehind = true
		// Lost, but it may be with another stream that did not answer: then it is still to be given back.
		if held := m.holds.held[number]; held != nil && !held.owned.ids.inDoubt() {
			m.holds.forget(number, now, LostSessionEnded)
		}
	}
	if former != nil {
		m.leave(former, leftBehind)
	}
	m.resumeUntil, m.stoppedUntil = never, never
	m.unreachable = nil
	m.put(output{kind: outOpened, stream: next.number, info: &info})
	m.settleUnsent(outcomes, former != nil)
	m.sendUnsent(now)
	m.wakeForWaits()
}

// resumed settles what the new stream was asked to resume, with the open that was sent then and is good until the deadline.
func (m *machine) resumed(now, sentAt, deadline moment, answer *leaseholdv1.SessionOpened) map[uint64]outcome {
	outcomes := make(map[uint64]outcome)
	refused := make(map[ownerID]LostReason, len(answer.GetRefused()))
	for _, lock := range answer.GetRefused() {
		refused[ownerID(lock.GetOwnerId())] = lostReasonOf[lock.GetReason()]
	}
	resumed := make(map[ownerID]*leaseholdv1.ResumedLock, len(answer.GetResumed()))
	for _, lock := range answer.GetResumed() {
		resumed[ownerID(lock.GetOwnerId())] = lock
	}
	for _, next := range inOrder(m.stream.resuming) {
		asked := m.stream.resuming[next]
		lock, isResumed := resumed[next]
		reason, isRefused := refused[next]
		if !isRefused {
			// What a coordinator says nothing of has ended with the stream before.
			reason = LostSessionEnded
		}
		switch {
		case asked.hold != 0 && isResumed:
			endsAt := never
			if lock.GetEndsIn() != nil {
				endsAt = sentAt.After(duration(lock.GetEndsIn()))
			}
			outcomes[asked.hold] = outcome{}
			m.holds.resumed(asked.hold, now, deadline, endsAt)
		case asked.hold != 0:
			outcomes[asked.hold] = outcome{isLost: true, reason: reason}
			m.holds.forget(asked.hold, now, reason)
		case isResumed:
			m.resumedWait(now, asked, lock, sentAt, deadline)
		case isRefused && reason == LostForced:
			m.endedWait(asked, acquireRefused(forceReleased()))
		case isRefused && reason == LostPermissionRevoked:
			m.endedWait(asked, acquireRefused(&Failure{
				Code: codes.PermissionDenied, Reason: "PERMISSION_DENIED", Message: "this client may not wait for the lock any more",
			}))
		default:
			m.answered(asked.requestID)
			m.askAgain(asked.acquire)
		}
	}
	return outcomes
}

// endedWait fails an acquire whose place was refused for good.
func (m *machine) endedWait(asked asked, err *AcquireError) {
	m.answered(asked.requestID)
	if waits := m.waiting[asked.acquire]; waits != nil {
		delete(m.waiting, asked.acquire)
		m.fail(waits, err)
	}
}

func (m *machine) resumedWait(now moment, asked asked, lock *leaseholdv1.ResumedLock, sentAt, deadline moment) {
	waits := m.waiting[asked.acquire]
	if as, isHold := lock.GetWhat().(*leaseholdv1.ResumedLock_Hold); isHold {
		// It has come to a grant.
		m.answered(asked.requestID)
		grant := []*leaseholdv1.GrantedLock{{
			Name:         lock.GetName(),
			OwnerId:      lock.GetOwnerId(),
			FencingToken: as.Hold.GetFencingToken(),
			HoldCount:    max(as.Hold.GetHoldCount(), 1),
			Permits:      lock.GetPermits(),
		}}
		bounded := []*leaseholdv1.BoundedLock{{OwnerId: lock.GetOwnerId(), EndsIn: lock.GetEndsIn()}}
		if waits != nil && now < deadline {
			delete(m.waiting, asked.acquire)
			m.hold(waits, grant, bounded, sentAt, deadline)
		} else {
			m.giveBack(grant)
			m.askAgain(asked.acquire)
		}
		return
	}
	if waits == nil {
		// Nobody waits for it any more.
		m.send(m.stream, m.stream.cancel(asked.requestID, asked.actor))
		return
	}
	waits.sentAs, waits.queued = asked.requestID, true
	if waits.ticket != nil {
		waits.ticket.resumed()
	}
}

// settleUnsent settles the releases from before the stream opened: the resume carried them out, or they are still to be sent.
func (m *machine) settleUnsent(outcomes map[uint64]outcome, moved bool) {
	m.takeReleases(func(asked *release) (isDone bool) {
		became, wasAsked := outcomes[asked.owned.number]
		switch {
		case wasAsked && asked.counted && became.isLost:
			m.reply(asked.reply, holdResult{outcome: holdLost, reason: became.reason})
			return true
		case wasAsked && asked.counted:
			m.reply(asked.reply, holdResult{outcome: holdDone})
			return true
		case wasAsked && !became.isLost:
			// It is known by what is its own now.
			asked.owned.ids.resumed()
		case !wasAsked:
			// It was not to be taken over: the end of the stream before gives it back too, whichever is first.
			asked.again = asked.again || moved
		}
		asked.counted, asked.index = false, 0
		return false
	})
}

// SessionInfo describes an open session, as its coordinator gave it.
type SessionInfo struct {
	// SessionID is the session's name in listings. Not secret. Every reconnect brings a new one.
	SessionID string
	// Coordinator is the coordinator's name in listings.
	Coordinator string
	// TTL is the one in force.
	TTL time.Duration
	// HeartbeatInterval is the time between heartbeats of a session that holds or waits for something. An idle one sends fewer if the
	// coordinator allows it.
	HeartbeatInterval time.Duration
}
