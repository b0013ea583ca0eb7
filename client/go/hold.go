package leasehold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
)

// held is what a hold and a leadership have in common. All methods may be called from any number of goroutines.
type held struct {
	session *Session
	granted granted
	// actor is the number of the one that asked for it; 0 for none.
	actor uint64
}

// String returns the lock's name, its token and its state.
func (h *held) String() string {
	return fmt.Sprintf("lock %s, token %d, %v", shown(h.Name()), h.Token(), h.State())
}

// GoString returns what String does.
func (h *held) GoString() string { return h.String() }

// Name returns the lock's name.
func (h *held) Name() string {
	return h.granted.lease.name
}

// Token returns the fencing token: greater than that of every earlier grant of this name. Pass it to whatever the lock protects, and let
// that refuse a smaller token than the largest it has seen: then a holder that was paused and does not know yet that it lost the lock
// can do no harm.
func (h *held) Token() int64 {
	return h.granted.lease.token
}

// Check returns nil while the lock is held, and otherwise why it must not be acted on: ErrSuspended, a LostError or ErrReleased. It
// reads the clock, so that it is right also when timers are late. Cheap enough to call before every step.
func (h *held) Check() error {
	return h.granted.lease.check(clock.Now())
}

// State returns whether the lock is held, suspended, lost or released, by the clock at this moment.
func (h *held) State() State {
	state, _ := h.granted.lease.stateAt(clock.Now())
	return state
}

// Err returns nil while the lock is held or suspended, and afterwards why it is not: a LostError, or ErrReleased. Final once it is not
// nil.
func (h *held) Err() error {
	if err := h.Check(); !errors.Is(err, ErrSuspended) {
		return err
	}
	return nil
}

// Lost returns a channel that is closed when the lock is lost or released; Err says why. It stays open while the lock is only suspended.
func (h *held) Lost() <-chan struct{} {
	return h.granted.lease.onEnd()
}

// Changed waits until the state differs from the given one, and returns the new state. Returns the given one if the context ends first.
func (h *held) Changed(ctx context.Context, from State) State {
	for {
		changed := h.granted.lease.onChange()
		if state := h.State(); state != from {
			return state
		}
		// The session looks at the deadline in time; timers of this process may be late, so that the clock is looked at besides.
		select {
		case <-changed:
		case <-time.After(longestSleep):
		case <-ctx.Done():
			return from
		}
	}
}

// Context returns a context that is cancelled when the lock is lost, with the cause ErrLost, or released, with the cause ErrReleased.
// While the lock is only suspended it is not cancelled. Call cancel to free what it takes; that does not release the lock.
func (h *held) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	stop := h.granted.lease.watch(func(state State) {
		if state == StateReleased {
			cancelCause(ErrReleased)
		} else {
			cancelCause(ErrLost)
		}
	})
	return ctx, func() {
		stop()
		cancelCause(context.Canceled)
	}
}

// Work begins work under the lock that Do can't run, because something else calls it and tells when it has ended. The context is that of
// Do: cancelled when the lock is lost or the client is closed, and the flow of the actor. Call done when the work has ended, after the
// release: closing the client waits for that. Calling it again does nothing.
func (h *held) Work(parent context.Context) (ctx context.Context, done func()) {
	running, body, _ := h.session.bodies.begin(parent, h.Name(), "", h.actor)
	ctx, cancel := h.Context(running)
	return ctx, func() {
		cancel()
		h.session.bodies.end(body)
	}
}

// ValidFor returns the time left until the lock is lost unless a heartbeat is answered before; 0 while it is not held.
func (h *held) ValidFor() time.Duration {
	now := clock.Now()
	if state, _ := h.granted.lease.stateAt(now); state != StateHeld {
		return 0
	}
	deadline, _ := h.granted.lease.alive(now)
	return deadline.Since(now)
}

// LostIn returns the time left until the lock is lost, held or suspended, unless a coordinator answers before; 0 once it is lost. Use it
// for work that continues during a suspension and must end with the loss.
func (h *held) LostIn() time.Duration {
	now := clock.Now()
	deadline, isAlive := h.granted.lease.alive(now)
	if !isAlive {
		return 0
	}
	return deadline.Since(now)
}

// EndsIn returns the time left until the lock ends because it may be held no longer (Request.MaxHold), whatever is answered, and whether
// it has such a bound.
func (h *held) EndsIn() (left time.Duration, isBounded bool) {
	l := h.granted.lease
	now := clock.Now()
	l.with(now, func() {
		if isBounded = l.endsAt != never; isBounded && !l.hasEnded() {
			left = l.endsAt.Since(now)
		}
	})
	return left, isBounded
}

// ReleaseRequested returns the last request of an operator to release the lock, and whether there is one. Nothing happens if it is not
// heeded.
func (h *held) ReleaseRequested() (ReleaseRequest, bool) {
	l := h.granted.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.request == nil {
		return ReleaseRequest{}, false
	}
	return *l.request, true
}

// AwaitReleaseRequest waits until an operator asks for the release of the lock, at once if one did before. Reports false when the lock
// is lost or released, or the context ends.
func (h *held) AwaitReleaseRequest(ctx context.Context) (ReleaseRequest, bool) {
	for {
		changed := h.granted.lease.onChange()
		if h.Err() != nil {
			return ReleaseRequest{}, false
		}
		if request, isAsked := h.ReleaseRequested(); isAsked {
			return request, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ReleaseRequest{}, false
		}
	}
}

