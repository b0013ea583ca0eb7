package leasehold

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// longestSleep is the longest time between two looks at the clock. Timers do not count the time for which the machine was
	// suspended, so that one set for long would ring late.
	longestSleep = time.Second
	// mostOverdue is the number of connections kept that did not open in time: more than there can be before all is lost.
	mostOverdue = 64
)

// Session is a lease stream, through which a client holds locks for as long as the stream lives. All methods may be called from any
// number of goroutines.
//
// When its coordinator is about to go away, or falls silent, the session moves to another one, and takes along what it holds and waits
// for. It also moves when a coordinator that goes on serving asks it to; if it can't, it stays, and tries again later. When its
// coordinator stops before it has moved, holds stay held until their own deadlines, and the session resumes them on the first coordinator
// that it reaches. When its stream breaks, every lock of it is lost at once, or suspended if it has a grace, and the session is made anew
// in the background; acquires that were waiting go on waiting, in their old place where that still stands. Locks are never re-taken by
// themselves.
type Session struct {
	entry
	settings    *settings
	candidacies candidacies
	bodies      bodies
	// closeTimeout is how long Close waits for work.
	closeTimeout time.Duration
	// goroutines are those of the session's connections.
	goroutines sync.WaitGroup
	// opened is closed when the session has been open for the first time.
	opened chan struct{}
	// ended is closed when it has ended.
	ended chan struct{}

	mu      sync.Mutex
	machine *machine
	// current is the connection of the stream that has the session open, next that of the one that is to have it next.
	current, next *conn
	// overdue are connections of streams that did not open in time, until another one has.
	overdue []*conn
	route   *route
	pauses  *pauses
	renews  renewing
	// pause is to be made before the next round of attempts.
	pause time.Duration
	// endRound ends the round of attempts that goes on; nil if none does. hurry makes it begin without the rest of its pause.
	endRound context.CancelFunc
	hurry    chan struct{}
	// mustOpen is set if the session ends when the first round of attempts fails; failed is then why.
	mustOpen bool
	failed   *ConnectError
	timer    *time.Timer
	// armed is when the timer rings.
	armed moment
	info  *SessionInfo
	// drains is when the coordinator goes away; never if it has not said so.
	drains      moment
	lastAcquire uint64
	isOver      bool
	losses      losses
}

// newSession makes a session and begins to connect. If it must open, it ends when no coordinator of the first round opens it.
func newSession(calls *calls, options sessionOptions, mustOpen bool) *Session {
	settings := calls.settings
	s := &Session{
		settings:     settings,
		closeTimeout: options.closeTimeout,
		opened:       make(chan struct{}),
		ended:        make(chan struct{}),
		machine:      newMachine(options.open(), settings.connectTimeout, drawOwnerID, settings.log),
		route:        newRoute(len(settings.endpoints), mathrand.Shuffle),
		pauses:       newPauses(settings.backoffMin, settings.backoffMax),
		renews:       renewing{lookedAt: never, at: never},
		hurry:        make(chan struct{}, 1),
		mustOpen:     mustOpen,
		armed:        never,
		drains:       never,
	}
	s.machine.losses = &s.losses
	s.entry = entry{session: func() (*Session, error) { return s, nil }, calls: calls}
	s.input(func(now moment) {
		s.timer = time.AfterFunc(longestSleep, s.ring)
		s.armed = now.After(longestSleep)
	})
	return s
}

// drawOwnerID makes an owner id: 16 random bytes.
func drawOwnerID() ownerID {
	id := make([]byte, 16)
	// Never fails.
	_, _ = rand.Read(id)
	return ownerID(id)
}

