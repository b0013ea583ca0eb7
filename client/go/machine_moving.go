package leasehold

import (
	"time"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// settling is the time that a coordinator which goes away has to answer requests in flight.
	settling = time.Second
	// shortestAttempt is the time below which attempts to resume are not given up, however little is left.
	shortestAttempt = 50 * time.Millisecond
	// moveAgain is the pause before the next attempt to move, after one has failed and the session has stayed on its stream.
	moveAgain = 10 * time.Second
)

// connected opens the session on a new connection, at once or as soon as the present stream has answered its requests. Returns the
// number of the new stream.
func (m *machine) connected(now moment, endpoint string) uint64 {
	m.expire(now)
	m.lastStream++
	m.next = newStream(m.lastStream, endpoint, now.After(settling))
	m.askNextIfDue(now)
	return m.lastStream
}

// outdated notes that the credentials with which the session was opened have been replaced.
func (m *machine) outdated() {
	if m.stream != nil {
		m.stream.outdated = true
	}
}

// askedToMove notes that the coordinator has asked the session to move. Changes nothing while the session pauses after an attempt to move
// that failed.
func (m *machine) askedToMove() {
	if m.stream.moveAgainAt == never {
		m.stream.askedToMove = true
	}
}

// goesOn handles the failure of every attempt to open the session on another stream. The session stays on the present one, with the
// credentials that this was opened with, unless it must be left. Returns whether it goes on, and whether it was outdated.
func (m *machine) goesOn(now moment) (goesOn, wasOutdated bool) {
	s := m.stream
	if s == nil || s.mustBeLeft() {
		return false, false
	}
	wasOutdated = s.outdated
	if s.askedToMove {
		s.moveAgainAt = now.After(moveAgain)
	}
	s.outdated, s.askedToMove = false, false
	m.sendUnsent(now)
	return true, wasOutdated
}

func (m *machine) isNext(number uint64) bool {
	return m.next != nil && m.next.number == number
}

// attemptLimit returns the time limit of an attempt, to connect and again to open: not all of the time that is left to the holds.
func (m *machine) attemptLimit(now moment) time.Duration {
	deadline := m.holds.firstDeadline(now)
	if deadline == never {
		return m.openTimeout
	}
	return min(max(remainingShare(now, deadline), shortestAttempt), m.openTimeout)
}

func (m *machine) askNextIfDue(now moment) {
	if m.next == nil || m.next.asked {
		return
	}
	mayAnswer := m.stream != nil && !m.stream.silent && m.stream.isHeard()
	if !mayAnswer || m.next.openBy <= now || !m.isUnsettled() {
		m.askNext(now)
	}
}

func (m *machine) askNext(now moment) {
	next := m.next
	limit := m.attemptLimit(now)
	// Noted before the messages are handed on.
	next.begin(now, now.After(limit))
	id := next.numberRequest(inFlight{kind: inFlightOpen})
	for _, open := range m.opens(now, next) {
		m.send(next, &leaseholdv1.SessionRequest{
			RequestId: id,
			Request:   &leaseholdv1.SessionRequest_Open{Open: open},
		})
	}
	if m.stream != nil && m.stream.isHeard() {
		m.stream.hearing = hearingWithheld
	}
}

func (m *machine) tickNext(now moment) {
	m.askNextIfDue(now)
	if m.next == nil || now < m.next.openBy {
		return
	}
	m.giveUpNext(now, &ConnectError{
		Endpoint: m.next.endpoint,
		kind:     connectTimedOut,
		after:    now.Since(m.next.heartbeats.sentAt[0]),
	})
}

// giveUpNext gives up the attempt to open a session on the next stream.
func (m *machine) giveUpNext(now moment, err *ConnectError) {
	number := m.next.number
	m.attemptFailed(now, fateOf(err))
	m.put(output{kind: outHangUp, stream: number, connect: err})
}

// messageOfNext handles a message on the stream that the session is being opened on.
func (m *machine) messageOfNext(now moment, message *leaseholdv1.SessionResponse) {
	switch answer := message.GetResponse().(type) {
	case *leaseholdv1.SessionResponse_Opened:
		m.openedInPart(now, message.GetRequestId(), answer.Opened)
	case *leaseholdv1.SessionResponse_Error:
		m.giveUpNext(now, connectFailed(m.next.endpoint, failureOf(answer.Error)))
	}
}

// attemptFailed handles the end of the next stream, on which the session did not open.
func (m *machine) attemptFailed(now moment, what fate) {
	next := m.next
	if next == nil {
		return
	}
	m.next = nil
	if next.asked {
		m.attemptEnded(now, what, (*ids).isAttempted)
		m.settleAttempt(what)
		m.listenAgain(now, what)
	}
	m.sendUnsent(now)
	m.leaveIfDrained(now)
}

