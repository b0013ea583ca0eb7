package leasehold

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// lastActor is the number of the last actor. It counts over all sessions of this process, so that an actor used in another session is a
// new one there.
var lastActor atomic.Uint64

// Actor is a sequential flow inside a client, such as a goroutine, that does one thing after the other: the unit of reentrancy and of
// deadlocks. The work of Request.Do and Election.Run is such a flow by itself, as far as it passes its context on. A request without an
// actor has no relation to any other request, not even of the same session. With one:
//
//   - the actor can hold a lock more than once, with Request.Reentrant, where two goroutines that share a client still exclude each
//     other;
//   - the coordinator refuses a request for a lock that the actor holds already (ErrSelfDeadlock) instead of waiting for itself;
//   - if actors wait for one another in a circle, the coordinator ends one of the waits (ErrDeadlock).
//
// All that holds only as long as the flow that has it waits for one thing at a time: don't share one among goroutines. It counts within
// one session. With another session, it is another actor.
type Actor struct {
	number uint64
}

// NewActor makes an actor, different from all others.
func NewActor() Actor {
	return Actor{lastActor.Add(1)}
}

// Number returns the actor's number, which listings and descriptions of deadlocks show.
func (a Actor) Number() uint64 {
	return a.number
}

// RequestOf is a request for locks, which are then held as an H: see Request and MultiRequest, which clients and sessions make. Its settings
// return a changed copy, so that a request can be kept and used many times. Nothing is sent before Do, TryDo, Acquire or Try.
type RequestOf[H any] struct {
	// session returns the session to ask on.
	session func() (*Session, error)
	spec    acquireSpec
	// as returns the holds as an H.
	as func(Holds) H
}

// Request is a request for one lock, or for permits of a semaphore. See RequestOf for its methods.
type Request = RequestOf[*Hold]

// MultiRequest is a request for several locks, which are granted all together or not at all; see RequestOf for its methods. Its settings are
// those of each lock. The order of the names does not matter for deadlocks: requests for several names never block one another for good.
// The loss of one lock stops the work of Do. Errors name all of the locks, with commas in between.
type MultiRequest = RequestOf[Holds]

// Shared asks for a shared hold: together with other shared holders, and never with an exclusive one. A request behind a waiting writer
// waits for that writer. Default: exclusive. A request for permits fails with ErrInvalid then.
func (r RequestOf[H]) Shared() RequestOf[H] {
	r.spec.setShared()
	return r
}

// Wait sets the time to wait: 0 to 24 h, where 0 means not to wait. Default: that of WithWait, or else as long as it takes, over reconnects
// too, until the context ends.
func (r RequestOf[H]) Wait(wait time.Duration) RequestOf[H] {
	r.spec.setWait(wait)
	return r
}

// Value attaches a value to the hold for others to see: at most 4 KiB. Default: empty.
func (r RequestOf[H]) Value(value []byte) RequestOf[H] {
	r.spec.value = bytes.Clone(value)
	return r
}

// LockDelay sets the time for which the name stays closed, or the permits stay taken, if the hold ends uncleanly, that is in any way
// other than a release: 0 to the maximum TTL. Default: 0. Use it for work that can neither be fenced nor be stopped at the moment its
// lock is lost.
func (r RequestOf[H]) LockDelay(delay time.Duration) RequestOf[H] {
	r.spec.lockDelay = delay
	return r
}

// MaxHold bounds the time for which the lock is held, however healthy this client is: 1 s to 365 days, counted from its grant. Default:
// no bound but that of the coordinator's rules. The lock is lost at the end with LostMaxHold; Hold.EndsIn knows it from the start.
func (r RequestOf[H]) MaxHold(bound time.Duration) RequestOf[H] {
	r.spec.maxHold, r.spec.isBounded = bound, true
	return r
}

// Actor asks in the name of an actor. Default: that of the work whose context the request is made with, or else none.
func (r RequestOf[H]) Actor(actor Actor) RequestOf[H] {
	r.spec.actor = actor.number
	return r
}

