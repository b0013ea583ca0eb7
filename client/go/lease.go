package leasehold

import (
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// moment is a point on the clock that judges leases.
type moment = clock.Moment

// ReleaseRequest is an operator's request to release a lock, as its holder receives it. The lock is held on: finish what must be
// finished and release it, or go on.
type ReleaseRequest struct {
	// Reason says why, for people; empty if the operator gave no reason.
	Reason string
	// until is when the time is over that the operator gave.
	until moment
}

// TimeLeft returns the time left of that which the operator gave, and whether the operator gave any. Nothing happens when it is
// over.
func (r ReleaseRequest) TimeLeft() (time.Duration, bool) {
	if r.until == clock.Never {
		return 0, false
	}
	return r.until.Since(clock.Now()), true
}

// releaseRequest returns the request as it was received now.
func releaseRequest(asked *leaseholdv1.SessionReleaseRequested, now moment) ReleaseRequest {
	until := clock.Never
	if asked.GetWithin() != nil {
		until = now.After(duration(asked.GetWithin()))
	}
	return ReleaseRequest{Reason: asked.GetReason(), until: until}
}

// losses are the losses of all locks of a session, for whoever waits for one.
type losses struct {
	mu     sync.Mutex
	news   signal
	isOver bool
}

// onNext returns a channel that is closed at the next loss, and is closed once the session is over.
func (l *losses) onNext() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.news.next()
	if l.isOver {
		l.news.send()
	}
	return next
}

// note notes a loss, or the end of the session.
func (l *losses) note(isOver bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOver = l.isOver || isOver
	l.news.send()
}

// lease is the state of one hold, which its Hold and its session share: held, suspended, or ended. All of them agree about its state
// at any moment.
type lease struct {
	name  string
	token int64
	// permits is the number of permits of a semaphore; 0 in other modes.
	permits int64
	// losses hears of its loss; nil if nothing does.
	losses *losses

	mu sync.Mutex
	// state is StateHeld or StateSuspended until it is found ended.
	state State
	// reason says why it has ended.
	reason LostReason
	// until is the deadline, while it is held or suspended.
	until moment
	// disowned is set while it is suspended because the coordinator no longer knows who the client is.
	disowned bool
	// endsAt is the bound: the latest end, whatever is answered.
	endsAt moment
	// request is the last request to release it.
	request *ReleaseRequest
	// changed tells of changes of the state or the request, ended of the end.
	changed, ended signal
	// watchers are called once, when it ends.
	watchers map[int]func(State)
	lastKey  int

	// releasing releases it once, whoever asks for it; releaseErr is the result.
	releasing  sync.Once
	releaseErr error
}

// newLease returns a hold that lasts until the deadline unless it is extended, and never longer than endsAt.
func newLease(name string, token int64, permits int64, deadline, endsAt moment) *lease {
	return &lease{
		name:    name,
		token:   token,
		permits: permits,
		state:   StateHeld,
		until:   min(deadline, endsAt),
		endsAt:  endsAt,
	}
}

// hasEnded reports whether it is lost or released. The lock is taken.
func (l *lease) hasEnded() bool {
	return l.state == StateLost || l.state == StateReleased
}

// settle ends the hold if its deadline has passed. The lock is taken.
func (l *lease) settle(now moment) {
	if l.hasEnded() || now < l.until {
		return
	}
	switch {
	case l.endsAt <= l.until:
		l.reason = LostMaxHold
	case l.state == StateHeld:
		l.reason = LostExpired
	case l.disowned:
		l.reason = LostUnauthenticated
	default:
		l.reason = LostSessionEnded
	}
	l.state = StateLost
}

// with changes the state, as it is at now. The first caller after the deadline ends the hold for all callers, so that the answer
// "lost" is never taken back.
func (l *lease) with(now moment, change func()) {
	l.mu.Lock()
	before, asked := l.state, l.request
	l.settle(now)
	change()
	state, has := l.state, l.state != before || l.request != asked
	if !has {
		l.mu.Unlock()
		return
	}
	l.changed.send()
	var watchers map[int]func(State)
	if l.hasEnded() && (before == StateHeld || before == StateSuspended) {
		l.ended.send()
		watchers, l.watchers = l.watchers, nil
	}
	l.mu.Unlock()
	if state == StateLost && before != StateLost && l.losses != nil {
		l.losses.note(false)
	}
	for _, watcher := range watchers {
		watcher(state)
	}
}

