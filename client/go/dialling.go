package leasehold

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold.dev/go/internal/clock"
)

// connectIfWanted begins a round of attempts if there is to be another connection, and ends it if there is not. The mutex is taken.
func (s *Session) connectIfWanted() {
	switch {
	case s.endRound == nil && s.machine.wantsConnection():
		if s.current != nil {
			s.route.failed(s.current.candidate, clock.Now())
		}
		ctx, endRound := context.WithCancel(context.Background())
		s.endRound = endRound
		pause := s.pause
		s.pause = 0
		select {
		case <-s.hurry:
		default:
		}
		s.goroutines.Add(1)
		go s.round(ctx, pause)
	case s.endRound != nil && !s.machine.wantsConnection() && s.machine.next == nil:
		// The machine sees to the attempts that it knows.
		s.endRound()
	}
}

// round tries each coordinator once, after a pause.
func (s *Session) round(ctx context.Context, pause time.Duration) {
	defer s.goroutines.Done()
	isOpen, errs := s.attempts(ctx, pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endRound()
	s.endRound = nil
	if s.isOver {
		return
	}
	now := clock.Now()
	switch {
	case isOpen && s.current == nil:
		// It has ended as soon as it was open.
		s.pause = s.pauses.pause(now)
	case !isOpen && s.machine.wantsConnection() && len(errs) > 0:
		s.roundFailed(now, errs)
	}
	s.carryOut(now)
}

// roundFailed handles a round in which no coordinator opened the session. The mutex is taken.
func (s *Session) roundFailed(now moment, errs []*ConnectError) {
	if s.mustOpen {
		// Whoever opens a session wants to know at once.
		s.failed = mostTelling(errs)
		s.machine.close(now)
		return
	}
	err := leastFinal(errs)
	if goesOn, wasOutdated := s.machine.goesOn(now); wasOutdated {
		s.renews.failed(now)
		s.settings.log.Warn("newer credentials are not accepted, and those before stay in use", "error", err)
		return
	} else if goesOn {
		s.settings.log.Info("failed to move the session, as its coordinator asked; it stays on its stream", "error", err)
		return
	}
	s.settings.log.Debug("failed to open a session", "error", err)
	s.machine.connectFailed(now, err)
	asked := retryAfter(err)
	if asked == 0 && s.machine.isOrphaned(now) {
		s.pause = min(s.pauses.pause(now), orphanedPause())
	} else {
		s.pause = s.pauses.pauseAsAsked(now, asked)
	}
}

// orphanedPause returns the longest pause between two rounds while what a stopped coordinator left can still be resumed: half a second
// at most, partly at random, since all of its clients come back at once.
func orphanedPause() time.Duration {
	return 250*time.Millisecond + rand.N(250*time.Millisecond)
}

// attempts tries each coordinator once. Reports whether the session is open on one, and otherwise why not.
func (s *Session) attempts(ctx context.Context, pause time.Duration) (isOpen bool, errs []*ConnectError) {
	if pause > 0 && !sleep(ctx, pause, s.hurry) {
		return false, nil
	}
	candidates, errs := s.settings.find(ctx)
	s.mu.Lock()
	candidates = s.route.round(candidates, clock.Now())
	s.mu.Unlock()
	for _, candidate := range candidates {
		err := s.attempt(ctx, candidate)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
		s.settings.log.Debug("failed to open a session", "error", err)
		s.mu.Lock()
		s.route.failed(candidate, clock.Now())
		s.mu.Unlock()
		errs = append(errs, err)
	}
	return false, errs
}

// attempt tries to open the session at one coordinator. Returns nil once it is open there.
func (s *Session) attempt(ctx context.Context, to candidate) *ConnectError {
	given := &ConnectError{Endpoint: to.endpoint.url, kind: connectEnded}
	s.mu.Lock()
	limit := s.machine.attemptLimit(clock.Now())
	s.mu.Unlock()
	credentials := s.settings.credentials.version()
	dialled, err := s.settings.dial(ctx, to, limit)
	if err != nil {
		return err
	}
	c := newConn(s, to, credentials, dialled)
	fail := func(err *ConnectError) *ConnectError {
		c.cut()
		dialled.Close()
		return err
	}
	s.mu.Lock()
	now := clock.Now()
	// What there is is not touched before somebody is there to take it over.
	limit = 0
	if s.machine.isMoving() || s.machine.isOrphaned(now) {
		limit = s.machine.attemptLimit(now)
	} else if !s.adopt(now, c) {
		s.mu.Unlock()
		return fail(given)
	}
	s.mu.Unlock()
	goesOn := func() bool { return true }
	if limit > 0 {
		// The session does not know it yet, and would not cut it.
		goesOn = context.AfterFunc(ctx, c.cut)
	}
	if err := c.start(limit); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.next == c {
			now := clock.Now()
			s.next = nil
			s.machine.attemptFailed(now, fateOf(err))
			s.carryOut(now)
		}
		return fail(err)
	}
	s.mu.Lock()
	if !goesOn() || limit > 0 && !s.adopt(clock.Now(), c) {
		s.mu.Unlock()
		return fail(given)
	}
	c.isStarted = true
	s.goroutines.Add(2)
	s.mu.Unlock()
	go c.send()
	go c.receive()
	return <-c.decided
}

// adopt makes it the next connection, unless none is wanted any more. The mutex is taken.
func (s *Session) adopt(now moment, c *conn) bool {
	if s.isOver || !s.machine.wantsConnection() {
		return false
	}
	// Known by its number before the machine asks for something to be sent on it.
	c.number = s.machine.lastStream + 1
	s.next = c
	s.machine.connected(now, c.candidate.endpoint.url)
	s.carryOut(now)
	return true
}

// mostTelling returns the error to report: an answer says more than the lack of one.
func mostTelling(errs []*ConnectError) *ConnectError {
	return best(errs, (*ConnectError).isAnswer, (*ConnectError).Retryable)
}

// leastFinal returns the error that leaves most hope: the session waits as long as one coordinator may serve later.
func leastFinal(errs []*ConnectError) *ConnectError {
	return best(errs, (*ConnectError).Retryable, (*ConnectError).isAnswer)
}

// best returns the last of the errors for which most is true, the first criterion before the second.
func best(errs []*ConnectError, criteria ...func(*ConnectError) bool) *ConnectError {
	for _, isBetter := range criteria {
		if slices.ContainsFunc(errs, isBetter) {
			errs = slices.DeleteFunc(slices.Clone(errs), func(err *ConnectError) bool { return !isBetter(err) })
		}
	}
	return errs[len(errs)-1]
}