// Reentrant allows the actor to hold what it holds already once more, under the same token. The lock comes free when the last of its
// holds is released. Needs an Actor, or the context of work.
func (r RequestOf[H]) Reentrant() RequestOf[H] {
	r.spec.reentrant = true
	return r
}

// Acquire waits for the lock, or for all of the locks. If the context ends first, the request is cancelled, and the error is the context's
// (an AcquireError that is context.Canceled or context.DeadlineExceeded); if the coordinator granted it meanwhile, the session gives it back
// at once.
//
// It fails with ErrTimedOut if the lock did not come free within the wait, ErrUnavailable if no coordinator answered within it, ErrClosed
// if the session is closed, and otherwise with the coordinator's refusal. A lost connection is not an error, and neither is a store that the
// coordinator can't reach: the session asks again until the wait is over.
func (r RequestOf[H]) Acquire(ctx context.Context) (hold H, err error) {
	holds, err := r.acquire(ctx)
	if err != nil {
		return hold, err
	}
	for _, one := range holds {
		warnIfForgotten(one, one.held)
	}
	return r.as(holds), nil
}

// Try acquires the lock if it is free. Fails with ErrBusy if it is not, or if others wait for it, and with ErrUnavailable if no
// coordinator can be asked. Ignores Wait.
func (r RequestOf[H]) Try(ctx context.Context) (hold H, err error) {
	return r.Wait(0).Acquire(ctx)
}

// Do acquires the lock, runs the work while holding it, and releases it when the work has returned, also if it panics. If the lock is
// lost, the work's context is cancelled with the cause ErrLost; Do then waits for the work to return. While the lock is only suspended,
// the work goes on, and Hold.Check tells it not to act.
//
// The requests that the work makes with its context are those of one flow: they ask in the name of the request's Actor, or of one of their
// own, so that asking for the lock again fails at once with ErrSelfDeadlock, or succeeds with Reentrant. See NewFlow for goroutines.
//
// When the client or the session is closed, the work's context is cancelled with the cause ErrClosed. Closing then waits for the work to
// return, before it lets go of the lock. Do returns ErrClosed if the work says that it was cancelled.
//
// Returns the work's error. If the lock was lost before the work was done, the error is ErrLost, and also the work's own if that says
// more: the work counts only if it ran under the lock from beginning to end.
func (r RequestOf[H]) Do(ctx context.Context, work func(ctx context.Context, hold H) error) error {
	if work == nil {
		return &AcquireError{Name: r.spec.label(), Kind: ErrInvalid, Cause: errNoWork}
	}
	if r.spec.actor == 0 {
		r.spec.actor = flowOf(ctx).actor
	}
	if r.spec.actor == 0 {
		r.spec.actor = NewActor().number
	}
	holds, err := r.acquire(ctx)
	if err != nil {
		return err
	}
	return runUnder(ctx, r.spec.label(), holds, holds.Release, func(ctx context.Context) error { return work(ctx, r.as(holds)) })
}

// TryDo does what Do does if the lock is free, and reports whether the work ran. A lock that is busy is no error: then it returns false and
// nil. Ignores Wait.
func (r RequestOf[H]) TryDo(ctx context.Context, work func(ctx context.Context, hold H) error) (ran bool, err error) {
	tried := work
	if work != nil {
		tried = func(ctx context.Context, hold H) error {
			ran = true
			return work(ctx, hold)
		}
	}
	if err = r.Wait(0).Do(ctx, tried); !ran && errors.Is(err, ErrBusy) {
		return false, nil
	}
	return ran, err
}

func (r RequestOf[H]) acquire(ctx context.Context) (Holds, error) {
	session, err := r.on(ctx)
	if err != nil {
		return nil, err
	}
	if wait := session.settings.wait; wait > 0 && !r.spec.waits {
		r.spec.setWait(wait)
	}
	return session.acquire(ctx, r.spec)
}

