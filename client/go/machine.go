package leasehold

import (
	"log/slog"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// drainingHeartbeats is the number of heartbeats per TTL that a session sends to a coordinator that is going away: the more recent
	// the last one, the more of the TTL is left to resume in when that coordinator has stopped.
	drainingHeartbeats = 5
	// placesKept is the time for which the store keeps the places of waiters whose coordinator has stopped.
	placesKept = 10 * time.Second
)

// streamEnd says how a stream ended.
type streamEnd int

const (
	// endLeft: it broke, or its coordinator left it; its holds may be resumed within the grace.
	endLeft streamEnd = iota
	// endDisowned: the coordinator no longer knows who the client is. It leaves the holds for as long as it promised, and a client that
	// is known again may resume them.
	endDisowned
	// endStopped: the coordinator stopped, and left what was held to expire, and the places in queues for as long as the store keeps
	// them: nobody else can have any of it before that, so holds stay held until their own deadlines.
	endStopped
	// endByOperator: an operator ended the session, and took everything from it.
	endByOperator
)

// outputKind is what the machine asks for.
type outputKind int

const (
	// outSend: send the request on the stream.
	outSend outputKind = iota + 1
	// outAcquired: answer an acquire, with one grant for each lock in the order of the names, or with an error.
	outAcquired
	// outHoldDone: answer a request about a hold.
	outHoldDone
	// outOpened: the session is open on this stream, and from now on only on it: leave any other stream once its queued requests have
	// been sent.
	outOpened
	// outDraining: the coordinator is going away at this moment.
	outDraining
	// outHangUp: give up the stream. Cut it, unless it did not open in time: then keep it until another one has opened, because its end
	// would release the locks that it may still resume. The machine has forgotten it already.
	outHangUp
	// outLeave: leave the stream that was to be the next one, once its queued requests have been sent and answered; the end of the
	// session waits for that for a while. The machine has forgotten it already.
	outLeave
	// outEnded: there is nothing left to do.
	outEnded
)

// output is one action that the machine asks for.
type output struct {
	kind    outputKind
	stream  uint64
	request *leaseholdv1.SessionRequest
	acquire acquireCall
	granted []granted
	err     *AcquireError
	hold    holdCall
	result  holdResult
	info    *SessionInfo
	until   moment
	// connect is the error of a stream that is given up before it opened; nil for one that was open.
	connect *ConnectError
}

// granted is a lock that was granted.
type granted struct {
	key   uint64
	lease *lease
	// holdCount is the number of times that the actor holds it, this grant included.
	holdCount uint32
}

// acquireResult is the answer to an acquire.
type acquireResult struct {
	granted []granted
	err     *AcquireError
}

// acquireCall is a caller that waits for a lock, and has room for the answer. The machine only passes it on.
type acquireCall chan acquireResult

