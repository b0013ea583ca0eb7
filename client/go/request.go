package leasehold

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
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

// request is what requests for one lock and for several have in common.
type request struct {
	// session returns the session to ask on.
	session func() (*Session, error)
	spec    acquireSpec
}

func (r request) acquire(ctx context.Context, spec acquireSpec) (Holds, error) {
	session, err := r.on(ctx)
	if errors.Is(err, ErrInvalid) {
		return nil, &AcquireError{Name: spec.label(), Kind: ErrInvalid, Cause: err}
	}
	if err != nil {
		return nil, &AcquireError{Name: spec.label(), Kind: ErrClosed, Cause: err}
	}
	if wait := session.settings.wait; wait > 0 && !spec.waits {
		spec.setWait(wait)
	}
	return session.acquire(ctx, spec)
}

// do acquires the locks and runs the work under them.
func (r request) do(ctx context.Context, work func(context.Context, Holds) error) error {
	if work == nil {
		return &AcquireError{Name: r.spec.label(), Kind: ErrInvalid, Cause: errNoWork}
	}
	if r.spec.actor == 0 {
		r.spec.actor = flowOf(ctx).actor
	}
	if r.spec.actor == 0 {
		r.spec.actor = NewActor().number
	}
	holds, err := r.acquire(ctx, r.spec)
	if err != nil {
		return err
	}
	return runUnder(ctx, holds[0].session, holds, r.spec.actor, func(ctx context.Context) error { return work(ctx, holds) })
}

// tryDo does what do does if the locks are free. Reports whether the work ran.
func (r request) tryDo(ctx context.Context, work func(context.Context, Holds) error) (ran bool, err error) {
	r.spec.setWait(0)
	var tried func(context.Context, Holds) error
	if work != nil {
		tried = func(ctx context.Context, holds Holds) error {
			ran = true
			return work(ctx, holds)
		}
	}
	if err = r.do(ctx, tried); !ran && errors.Is(err, ErrBusy) {
		return false, nil
	}
	return ran, err
}

