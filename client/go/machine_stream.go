package leasehold

import (
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// closeTimeout limits the wait for the answer to a close; after it, the stream is cut.
	closeTimeout = 2 * time.Second
	// shortestHeartbeat is the interval below which no coordinator can ask for heartbeats.
	shortestHeartbeat = 10 * time.Millisecond
	// longestRest is the interval above which no coordinator can put heartbeats off.
	longestRest = 600 * time.Second
)

// inFlightKind says what a request waits for.
type inFlightKind int

const (
	inFlightOpen inFlightKind = iota + 1
	// inFlightAcquire: an acquire, by its number in the session.
	inFlightAcquire
	// inFlightAbandoned: an acquire whose caller waits no longer. If it is granted, the session gives the lock back.
	inFlightAbandoned
	inFlightRelease
	inFlightChange
)

// inFlight is a request that waits for its answer.
type inFlight struct {
	kind    inFlightKind
	acquire uint64
	// actor is that of an abandoned acquire; 0 for none.
	actor   uint64
	release *release
	change  *change
}

// opened are the terms of a session, as the coordinator opened it.
type opened struct {
	SessionInfo
	nextHeartbeat moment
	// silentFrom is the time from which answers are missed: that of the last answer to a heartbeat, or of the opening, or the end of
	// a rest.
	silentFrom moment
	// rests is set if the session has nothing, and need not send a heartbeat at every interval.
	rests bool
}

// answered notes an answer to a heartbeat.
func (o *opened) answered(now moment) {
	o.silentFrom = now
	if o.rests {
		o.silentFrom = o.nextHeartbeat
	}
}

// rest puts the next heartbeat off, because the session has nothing. It is due so long after that one was sent.
func (o *opened) rest(sentAt moment, pause time.Duration) {
	if next := sentAt.After(min(pause, longestRest)); next > o.nextHeartbeat {
		o.nextHeartbeat, o.silentFrom, o.rests = next, next, true
	}
}

// wake ends a rest.
func (o *opened) wake(now, lastSent moment) {
	if o.rests {
		o.rests = false
		o.nextHeartbeat = lastSent.After(o.HeartbeatInterval)
		o.silentFrom = now
	}
}

// abandoning is an actor that has abandoned acquires. Until the coordinator has answered them, it takes the actor for waiting or
// holding, and would refuse the actor's next acquires.
type abandoning struct {
	unanswered int
	// heldBack are its next acquires, by their numbers in the session.
	heldBack []uint64
}

// hearing says what becomes of the coordinator's messages once another stream has been asked to take over the session's holds.
type hearing int

const (
	// hearingOpen: nothing is being taken over.
	hearingOpen hearing = iota
	// hearingWithheld: messages are kept until the other stream has answered.
	hearingWithheld
	// hearingDeaf: the other stream ended without an answer: the session does not know which holds this coordinator still has.
	hearingDeaf
)

// asked is a hold or a place that another stream is asked to take over.
type asked struct {
	// hold is the number of the hold; 0 for a place.
	hold uint64
	// acquire is the number of the acquire in the session, requestID its request on the other stream.
	acquire, requestID uint64
	actor              uint64
}

// stream is the state of one lease stream. It is dropped with the stream, so that nothing of an old stream can leak into the next.
type stream struct {
	// number is never used again in this session.
	number uint64
	// endpoint is where it leads to, for messages.
	endpoint   string
	heartbeats heartbeats
	// asked is set when open was sent.
	asked bool
	// resuming are the resumes in open that have not been answered, by their next owner ids.
	resuming map[ownerID]asked
	// opening are the parts of the answer that have come, if there are more.
	opening *leaseholdv1.SessionOpened
	opened  *opened
	// openBy is, before open is sent, the latest time for that; afterwards, the time at which the stream is given up unless it has
	// opened.
	openBy moment
	// draining is set when the coordinator is going away: nothing new is asked of it.
	draining bool
	// silent is set if no heartbeat has been answered for a while: nothing new is asked of it.
	silent bool
	// outdated is set if it was opened with credentials that have been replaced: the session moves before they expire.
	outdated bool
	// askedToMove is set if the coordinator has asked the session to move, and goes on serving.
	askedToMove bool
	// moveAgainAt is when the session tries to move again after an attempt that failed; Never if it does not pause.
	moveAgainAt moment
	hearing     hearing
	withheld    []*leaseholdv1.SessionResponse
	// closing is Never until close was sent; the stream is cut if it has not ended by then.
	closing    moment
	inFlight   map[uint64]inFlight
	abandoning map[uint64]*abandoning
	// lastRequest is the number of the newest request.
	lastRequest uint64
}

func newStream(number uint64, endpoint string, openBy moment) *stream {
	return &stream{
		number:      number,
		endpoint:    endpoint,
		heartbeats:  openingHeartbeats(openBy),
		resuming:    make(map[ownerID]asked),
		openBy:      openBy,
		moveAgainAt: clock.Never,
		closing:     clock.Never,
		inFlight:    make(map[uint64]inFlight),
		abandoning:  make(map[uint64]*abandoning),
	}
}

// begin notes that the open is sent now, and must be answered by then.
func (s *stream) begin(now, openBy moment) {
	s.heartbeats = openingHeartbeats(now)
	s.asked = true
	s.openBy = openBy
}

// open notes that the session is open on it, and returns the session's description.
func (s *stream) open(now moment, answer *leaseholdv1.SessionOpened) SessionInfo {
	info := SessionInfo{
		SessionID:         answer.GetSessionId(),
		Coordinator:       answer.GetCoordinator(),
		TTL:               duration(answer.GetTtl()),
		HeartbeatInterval: max(duration(answer.GetHeartbeatInterval()), shortestHeartbeat),
	}
	s.opened = &opened{SessionInfo: info, nextHeartbeat: now.After(info.HeartbeatInterval), silentFrom: now}
	return info
}