// stateAt returns the state, and the reason if it is lost.
func (l *lease) stateAt(now moment) (state State, reason LostReason) {
	l.with(now, func() { state, reason = l.state, l.reason })
	return state, reason
}

// alive returns the moment at which it is lost, if it is held or suspended.
func (l *lease) alive(now moment) (deadline moment, isAlive bool) {
	l.with(now, func() { deadline, isAlive = l.until, !l.hasEnded() })
	return deadline, isAlive
}

// endReason returns why it has ended; lostReleased for one that was released.
func (l *lease) endReason(now moment) (reason LostReason, hasEnded bool) {
	l.with(now, func() { reason, hasEnded = l.reason, l.hasEnded() })
	return reason, hasEnded
}

// extend moves the deadline to a later moment. Does nothing for a hold that is not held.
func (l *lease) extend(to moment) {
	l.mu.Lock()
	if l.state == StateHeld {
		l.until = max(l.until, min(to, l.endsAt))
	}
	l.mu.Unlock()
}

// suspend suspends the hold because its stream has ended: until the limit, or its deadline if that is earlier. The limit is Never if
// the coordinator ended the stream because it no longer knows the client.
func (l *lease) suspend(now, limit moment) {
	l.with(now, func() {
		if l.hasEnded() {
			return
		}
		l.disowned = limit == clock.Never || l.state == StateSuspended && l.disowned
		l.state = StateSuspended
		l.until = min(l.until, limit)
	})
}

// resume holds it until a moment, which may be before its deadline so far, because another stream has taken it over. Its bound is the
// earlier of the one so far and endsAt. Does nothing for a hold that has ended.
func (l *lease) resume(now, to, endsAt moment) {
	l.with(now, func() {
		if l.hasEnded() {
			return
		}
		l.endsAt = min(l.endsAt, endsAt)
		l.state, l.until = StateHeld, min(to, l.endsAt)
	})
}

// end ends the hold; the first reason stays. Returns that one and false if it had ended before, be it by its deadline.
func (l *lease) end(now moment, reason LostReason) (first LostReason, didEnd bool) {
	l.with(now, func() {
		if l.hasEnded() {
			first = l.reason
			return
		}
		l.state, l.reason = StateLost, reason
		if reason == lostReleased {
			l.state = StateReleased
		}
		first, didEnd = reason, true
	})
	return first, didEnd
}

// ask notes that an operator asks for its release.
func (l *lease) ask(now moment, request ReleaseRequest) {
	l.with(now, func() {
		if !l.hasEnded() {
			l.request = &request
		}
	})
}

// check returns nil while it is held, and otherwise why it must not be acted on.
func (l *lease) check(now moment) error {
	state, reason := l.stateAt(now)
	switch state {
	case StateHeld:
		return nil
	case StateSuspended:
		return ErrSuspended
	case StateReleased:
		return ErrReleased
	default:
		return &LostError{Name: l.name, Token: l.token, Reason: reason}
	}
}

// onChange returns a channel that is closed at the next change.
func (l *lease) onChange() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed.next()
}

// onEnd returns a channel that is closed when it has ended.
func (l *lease) onEnd() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.ended.next()
	if l.hasEnded() {
		l.ended.send()
	}
	return end
}

// watch calls the function when the hold ends, at once if it has. The returned function ends the watch.
func (l *lease) watch(watcher func(State)) (stop func()) {
	l.mu.Lock()
	if l.hasEnded() {
		state := l.state
		l.mu.Unlock()
		watcher(state)
		return func() {}
	}
	defer l.mu.Unlock()
	if l.watchers == nil {
		l.watchers = make(map[int]func(State))
	}
	l.lastKey++
	key := l.lastKey
	l.watchers[key] = watcher
	return func() {
		l.mu.Lock()
		delete(l.watchers, key)
		l.mu.Unlock()
	}
}