// attemptEnded ends or suspends what a stream that has ended may have taken over.
func (m *machine) attemptEnded(now moment, what fate, mayHaveMoved func(*ids) bool) {
	switch what {
	case fateDropped:
		// As when the stream ends that it is on, which this one may have become.
		m.holds.attemptDropped(now, m.grace, mayHaveMoved)
	case fateEnded:
		m.holds.attemptDropped(now, 0, mayHaveMoved)
	}
}

// overdueMessage handles a message on a stream that did not open in time.
func (m *machine) overdueMessage(now moment, message *leaseholdv1.SessionResponse) {
	m.expire(now)
	switch answer := message.GetResponse().(type) {
	case *leaseholdv1.SessionResponse_Lost:
		m.lostInDoubt(now, answer.Lost.GetLocks())
	case *leaseholdv1.SessionResponse_Opened:
		// What it has resumed is named to the next coordinator as tried.
		m.lostInDoubt(now, answer.Opened.GetRefused())
	case *leaseholdv1.SessionResponse_Error:
		m.overdueEnded(now, fateOfAnswer(failureOf(answer.Error)))
	case *leaseholdv1.SessionResponse_Closed:
		m.overdueEnded(now, fateDropped)
	}
}

// overdueEnded handles the end of a stream that did not open in time. It may have been carried out after all: then its coordinator may
// have taken the end for the client's, and released what this session had tried to take over.
func (m *machine) overdueEnded(now moment, what fate) {
	m.expire(now)
	m.attemptEnded(now, what, (*ids).inDoubt)
}

// listenAgain handles the messages withheld from the stream before, if nothing was taken over from it.
func (m *machine) listenAgain(now moment, what fate) {
	s := m.stream
	if s == nil {
		return
	}
	messages, was := s.withheld, s.hearing
	s.withheld, s.hearing = nil, hearingDeaf
	if was == hearingWithheld && what == fateDeclined {
		s.hearing = hearingOpen
		for _, message := range messages {
			m.message(now, s.number, message)
		}
	}
}

// leave closes the stream that the session has moved from: no grant owns the holds that are left on it.
func (m *machine) leave(former *stream, leftBehind bool) {
	// What is lost, but is to stay closed for its lock-delay, must not be released cleanly.
	if !former.isClosing() && !leftBehind {
		m.send(former, former.close())
	}
	for _, acquire := range m.putOffUnanswered(former) {
		// With a number again it was resumed.
		asked := m.waiting[acquire]
		if asked == nil || asked.sentAs != 0 {
			continue
		}
		if !asked.spec.isTry() {
			m.askAgain(acquire)
			continue
		}
		// It may have been granted, and asking again could find that.
		delete(m.waiting, acquire)
		m.fail(asked, unconnected(nil))
	}
}

// sendUnsent puts all that could not be asked so far on the stream, as far as it takes it.
func (m *machine) sendUnsent(now moment) {
	if m.takesChanges() {
		changes := m.unsentChanges
		m.unsentChanges = nil
		for _, asked := range changes {
			m.sendChange(now, asked)
		}
		for _, asked := range m.takeReleases(func(asked *release) bool { return asked.retryAt == never }) {
			m.sendRelease(asked)
		}
	}
	for _, acquire := range inOrder(m.waiting) {
		m.sendAcquire(now, acquire)
	}
}

// putOffUnanswered keeps what this stream was asked about holds, and has not answered, for the next one. Returns the acquires that it
// has not answered, in the order in which they were asked.
func (m *machine) putOffUnanswered(s *stream) (acquires []uint64) {
	repeated := m.takeReleases(func(asked *release) bool { return asked.retryAt != never })
	for _, asked := range repeated {
		asked.anew()
	}
	// In the order in which they were sent.
	for _, id := range inOrder(s.inFlight) {
		switch request := s.inFlight[id]; request.kind {
		case inFlightAcquire:
			acquires = append(acquires, request.acquire)
		case inFlightRelease:
			request.release.anew()
			m.unsentReleases = append(m.unsentReleases, request.release)
		case inFlightChange:
			m.unsentChanges = append(m.unsentChanges, request.change)
		}
	}
	s.inFlight = nil
	m.unsentReleases = append(m.unsentReleases, repeated...)
	return acquires
}

// giveUpUnsent fails all outstanding changes and releases of the last stream, except releases of holds that another stream may have.
func (m *machine) giveUpUnsent() {
	for _, asked := range m.unsentChanges {
		m.reply(asked.reply, holdResult{outcome: holdUnconfirmed})
	}
	m.unsentChanges = nil
	m.takeReleases(func(asked *release) bool {
		m.reply(asked.reply, holdResult{outcome: holdUnconfirmed})
		asked.reply = nil
		return m.ending || !asked.owned.ids.inDoubt()
	})
}