// release gives the lock back. The context is only asked for the trace.
func (h *held) release(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background()
	}
	l := h.granted.lease
	// Outside of what is done once: it calls the program, and if that panics, the release is still to be done.
	trace := h.session.settings.traceparent(ctx)
	l.releasing.Do(func() { l.releaseErr = h.session.release(trace, h.granted) })
	return l.releaseErr
}

// setValue changes the value attached to the hold.
func (h *held) setValue(ctx context.Context, value []byte) error {
	return h.session.change(ctx, h.granted, &change{kind: changeValue, value: bytes.Clone(value)})
}

// warnIfForgotten logs a warning when a hold or a term is collected while the lock is held. It does not release the lock: Go collects what
// is not used any more, though the work under the lock may go on, or the program may mean to keep the lock until its end.
func warnIfForgotten[H any](which *H, h held) {
	runtime.AddCleanup(which, func(left held) {
		if left.Err() == nil {
			left.session.settings.log.Warn("a hold was forgotten, and its lock stays taken until the session ends; release it, or keep it",
				"lock", left.Name())
		}
	}, h)
}

// Hold is a lock that this process holds, until it releases it or loses it. All methods may be called from any number of goroutines.
//
// A hold that is not released stays with the session: always release it, or use Request.Do, which does. If the program drops it instead,
// the client logs a warning as soon as the garbage collector has found it, and the lock stays taken.
type Hold struct {
	held
}

func newHold(session *Session, granted granted, actor uint64) *Hold {
	return &Hold{held{session: session, granted: granted, actor: actor}}
}

// Count returns how many times its actor held the lock when this hold was granted, this one included: 1 except for reentrant grants.
func (h *Hold) Count() int {
	return int(h.granted.holdCount)
}

// Permits returns how many permits of a semaphore were granted; 0 for other locks.
func (h *Hold) Permits() int64 {
	return h.granted.lease.permits
}

// Release gives the lock back and hands it to the next waiter. From the call on, the lock counts as not held. Returns within ten seconds,
// also when the coordinator can't be reached.
//
// Release is shielded: it does not end with the context, not even if that has ended before, and takes only values from it. It is
// idempotent: a second call, from whatever goroutine, waits for the first and returns the same.
//
// Returns a LostError if the lock was lost before, and a HoldError if the release was not confirmed or could not be carried out. What was
// not carried out is repeated in the background; otherwise the lock ends with its lease. Of a lock that its actor holds more than once,
// Release ends this hold alone.
func (h *Hold) Release(ctx context.Context) error {
	return h.release(ctx)
}

// SetValue changes the value attached to the hold for others to see: at most 4 KiB. If the context ends first, the change may be carried
// out all the same.
func (h *Hold) SetValue(ctx context.Context, value []byte) error {
	return h.setValue(ctx, value)
}

// Downgrade turns an exclusive hold into a shared one, in one step: nobody else holds the lock exclusively in between, and shared waiters
// at the head of the queue are let in. The token stays. Does nothing to a shared hold. After an error the hold may be shared already.
func (h *Hold) Downgrade(ctx context.Context) error {
	return h.session.change(ctx, h.granted, &change{kind: changeDowngrade})
}

// Keep gives permits of a semaphore back, and keeps this many: 1 or more. A hold that has no more than that is left as it is. After an
// error the others may be given back already.
func (h *Hold) Keep(ctx context.Context, permits int64) error {
	return h.session.change(ctx, h.granted, &change{kind: changeReduce, permits: permits})
}

// Holds are locks that were granted together, in the order of the request. Each is lost and released for itself.
type Holds []*Hold

// Check returns nil while all are held, and otherwise why the first one that is not must not be acted on.
func (h Holds) Check() error {
	var suspended error
	for _, hold := range h {
		if err := hold.Check(); errors.Is(err, ErrSuspended) {
			suspended = err
		} else if err != nil {
			return err
		}
	}
	return suspended
}

// Get returns the hold of this name; nil if it is not among them.
func (h Holds) Get(name string) *Hold {
	for _, hold := range h {
		if hold.Name() == name {
			return hold
		}
	}
	return nil
}

// Context returns a context that is cancelled when one of them is lost or released; see Hold.Context.
func (h Holds) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelled := parent, make([]context.CancelFunc, len(h))
	for i, hold := range h {
		ctx, cancelled[i] = hold.Context(ctx)
	}
	return ctx, func() {
		for _, cancel := range cancelled {
			cancel()
		}
	}
}

// Release releases all of them at once, as Hold.Release does with one. Of several errors, returns that of the lock that was named first.
func (h Holds) Release(ctx context.Context) error {
	if len(h) == 0 {
		return nil
	}
	errs := make([]error, len(h))
	var releases sync.WaitGroup
	for i, hold := range h[1:] {
		releases.Go(func() { errs[i+1] = hold.Release(ctx) })
	}
	errs[0] = h[0].Release(ctx)
	releases.Wait()
	return cmp.Or(errs...)
}

// settled waits while any of them is suspended. Returns the LostError of one that is lost then.
func (h Holds) settled() error {
	for _, hold := range h {
		hold.Changed(context.Background(), StateSuspended)
		if err := hold.Check(); err != nil && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrSuspended) {
			return err
		}
	}
	return nil
}