// machine is the state machine of a session over all the streams that it has in its life. It is pure: no I/O, no goroutine, no clock.
// Time is passed in, and outputs is what is to be done. Acquires and releases may come with a time that is a little earlier than that of
// the input before.
//
// There are at most two streams. stream has the session open on it. next is to have it next: it is there while there is no stream, or
// while that one is to be left, and from its connection on. A stream is to be left because it can't go on for long (draining, silent, not
// heard), or though it could (opened with credentials that have been replaced, asked to move). Of what is held or waited for:
//
//	stream                   next                 the hold is          its owner id is       releases and changes  acquires
//	open                     -                    held                 the confirmed one     are sent              are sent
//	to be left, could go on  -                    held                 the confirmed one     are sent              are sent
//	to be left               -                    held                 the confirmed one     are sent              are put off
//	to be left               connected            held                 the confirmed one     are put off           are put off
//	to be left, not heard    asked                held                 that or next          are put off           are put off
//	to be left, deaf         - or connected       held                 that or one tried     are put off           are put off
//	-, it broke              any                  suspended, or lost   as above              are put off, or fail  are put off
//	                                              without a grace
//	-, coordinator stopped   any                  held                 as above              are put off           are put off
//
// next is asked when what stream has been asked has been answered, or after a while. From then on what stream says is withheld, since
// it may know less of what is held than it did. If next opens, it becomes stream: what it resumed is under its next owner id, what it
// refused is lost, what the former had not answered is asked anew, and the former is closed. If next declines, nothing was resumed, and
// what stream said meanwhile counts after all. If next ends without an answer, what it was asked for may be under its next owner ids,
// which are tried from now on; what stream says counts no more; and if the coordinator may have heard of that end, it may have released
// everything, so holds are suspended or lost. If no coordinator can be had as next, the session stays on a stream that could go on.
type machine struct {
	open *leaseholdv1.SessionOpen
	// grace is the disconnect_grace of open.
	grace time.Duration
	// openTimeout limits the time for a session to open once there is a connection.
	openTimeout time.Duration
	// ttl is the one in force on the last stream; 0 before the first.
	ttl time.Duration
	// draw makes owner ids: 16 random bytes.
	draw  func() ownerID
	log   *slog.Logger
	holds holds
	// losses hears of the loss of each hold; nil if nothing does.
	losses *losses
	// waiting are the waiting acquires, by the order in which they were asked for.
	waiting map[uint64]*waiting
	// waitsEndAt is a lower bound: no wait ends before it.
	waitsEndAt moment
	// acquiresDue is a lower bound: no acquire is to be asked for again before it.
	acquiresDue moment
	// unsentReleases are those that no stream could be asked for so far, and those to be repeated.
	unsentReleases []*release
	unsentChanges  []*change
	// replies are the callers that wait for answers about holds, in the order in which they asked, and so in that in which their time is over.
	replies    []*reply
	stream     *stream
	next       *stream
	lastStream uint64
	// resumeUntil is, if there is no stream, the time until which the session may resume the holds of the last one.
	resumeUntil moment
	// stoppedUntil is, if there is no stream because its coordinator stopped, the time until which the store keeps holds and places.
	stoppedUntil moment
	// ending is set when this process wants the session to end; refusing, when it is about to want that.
	ending, refusing bool
	// unreachable is why there is no stream, if attempts to connect have failed since the last one.
	unreachable *ConnectError
	// outputs is what is to be done, in this order. Whoever does it empties it.
	outputs []output
}

func newMachine(open *leaseholdv1.SessionOpen, openTimeout time.Duration, draw func() ownerID, log *slog.Logger) *machine {
	return &machine{
		open:         open,
		grace:        duration(open.GetDisconnectGrace()),
		openTimeout:  openTimeout,
		draw:         draw,
		log:          log,
		holds:        newHolds(),
		waiting:      make(map[uint64]*waiting),
		waitsEndAt:   clock.Never,
		acquiresDue:  clock.Never,
		resumeUntil:  clock.Never,
		stoppedUntil: clock.Never,
	}
}

func (m *machine) put(o output) {
	m.outputs = append(m.outputs, o)
}

func (m *machine) send(on *stream, request *leaseholdv1.SessionRequest) {
	if request != nil {
		m.put(output{kind: outSend, stream: on.number, request: request})
	}
}

// isMoving reports whether the session moves, or is to move, from a stream that it has.
func (m *machine) isMoving() bool {
	return m.stream != nil && m.stream.isToBeLeft()
}

// wantsConnection reports whether another connection is to be made.
func (m *machine) wantsConnection() bool {
	return !m.ending && m.next == nil && (m.stream == nil || m.stream.isToBeLeft())
}

// alarm returns when to call tick at the latest.
func (m *machine) alarm() moment {
	alarm := min(m.holds.checkAt, m.waitsEndAt, m.acquiresDue, m.replyDue(), m.resumeUntil, m.stream.alarm(), m.next.alarm())
	// While none can be sent there may be as many as there were holds, and none has a time of its own.
	if m.takesChanges() {
		for _, release := range m.unsentReleases {
			alarm = min(alarm, release.retryAt)
		}
	}
	return alarm
}

// connectFailed notes that no coordinator could be reached and opened a session. Callers that wanted to wait go on waiting, unless the
// next attempt would fail as well.
func (m *machine) connectFailed(now moment, err *ConnectError) {
	m.expire(now)
	m.unreachable = err
	doomed := !err.Retryable()
	for _, failed := range m.takeWaiting(func(w *waiting) bool { return w.sentAs == 0 && (doomed || w.spec.isTry()) }) {
		m.fail(failed, unconnected(err))
	}
}