// on returns the session to ask on.
func (r request) on(ctx context.Context) (*Session, error) {
	if r.session == nil {
		return nil, errNoClient
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	return r.session()
}

func (r request) try(ctx context.Context) (Holds, error) {
	r.spec.waits, r.spec.wait = true, 0
	return r.acquire(ctx, r.spec)
}

// setShared asks for shared holds. The locks are those of other copies of the request too.
func (s *acquireSpec) setShared() {
	s.locks = slices.Clone(s.locks)
	for i, lock := range s.locks {
		s.locks[i] = lock.shared()
	}
}

func (s *acquireSpec) setMaxHold(bound time.Duration) {
	s.maxHold, s.isBounded = bound, true
}

func (s *acquireSpec) setWait(wait time.Duration) {
	s.waits, s.wait = true, wait
}

// Request is a request for one lock, or for permits of a semaphore. Its settings return a changed copy, so that a request can be kept and
// used many times. Nothing is sent before Do, Acquire or Try.
type Request struct {
	request request
}

// Shared asks for a shared hold: together with other shared holders, and never with an exclusive one. A request behind a waiting writer
// waits for that writer. Default: exclusive. A request for permits fails with ErrInvalid then.
func (r Request) Shared() Request {
	r.request.spec.setShared()
	return r
}

// Wait sets the time to wait: 0 to 24 h, where 0 means not to wait. Default: that of WithWait, or else as long as it takes, over reconnects
// too, until the context ends.
func (r Request) Wait(wait time.Duration) Request {
	r.request.spec.setWait(wait)
	return r
}

// Value attaches a value to the hold for others to see: at most 4 KiB. Default: empty.
func (r Request) Value(value []byte) Request {
	r.request.spec.value = bytes.Clone(value)
	return r
}

// LockDelay sets the time for which the name stays closed, or the permits stay taken, if the hold ends uncleanly, that is in any way
// other than a release: 0 to the maximum TTL. Default: 0. Use it for work that can neither be fenced nor be stopped at the moment its
// lock is lost.
func (r Request) LockDelay(delay time.Duration) Request {
	r.request.spec.lockDelay = delay
	return r
}

// MaxHold bounds the time for which the lock is held, however healthy this client is: 1 s to 365 days, counted from its grant. Default:
// no bound but that of the coordinator's rules. The lock is lost at the end with LostMaxHold; Hold.EndsIn knows it from the start.
func (r Request) MaxHold(bound time.Duration) Request {
	r.request.spec.setMaxHold(bound)
	return r
}

// Actor asks in the name of an actor. Default: that of the work whose context the request is made with, or else none.
func (r Request) Actor(actor Actor) Request {
	r.request.spec.actor = actor.number
	return r
}

// Reentrant allows the actor to hold what it holds already once more, under the same token. The lock comes free when the last of its
// holds is released. Needs an Actor, or the context of work.
func (r Request) Reentrant() Request {
	r.request.spec.reentrant = true
	return r
}

// Acquire waits for the lock. If the context ends first, the request is cancelled, and the error is the context's (an AcquireError that
// is context.Canceled or context.DeadlineExceeded); if the coordinator granted it meanwhile, the session gives it back at once.
//
// It fails with ErrTimedOut if the lock did not come free within the wait, ErrUnavailable if no coordinator answered within it, ErrClosed
// if the session is closed, and otherwise with the coordinator's refusal. A lost connection is not an error, and neither is a store that the
// coordinator can't reach: the session asks again until the wait is over.
func (r Request) Acquire(ctx context.Context) (*Hold, error) {
	return first(r.request.acquire(ctx, r.request.spec))
}

// Try acquires the lock if it is free. Fails with ErrBusy if it is not, or if others wait for it, and with ErrUnavailable if no
// coordinator can be asked. Ignores Wait.
func (r Request) Try(ctx context.Context) (*Hold, error) {
	return first(r.request.try(ctx))
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
func (r Request) Do(ctx context.Context, work func(ctx context.Context, hold *Hold) error) error {
	return r.request.do(ctx, ofOne(work))
}

// TryDo does what Do does if the lock is free, and reports whether the work ran. A lock that is busy is no error: then it returns false and
// nil. Ignores Wait.
func (r Request) TryDo(ctx context.Context, work func(ctx context.Context, hold *Hold) error) (ran bool, err error) {
	return r.request.tryDo(ctx, ofOne(work))
}

// ofOne returns work under several locks that is work under the first; nil for nil.
func ofOne(work func(context.Context, *Hold) error) func(context.Context, Holds) error {
	if work == nil {
		return nil
	}
	return func(ctx context.Context, holds Holds) error { return work(ctx, holds[0]) }
}

func first(holds Holds, err error) (*Hold, error) {
	if err != nil {
		return nil, err
	}
	return holds[0], nil
}

// MultiRequest is a request for several locks, which are granted all together or not at all. The order of the names does not matter for
// deadlocks: requests for several names never block one another for good. Its settings return a changed copy. Nothing is sent before Do,
// Acquire or Try. Errors name all of the locks, with commas in between.
type MultiRequest struct {
	request request
}

// Shared asks for shared holds of all of the locks; see Request.Shared.
func (r MultiRequest) Shared() MultiRequest {
	r.request.spec.setShared()
	return r
}

// Wait sets the time to wait; see Request.Wait.
func (r MultiRequest) Wait(wait time.Duration) MultiRequest {
	r.request.spec.setWait(wait)
	return r
}

// Value attaches a value to each hold; see Request.Value.
func (r MultiRequest) Value(value []byte) MultiRequest {
	r.request.spec.value = bytes.Clone(value)
	return r
}

// LockDelay sets the lock-delay of each hold; see Request.LockDelay.
func (r MultiRequest) LockDelay(delay time.Duration) MultiRequest {
	r.request.spec.lockDelay = delay
	return r
}

// MaxHold bounds the time for which each lock is held; see Request.MaxHold.
func (r MultiRequest) MaxHold(bound time.Duration) MultiRequest {
	r.request.spec.setMaxHold(bound)
	return r
}

// Actor asks in the name of an actor; see Request.Actor.
func (r MultiRequest) Actor(actor Actor) MultiRequest {
	r.request.spec.actor = actor.number
	return r
}

// Reentrant allows the actor to hold what it holds already once more; see Request.Reentrant.
func (r MultiRequest) Reentrant() MultiRequest {
	r.request.spec.reentrant = true
	return r
}

// Acquire waits for all of the locks; see Request.Acquire.
func (r MultiRequest) Acquire(ctx context.Context) (Holds, error) {
	return r.request.acquire(ctx, r.request.spec)
}

// Try acquires the locks if all are free; see Request.Try.
func (r MultiRequest) Try(ctx context.Context) (Holds, error) {
	return r.request.try(ctx)
}

// Do acquires the locks, runs the work while holding them, and releases them; see Request.Do. The loss of one stops the work.
func (r MultiRequest) Do(ctx context.Context, work func(ctx context.Context, holds Holds) error) error {
	return r.request.do(ctx, work)
}

// TryDo does what Do does if all locks are free, and reports whether the work ran; see Request.TryDo.
func (r MultiRequest) TryDo(ctx context.Context, work func(ctx context.Context, holds Holds) error) (ran bool, err error) {
	return r.request.tryDo(ctx, work)
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
	return Request{request{session: s.session, spec: acquireSpec{locks: []LockSpec{spec.LimitRevision(s.revision)}}}}
}

// entry has the methods by which clients and sessions begin requests.
type entry struct {
	session func() (*Session, error)
	calls   *calls
}

// Lock requests the lock of this name: 1 to 512 bytes of UTF-8 without control characters, matched whole.
func (e entry) Lock(name string) Request {
	return Request{request{session: e.session, spec: acquireSpec{locks: []LockSpec{Exclusive(name)}}}}
}

// LockAll requests exclusive holds of several locks: 1 to 64 of different names unless the coordinator is
// configured otherwise, all together or none.
func (e entry) LockAll(names ...string) MultiRequest {
	specs := make([]LockSpec, len(names))
	for i, name := range names {
		specs[i] = Exclusive(name)
	}
	return e.LockAllOf(specs...)
}

// LockAllOf requests several locks, each in a mode of its own: 1 to 64 of different names unless the coordinator is
// configured otherwise, all together or none.
func (e entry) LockAllOf(specs ...LockSpec) MultiRequest {
	return MultiRequest{request{session: e.session, spec: acquireSpec{locks: slices.Clone(specs), several: true}}}
}

// Semaphore returns the semaphore of this name with limit permits: 1 to 1000000.
func (e entry) Semaphore(name string, limit int64) Semaphore {
	return Semaphore{session: e.session, name: name, limit: limit}
}

// Election returns the election of this name. It is the exclusive lock of that name: the leader is its holder, the candidates are its
// waiters in order, and the value is that of the hold.
func (e entry) Election(name string) Election {
	lock := acquireSpec{locks: []LockSpec{{name: name, mode: leaseholdv1.LockMode_LOCK_MODE_EXCLUSIVE}}}
	return Election{request: request{session: e.session, spec: lock}, calls: e.calls}
}