// waitUntilOpen waits until the session has been open, or has ended.
func (s *Session) waitUntilOpen(ctx context.Context) error {
	select {
	case <-s.opened:
		return nil
	case <-s.ended:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.failed != nil {
			return s.failed
		}
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hasEnded reports whether it was closed, or could not be opened.
func (s *Session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Info returns the description of the session, and whether it is open at present.
func (s *Session) Info() (SessionInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info == nil {
		return SessionInfo{}, false
	}
	return *s.info, true
}

// Lost returns a channel that is closed as soon as a lock of the session is lost, for whatever reason, or the session has been closed. A
// release is no loss. After a loss, the next call returns another channel.
func (s *Session) Lost() <-chan struct{} {
	return s.losses.onNext()
}

// String returns the session's id and its coordinator, or that it is not open.
func (s *Session) String() string {
	if info, isOpen := s.Info(); isOpen {
		return fmt.Sprintf("session %s at coordinator %s", info.SessionID, info.Coordinator)
	}
	return "session that is not open"
}

// GoString returns what String does.
func (s *Session) GoString() string { return s.String() }

// DrainsIn returns the time left until the coordinator goes away, and whether it has said that it will. Nothing needs to be done about
// it: the session moves to another coordinator by itself, with all that it holds and waits for.
func (s *Session) DrainsIn() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains.Since(clock.Now()), s.drains != never
}

// Close closes the session in order. From the call on, acquires fail with ErrClosed, also those that wait. The contexts of work (Request.Do,
// Election.Run, Hold.Work) are cancelled with the cause ErrClosed, and Close waits for the work to end: at most for the time of
// WithCloseTimeout, then it logs a warning with the locks whose work still runs. It does not wait for work that calls it. Then every hold
// is lost that is left (with LostSessionClosed), such as those of Acquire, and the coordinator releases everything and hands it to the next
// waiters. Returns when it has confirmed that and the session's goroutines have ended, or after a few seconds. Closing it again waits for
// the same.
func (s *Session) Close() {
	s.closeInTime(goroutine())
}

func (s *Session) closeInTime(here string) {
	ctx, cancel := context.WithTimeout(context.Background(), s.closeTimeout)
	defer cancel()
	if left := s.close(ctx, here); len(left) > 0 {
		s.settings.log.Warn("closed the session while work still ran under its locks", "locks", left, "after", s.closeTimeout)
	}
}

// Shutdown does what Close does, and waits for work until the context ends. Returns an error with the locks whose work still ran then,
// and the cause of the context. Work that calls it with its own context is not waited for.
func (s *Session) Shutdown(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	return stillRunning(ctx, s.close(ctx, goroutine()))
}

// close closes the session, and returns the locks whose work still ran when the context ended.
func (s *Session) close(ctx context.Context, here string) (left []string) {
	s.input(s.machine.refuse)
	left = s.bodies.close(ctx, here, s.ended)
	s.input(func(now moment) {
		if s.isOver || s.machine.ending {
			// Another call was first.
			left = nil
		}
		s.machine.close(now)
	})
	<-s.ended
	s.goroutines.Wait()
	return left
}

// acquire acquires locks, and returns one hold for each in the order of the request.
func (s *Session) acquire(ctx context.Context, spec acquireSpec) (Holds, error) {
	if spec.actor == 0 {
		spec.actor = flowOf(ctx).actor
	}
	if failure := spec.check(); failure != nil {
		return nil, &AcquireError{Name: spec.label(), Kind: ErrInvalid, Cause: failure}
	}
	spec.trace = s.settings.traceparent(ctx)
	call := make(acquireCall, 1)
	now, err := s.lockWithRoom(ctx)
	if err != nil {
		return nil, &AcquireError{Name: spec.label(), Kind: err, Cause: context.Cause(ctx)}
	}
	s.lastAcquire++
	id := s.lastAcquire
	s.machine.acquire(now, id, spec, call)
	s.carryOut(now)
	s.mu.Unlock()
	select {
	case result := <-call:
		if result.err != nil {
			return nil, result.err
		}
		return each(result.granted, func(granted granted) *Hold { return newHold(s, granted, spec.actor) }), nil
	case <-ctx.Done():
		s.abandon(id, call)
		return nil, &AcquireError{Name: spec.label(), Kind: ctx.Err(), Cause: context.Cause(ctx)}
	}
}

// lockWithRoom takes the mutex when no more requests are unsent than there may be; not if it returns an error. Returns the time at which
// it began to wait for the mutex: the clock takes a system call, for which nobody else should have to wait.
func (s *Session) lockWithRoom(ctx context.Context) (now moment, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		now := clock.Now()
		s.mu.Lock()
		current := s.current
		if current == nil {
			return now, nil
		}
		room := current.out.full()
		if room == nil {
			return now, nil
		}
		s.mu.Unlock()
		select {
		case <-room:
		case <-current.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// abandon cancels an acquire whose caller waits no longer, and gives back what it was granted meanwhile.
func (s *Session) abandon(id uint64, call acquireCall) {
	s.input(func(now moment) {
		s.machine.cancel(now, id)
		select {
		case result := <-call:
			for _, granted := range result.granted {
				granted.lease.end(now, lostReleased)
				s.machine.release(now, granted.key, "", nil)
			}
		default:
			// From the cancel on nobody answers the call.
		}
	})
}

// release gives one grant back, and waits for the answer.
func (s *Session) release(trace string, what granted) error {
	call := make(holdCall, 1)
	now := clock.Now()
	s.mu.Lock()
	// It ends here first: this process must not believe in the hold once the coordinator could hand it on.
	reason, didEnd := what.lease.end(now, lostReleased)
	if !didEnd {
		// The session forgets a lost one.
		call = nil
	}
	s.machine.release(now, what.key, trace, call)
	s.carryOut(now)
	s.mu.Unlock()
	if !didEnd {
		return &LostError{Name: what.lease.name, Token: what.lease.token, Reason: reason}
	}
	return holdError(what.lease, <-call)
}

// change changes a hold, and waits for the answer or the end of the context.
func (s *Session) change(ctx context.Context, of granted, asked *change) error {
	if err := checkContext(ctx); err != nil {
		return &HoldError{Name: of.lease.name, Kind: ErrInvalid, Cause: err}
	}
	if failure := asked.check(); failure != nil {
		return &HoldError{Name: of.lease.name, Kind: ErrInvalid, Cause: failure}
	}
	call := make(holdCall, 1)
	asked.key, asked.trace = of.key, s.settings.traceparent(ctx)
	s.input(func(now moment) { s.machine.change(now, asked, call) })
	select {
	case result := <-call:
		return holdError(of.lease, result)
	case <-ctx.Done():
		return &HoldError{Name: of.lease.name, Kind: ErrUnconfirmed, Cause: context.Cause(ctx)}
	}
}

// holdError returns the error of a request about a hold.
func holdError(of *lease, result holdResult) error {
	switch result.outcome {
	case holdDone:
		return nil
	case holdLost:
		if result.reason == lostReleased {
			return ErrReleased
		}
		return &LostError{Name: of.name, Token: of.token, Reason: result.reason}
	case holdRefused:
		return &HoldError{Name: of.name, Kind: result.failure.sentinel(), Cause: result.failure}
	default:
		return &HoldError{Name: of.name, Kind: ErrUnconfirmed}
	}
}

// received handles a message on a connection.
func (s *Session) received(c *conn, message *leaseholdv1.SessionResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isLeaving {
		if _, isEnd := message.GetResponse().(*leaseholdv1.SessionResponse_Closed); isEnd {
			c.cut()
		}
		return
	}
	now := clock.Now()
	switch {
	case c == s.current, c == s.next:
		s.machine.message(now, c.number, message)
	case slices.Contains(s.overdue, c):
		s.machine.overdueMessage(now, message)
	}
	s.carryOut(now)
}

// streamEnded handles the end of the stream on a connection.
func (s *Session) streamEnded(c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	url := c.candidate.endpoint.url
	switch c {
	case s.current:
		var failure *Failure
		if !errors.Is(err, io.EOF) {
			failure = failureFrom(url, err)
		}
		end := s.machine.streamEndedBy(now, c.number, failure)
		switch {
		case end == endStopped:
			s.settings.log.Info("the coordinator stopped; looking for one to resume the session on", "endpoint", url)
			select {
			case s.hurry <- struct{}{}:
			default:
			}
			s.pauses.startAnew()
		case failure != nil:
			s.settings.log.Warn("the stream to the coordinator ended", "endpoint", url, "error", failure)
		default:
			s.settings.log.Info("the coordinator ended the stream", "endpoint", url)
		}
		s.currentEnded(now)
	case s.next:
		why := endedBefore(url, err)
		s.next = nil
		s.machine.attemptFailed(now, fateOf(why))
		c.decide(why)
	default:
		if i := slices.Index(s.overdue, c); i >= 0 {
			why := endedBefore(url, err)
			s.settings.log.Debug("a stream that had not opened in time ended", "error", why)
			s.overdue = slices.Delete(s.overdue, i, i+1)
			s.machine.overdueEnded(now, fateOf(why))
		}
	}
	s.carryOut(now)
}

// endedBefore returns the error of a stream that ended before the session was open on it.
func endedBefore(url string, err error) *ConnectError {
	if errors.Is(err, io.EOF) {
		return &ConnectError{Endpoint: url, kind: connectEnded}
	}
	return connectFailed(url, failureFrom(url, err))
}

// currentEnded forgets the connection of the stream that had the session open. The mutex is taken.
func (s *Session) currentEnded(now moment) {
	s.info, s.drains = nil, never
	s.route.failed(s.current.candidate, now)
	s.current = nil
	if s.endRound != nil {
		return
	}
	// Another one may be there at once. What ended as soon as it was open is paused for all the same.
	elsewhere := s.route.isSeveral && s.pauses.lived(now)
	s.pause = s.pauses.pause(now)
	if elsewhere {
		s.pause = 0
	}
}

// ring does what is due.
func (s *Session) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = never
	if s.isOver {
		return
	}
	now := clock.Now()
	s.machine.tick(now)
	if s.current != nil {
		files := s.settings.credentials
		if s.renews.isDue(now, func() bool { return files.version() != s.current.credentials }) {
			s.settings.log.Debug("moving the session to a connection with newer credentials")
			s.machine.outdated()
		}
	}
	s.carryOut(now)
}

// input gives the machine an input, and does what it asks for.
func (s *Session) input(f func(now moment)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	f(now)
	s.carryOut(now)
}

// carryOut does what the machine asks for. Every input ends with this. The mutex is taken.
func (s *Session) carryOut(now moment) {
	for i := 0; i < len(s.machine.outputs); i++ {
		switch o := &s.machine.outputs[i]; o.kind {
		case outSend:
			if c := s.connOf(o.stream); c != nil {
				c.out.push(o.request)
			}
		case outAcquired:
			o.acquire <- acquireResult{o.granted, o.err}
		case outHoldDone:
			o.hold <- o.result
		case outOpened:
			s.openedOn(now, o.info)
		case outDraining:
			s.settings.log.Info("the coordinator is going away", "in", o.until.Since(now))
			s.drains = o.until
		case outHangUp:
			s.hungUp(now, o.stream, o.connect)
		case outLeave:
			if c := s.connOf(o.stream); c != nil && c == s.next {
				s.next = nil
				c.leave()
				c.decide(&ConnectError{Endpoint: c.candidate.endpoint.url, kind: connectEnded})
			}
		case outEnded:
			s.over()
		}
	}
	clear(s.machine.outputs)
	s.machine.outputs = s.machine.outputs[:0]
	if s.isOver {
		return
	}
	s.connectIfWanted()
	if wanted := min(s.machine.alarm(), now.After(longestSleep)); wanted < s.armed {
		s.armed = wanted
		s.timer.Reset(wanted.Since(now))
	}
}

// connOf returns the connection of a stream; nil if it is neither current nor next.
func (s *Session) connOf(stream uint64) *conn {
	switch {
	case s.current != nil && s.current.number == stream:
		return s.current
	case s.next != nil && s.next.number == stream:
		return s.next
	default:
		return nil
	}
}

// openedOn makes the next connection the current one.
func (s *Session) openedOn(now moment, info *SessionInfo) {
	s.settings.log.Debug("session opened", "session", info.SessionID, "coordinator", info.Coordinator)
	if s.current != nil {
		s.current.leave()
	}
	s.current, s.next = s.next, nil
	s.current.decide(nil)
	s.cutOverdue()
	s.pause = 0
	s.pauses.opened(now)
	s.info, s.drains = info, never
	s.mustOpen = false
	select {
	case <-s.opened:
	default:
		close(s.opened)
	}
}

// hungUp gives a connection up. The error is nil for one on which the session was open.
func (s *Session) hungUp(now moment, stream uint64, err *ConnectError) {
	c := s.connOf(stream)
	switch {
	case c == nil:
	case c == s.current:
		s.currentEnded(now)
		c.cut()
	case err == nil:
		s.next = nil
		c.cut()
		c.decide(&ConnectError{Endpoint: c.candidate.endpoint.url, kind: connectEnded})
	default:
		s.next = nil
		// One that was never asked keeps nothing.
		if fateOf(err) == fateKept && c.isStarted {
			s.overdue = append(s.overdue, c)
			if len(s.overdue) > mostOverdue {
				s.overdue[0].cut()
				s.overdue = s.overdue[1:]
				// As if its coordinator had ended it.
				s.machine.overdueEnded(now, fateDropped)
			}
		} else {
			c.cut()
		}
		c.decide(err)
	}
}

func (s *Session) cutOverdue() {
	for _, c := range s.overdue {
		c.cut()
	}
	s.overdue = nil
}

// over ends the session. Connections that say goodbye go on for a while.
func (s *Session) over() {
	if s.isOver {
		return
	}
	s.isOver = true
	s.timer.Stop()
	for _, c := range []*conn{s.current, s.next} {
		if c != nil {
			c.cut()
			c.decide(&ConnectError{Endpoint: c.candidate.endpoint.url, kind: connectEnded})
		}
	}
	s.current, s.next, s.info = nil, nil, nil
	s.cutOverdue()
	if s.endRound != nil {
		s.endRound()
	}
	s.losses.note(true)
	close(s.ended)
}