// isClosing reports whether close was sent.
func (s *stream) isClosing() bool {
	return s.closing != clock.Never
}

// isToBeLeft reports whether the session is to move to another stream.
func (s *stream) isToBeLeft() bool {
	return s.opened != nil && !s.isClosing() && (s.mustBeLeft() || s.outdated || s.askedToMove)
}

// mustBeLeft reports whether the stream can't go on for long as it is.
func (s *stream) mustBeLeft() bool {
	return s.draining || s.silent || !s.isHeard()
}

// isHeard reports whether the coordinator's messages count.
func (s *stream) isHeard() bool {
	return s.hearing == hearingOpen
}

// accepts reports whether acquires may be sent on it, unless there is another one to move to.
func (s *stream) accepts() bool {
	return s.opened != nil && !s.isClosing() && !s.mustBeLeft()
}

// numberRequest numbers a request and remembers what its answer is for, if it has any. Numbers are never used again on a stream.
func (s *stream) numberRequest(expects inFlight) uint64 {
	s.lastRequest++
	if expects.kind != 0 {
		s.inFlight[s.lastRequest] = expects
	}
	return s.lastRequest
}

// heartbeat returns the request that is a heartbeat, and puts the next one off by this interval.
func (s *stream) heartbeat(now moment, interval time.Duration) *leaseholdv1.SessionRequest {
	s.opened.wake(now, now)
	s.opened.nextHeartbeat = now.After(interval)
	sequence := s.heartbeats.note(now)
	return &leaseholdv1.SessionRequest{
		RequestId: s.numberRequest(inFlight{}),
		Request: &leaseholdv1.SessionRequest_Heartbeat{
			Heartbeat: &leaseholdv1.SessionHeartbeat{Sequence: sequence},
		},
	}
}

// wake ends a rest, because the session is about to ask for something. Returns the heartbeat to send before, if the last one is older
// than the interval: deadlines count from the newest that the coordinator has heard.
func (s *stream) wake(now moment) *leaseholdv1.SessionRequest {
	if s.opened == nil || !s.opened.rests {
		return nil
	}
	s.opened.wake(now, s.heartbeats.lastSent())
	if now < s.opened.nextHeartbeat {
		return nil
	}
	return s.heartbeat(now, s.opened.HeartbeatInterval)
}

// close returns the request that closes the session on this stream.
func (s *stream) close() *leaseholdv1.SessionRequest {
	return &leaseholdv1.SessionRequest{
		RequestId: s.numberRequest(inFlight{}),
		Request:   &leaseholdv1.SessionRequest_Close{Close: &leaseholdv1.SessionClose{}},
	}
}

// cancel returns the request that cancels an acquire for which the caller no longer waits.
func (s *stream) cancel(acquire, actor uint64) *leaseholdv1.SessionRequest {
	s.inFlight[acquire] = inFlight{kind: inFlightAbandoned, actor: actor}
	if actor != 0 {
		abandoned := s.abandoning[actor]
		if abandoned == nil {
			abandoned = &abandoning{}
			s.abandoning[actor] = abandoned
		}
		abandoned.unanswered++
	}
	return &leaseholdv1.SessionRequest{
		RequestId: s.numberRequest(inFlight{}),
		Request:   &leaseholdv1.SessionRequest_Cancel{Cancel: &leaseholdv1.SessionCancel{AcquireRequestId: acquire}},
	}
}

// holdsBack reports whether an acquire of this actor must be held back. If so, abandonedAnswered returns it later.
func (s *stream) holdsBack(actor, acquire uint64) bool {
	abandoned := s.abandoning[actor]
	if abandoned == nil {
		return false
	}
	abandoned.heldBack = append(abandoned.heldBack, acquire)
	return true
}

// abandonedAnswered notes that an abandoned acquire of this actor was answered. Returns the acquires held back that can be sent now.
func (s *stream) abandonedAnswered(actor uint64) []uint64 {
	abandoned := s.abandoning[actor]
	if abandoned == nil {
		return nil
	}
	if abandoned.unanswered--; abandoned.unanswered > 0 {
		return nil
	}
	delete(s.abandoning, actor)
	return abandoned.heldBack
}

// resume returns the request to take over what is known by these ids, under another one from now on.
func (s *stream) resume(name string, known *ids, next ownerID, what asked) *leaseholdv1.SessionResume {
	known.next = next
	s.resuming[next] = what
	tried := each(known.tried, func(id ownerID) []byte { return []byte(id) })
	return &leaseholdv1.SessionResume{Name: name, OwnerId: []byte(known.confirmed), NextOwnerId: []byte(next), TriedOwnerIds: tried}
}

// alarm returns when this stream, if there is one, needs attention next: for a heartbeat, for answers or a close that have been missing for
// too long.
func (s *stream) alarm() moment {
	switch {
	case s == nil:
		return clock.Never
	case s.isClosing():
		return s.closing
	case s.opened == nil:
		return s.openBy
	}
	patience := s.opened.TTL / 2
	if s.silent {
		patience = s.opened.TTL
	}
	return min(s.opened.nextHeartbeat, s.opened.silentFrom.After(patience), s.moveAgainAt)
}

// deadline returns the deadline of a lock that is valid for this long since that heartbeat was sent; false if it never was.
func (s *stream) deadline(acked uint64, validFor time.Duration) (moment, bool) {
	sentAt, isKnown := s.heartbeats.at(acked)
	return sentAt.After(validFor), isKnown
}