// streamEndedBy handles the end of the session's stream, plain or with this failure. Returns what the end means.
func (m *machine) streamEndedBy(now moment, number uint64, failure *Failure) streamEnd {
	end := endLeft
	switch {
	// The coordinator says so, or ends the stream plainly after it said draining. A broken connection is neither: the coordinator may
	// still be there, hear of the break, and release everything.
	case failure != nil && failure.isDraining(), failure == nil && m.isDraining():
		end = endStopped
	case failure != nil && failure.isUnauthenticated():
		end = endDisowned
	case failure != nil && failure.Reason == reasonSessionEnded:
		end = endByOperator
	case failure != nil && failure.isForMessage() && m.stream != nil && m.stream.number == number:
		m.failSuspects(failure)
	}
	m.streamEnded(now, number, end)
	return end
}

// failSuspects fails the requests of which one ended the stream: those that the coordinator has answered nothing about. On the next stream
// they would do the same again.
func (m *machine) failSuspects(failure *Failure) {
	inFlight := m.stream.inFlight
	for _, id := range inOrder(inFlight) {
		switch request := inFlight[id]; request.kind {
		case inFlightAcquire:
			if asked := m.waiting[request.acquire]; asked != nil && !asked.queued {
				delete(inFlight, id)
				delete(m.waiting, request.acquire)
				m.fail(asked, acquireRefused(failure))
			}
		case inFlightChange:
			delete(inFlight, id)
			m.reply(request.change.reply, holdResult{outcome: holdRefused, failure: failure})
		}
	}
}

// isDraining reports whether the coordinator has said that it is going away.
func (m *machine) isDraining() bool {
	return m.stream != nil && m.stream.draining
}

// isOrphaned reports whether a coordinator stopped so recently that the session can still resume its holds and places there.
func (m *machine) isOrphaned(now moment) bool {
	hasAny := len(m.holds.held) > 0 || len(m.waiting) > 0
	return hasAny && m.stoppedUntil != clock.Never && now < m.stoppedUntil
}

// streamEnded handles the end of a stream. If the session was open on it, its locks are lost or suspended before anything else
// happens, unless its coordinator stopped.
func (m *machine) streamEnded(now moment, number uint64, end streamEnd) {
	m.expire(now)
	var grace time.Duration
	switch end {
	case endLeft:
		grace = m.grace
	case endDisowned, endStopped:
		// Deadlines are earlier.
		grace = m.ttl
	}
	if m.isNext(number) {
		m.attemptFailed(now, fateDropped)
		return
	}
	if m.stream == nil || m.stream.number != number {
		return
	}
	ended := m.stream
	m.stream = nil
	if m.ending || grace == 0 {
		m.holds.endWithStream(now)
		m.putOffUnanswered(ended)
		m.giveUpUnsent()
	} else {
		until := now.After(grace)
		m.resumeUntil = until
		switch end {
		case endLeft:
			m.holds.suspend(now, until)
		case endDisowned:
			m.holds.suspend(now, clock.Never)
		case endStopped:
			m.stoppedUntil = max(until, now.After(placesKept))
		}
		m.putOffUnanswered(ended)
	}
	if m.ending {
		m.put(output{kind: outEnded})
		return
	}
	// A try that was on its way may have been granted and lost with the stream; asking again could find our own former hold and call it
	// busy.
	for _, failed := range m.takeWaiting(func(w *waiting) bool { return w.spec.isTry() && w.sentAs != 0 }) {
		m.fail(failed, unconnected(nil))
	}
	for _, waiting := range m.waiting {
		waiting.unsend()
	}
	m.wakeForWaits()
	m.askNextIfDue(now)
}

// refuse ends all waits, and lets no acquire begin any more, because the session is about to be closed. What is held is held on.
func (m *machine) refuse(now moment) {
	m.expire(now)
	m.refusing = true
	for _, refused := range m.takeWaiting(func(*waiting) bool { return true }) {
		m.abandon(refused)
		m.fail(refused, &AcquireError{Kind: ErrClosed})
	}
}