// on returns the session to ask on.
func (r RequestOf[H]) on(ctx context.Context) (session *Session, err error) {
	kind := ErrInvalid
	switch {
	case r.session == nil:
		err = errNoClient
	case ctx == nil:
		err = errNoContext
	default:
		kind = ErrClosed
		session, err = r.session()
	}
	if err != nil {
		return nil, &AcquireError{Name: r.spec.label(), Kind: kind, Cause: err}
	}
	return session, nil
}

// setShared asks for shared holds. The locks are those of other copies of the request too.
func (s *acquireSpec) setShared() {
	s.locks = slices.Clone(s.locks)
	for i, lock := range s.locks {
		s.locks[i] = lock.shared()
	}
}

func (s *acquireSpec) setWait(wait time.Duration) {
	s.waits, s.wait = true, wait
}

// Semaphore is a name that is held by permits, up to a limit. Every request names the limit: those who hold or wait for permits agree on
// one, and the coordinator refuses a request with another (ErrLimitMismatch), unless it has a revision. Waiters are served in order, so
// that a request for many permits is not starved by others for few.
type Semaphore struct {
	session  func() (*Session, error)
	name     string
	limit    int64
	revision int64
}

// LimitRevision sets the revision of the decision for this limit, for example the number of the deployment that changes it. A request with
// a greater revision than the one in force replaces the limit at once; one with a smaller revision follows the limit in force. To go back,
// use a greater revision again. 0 to 4294967295. Default: 0.
func (s Semaphore) LimitRevision(revision int64) Semaphore {
	s.revision = revision
	return s
}

// Permits requests this many permits: 1 to the limit.
func (s Semaphore) Permits(permits int64) Request {
	return s.request(Permits(s.name, permits, s.limit))
}

// PermitsBetween requests as many permits as are free when its turn comes, but no fewer than least and no more than most: 1 to the limit
// each. Hold.Permits says how many were granted.
func (s Semaphore) PermitsBetween(least, most int64) Request {
	return s.request(Permits(s.name, most, s.limit).AtLeast(least))
}

func (s Semaphore) request(spec LockSpec) Request {
	return requestOne(s.session, spec.LimitRevision(s.revision))
}

// entry has the methods by which clients and sessions begin requests.
type entry struct {
	session func() (*Session, error)
	calls   *calls
}

// Lock requests the lock of this name: 1 to 512 bytes of UTF-8 without control characters, matched whole.
func (e entry) Lock(name string) Request {
	return requestOne(e.session, Exclusive(name))
}

func requestOne(session func() (*Session, error), spec LockSpec) Request {
	return Request{session: session, spec: acquireSpec{locks: []LockSpec{spec}}, as: func(holds Holds) *Hold { return holds[0] }}
}

// LockAll requests exclusive holds of several locks: 1 to 64 of different names unless the coordinator is
// configured otherwise, all together or none.
func (e entry) LockAll(names ...string) MultiRequest {
	return e.LockAllOf(each(names, Exclusive)...)
}

// LockAllOf requests several locks, each in a mode of its own: 1 to 64 of different names unless the coordinator is
// configured otherwise, all together or none.
func (e entry) LockAllOf(specs ...LockSpec) MultiRequest {
	spec := acquireSpec{locks: slices.Clone(specs), several: true}
	return MultiRequest{session: e.session, spec: spec, as: func(holds Holds) Holds { return holds }}
}

// Semaphore returns the semaphore of this name with limit permits: 1 to 1000000.
func (e entry) Semaphore(name string, limit int64) Semaphore {
	return Semaphore{session: e.session, name: name, limit: limit}
}

// Election returns the election of this name. It is the exclusive lock of that name: the leader is its holder, the candidates are its
// waiters in order, and the value is that of the hold.
func (e entry) Election(name string) Election {
	return Election{request: e.Lock(name), calls: e.calls}
}