// close ends the session. Its holds are lost before the coordinator hears of it.
func (m *machine) close(now moment) {
	if m.ending {
		return
	}
	m.expire(now)
	m.ending = true
	m.holds.endAll(now, LostSessionClosed)
	for _, failed := range m.takeWaiting(func(*waiting) bool { return true }) {
		m.fail(failed, &AcquireError{Kind: ErrClosed})
	}
	m.giveUpUnsent()
	m.resumeUntil, m.stoppedUntil = clock.Never, clock.Never
	if next := m.next; next != nil {
		m.next = nil
		if len(next.resuming) == 0 {
			m.put(output{kind: outHangUp, stream: next.number})
		} else {
			// What it takes over is not the present stream's any more, and has to be given back here.
			m.send(next, next.close())
			m.put(output{kind: outLeave, stream: next.number})
		}
	}
	switch {
	case m.stream == nil:
		m.put(output{kind: outEnded})
	case !m.stream.isClosing():
		m.sendClose(now)
	}
}

// tick does everything that is due.
func (m *machine) tick(now moment) {
	m.expire(now)
	m.endWaits(now)
	m.repeatAcquires(now)
	m.endOverdueReplies(now)
	m.repeatReleases(now)
	if m.resumeUntil <= now {
		m.resumeUntil = clock.Never
		m.giveUpUnsent()
	}
	m.tickNext(now)
	m.tickStream(now)
}

func (m *machine) tickStream(now moment) {
	s := m.stream
	if s == nil {
		return
	}
	if s.isClosing() {
		if s.closing <= now {
			m.hangUp(now, s.number)
		}
		return
	}
	if s.opened == nil {
		return
	}
	if s.opened.silentFrom.After(s.opened.TTL) <= now {
		m.log.Warn("gave up the stream: no heartbeat was answered for a TTL", "endpoint", s.endpoint)
		m.hangUp(now, s.number)
		return
	}
	if !s.silent && s.opened.silentFrom.After(s.opened.TTL/2) <= now {
		m.log.Info("moving the session: no heartbeat was answered for half the TTL", "endpoint", s.endpoint)
		s.silent = true
	}
	if s.moveAgainAt <= now {
		s.askedToMove, s.moveAgainAt = true, clock.Never
	}
	if s.opened.nextHeartbeat <= now {
		interval := s.opened.HeartbeatInterval
		if s.draining {
			interval = min(interval, s.opened.TTL/drainingHeartbeats)
		}
		m.send(s, s.heartbeat(now, interval))
	}
}

// isIdle reports whether the session has nothing, waits for nothing, and is asked for nothing.
func (m *machine) isIdle() bool {
	return len(m.holds.held) == 0 && len(m.waiting) == 0 && len(m.unsentReleases) == 0 && len(m.unsentChanges) == 0 &&
		m.next == nil && m.stream != nil && !m.stream.isToBeLeft() && len(m.stream.inFlight) == 0
}

// expire ends the holds whose deadline has passed. Every input begins with this: an answer that comes after a deadline must find the
// lock lost.
func (m *machine) expire(now moment) {
	for _, over := range m.holds.expire(now) {
		m.log.Warn("lost the lock; giving it back", "lock", over.name)
		asked := newRelease(over, nil)
		asked.expired = true
		m.sendRelease(asked)
	}
}

func (m *machine) hangUp(now moment, number uint64) {
	m.streamEnded(now, number, endLeft)
	m.put(output{kind: outHangUp, stream: number})
}

func (m *machine) sendClose(now moment) {
	if m.stream != nil {
		m.stream.closing = now.After(closeTimeout)
		m.send(m.stream, m.stream.close())
	}
}

// takesChanges reports whether releases and changes can be sent: not while they could cross a change of owner.
func (m *machine) takesChanges() bool {
	return m.stream != nil && m.stream.isHeard() && m.next == nil
}

// isUnsettled reports whether an answer is about to come.
func (m *machine) isUnsettled() bool {
	if m.stream == nil {
		return false
	}
	for _, request := range m.stream.inFlight {
		switch request.kind {
		case inFlightAcquire:
			if waiting := m.waiting[request.acquire]; waiting != nil && !waiting.queued {
				return true
			}
		case inFlightRelease, inFlightChange:
			return true
		}
	}
	return false
}
