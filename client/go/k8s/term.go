package k8s

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/go"
)

// term is the leadership of this process. The lock's mutex guards it.
type term struct {
	hold   *leasehold.Hold
	record resourcelock.LeaderElectionRecord
	// lease is the elector's LeaseDuration: without a renewal for so long, the elector must have stopped.
	lease   time.Duration
	renewed time.Time
	timer   *time.Timer
	// stopping ends when the term is given up; stop ends it.
	stopping context.Context
	stop     context.CancelFunc
	isEnding bool
	// bodies are the functions of Leading that run; hasLed is set once there was one.
	bodies sync.WaitGroup
	hasLed bool
	// working ends when the client is closed, with the cause ErrClosed; done ends the work of the term, for which closing waits.
	working context.Context
	done    func()
	// ended is closed when the lock was released, and err is set to the error of that.
	ended chan struct{}
	err   error
}

// current returns the present term; nil if there is none.
func (l *Lock) current() *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

func (l *Lock) begin(hold *leasehold.Hold, record resourcelock.LeaderElectionRecord, lease time.Duration) {
	t := &term{hold: hold, record: record, lease: lease, renewed: time.Now(), ended: make(chan struct{})}
	t.stopping, t.stop = context.WithCancel(context.Background())
	t.working, t.done = hold.Work(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
	context.AfterFunc(t.working, func() { l.stopped(t) })
	untilLoss, forget := hold.Context(context.Background())
	context.AfterFunc(untilLoss, func() {
		if errors.Is(context.Cause(untilLoss), leasehold.ErrLost) {
			l.contexts.End(leasehold.ErrLost)
		}
		forget()
	})
	t.timer = time.AfterFunc(lease, func() { l.expire(t) })
}

// stopped handles the close of the client: the term ends when the functions of Leading have returned, and otherwise when its elector
// releases it or has not renewed it.
func (l *Lock) stopped(t *term) {
	if !errors.Is(context.Cause(t.working), leasehold.ErrClosed) {
		return
	}
	l.contexts.End(leasehold.ErrClosed)
	l.mu.Lock()
	hasLed := t.hasLed
	l.mu.Unlock()
	if hasLed {
		l.end(t)
	}
}

func (l *Lock) renew(record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.term
	if t == nil || t.isEnding {
		return apierrors.NewConflict(leases, l.name, errors.New("this process does not hold the lock"))
	}
	if err := t.hold.Check(); err != nil {
		return err
	}
	if t.working.Err() != nil {
		return leasehold.ErrClosed
	}
	t.record, t.renewed = record, time.Now()
	t.timer.Reset(t.lease)
	return nil
}

// expire ends the term if its elector has not renewed it for the time of its lease.
func (l *Lock) expire(t *term) {
	l.mu.Lock()
	isOver := time.Since(t.renewed) >= t.lease
	l.mu.Unlock()
	if isOver {
		l.end(t)
	}
}

// resign ends the term and waits until the lock is released. Does nothing without a term.
func (l *Lock) resign(ctx context.Context) error {
	t := l.current()
	if t == nil {
		return nil
	}
	l.end(t)
	select {
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("the lock is released when the leader's work has returned: %w", context.Cause(ctx))
	}
}

// end begins to end the term: stops the functions of Leading, waits for them, and releases the lock.
func (l *Lock) end(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.isEnding {
		return
	}
	t.isEnding = true
	t.timer.Stop()
	t.stop()
	go func() {
		t.bodies.Wait()
		if err := t.hold.Release(context.Background()); !errors.Is(err, leasehold.ErrLost) {
			t.err = err
		}
		t.done()
		l.mu.Lock()
		l.term = nil
		l.mu.Unlock()
		close(t.ended)
	}()
}

// Leading returns a function for LeaderCallbacks.OnStartedLeading, which calls lead. Its context ends when the elector stops, and at the
// moment at which the lock is lost, with the cause ErrLost, or the client is closed, with the cause ErrClosed. The lock waits for lead to
// return before it releases the term, so that nobody else leads because of this process while lead still runs; an elector alone releases
// first.
func (l *Lock) Leading(lead func(ctx context.Context, hold *leasehold.Hold)) func(context.Context) {
	return func(ctx context.Context) {
		t := l.enter(ctx)
		if t == nil {
			// The elector has stopped before it came to this.
			return
		}
		defer t.bodies.Done()
		under, cancel := t.hold.Work(ctx)
		defer cancel()
		defer context.AfterFunc(t.stopping, cancel)()
		lead(under, t.hold)
	}
}

// enter returns the present term, which then waits for its bodies; nil if there is none, or the elector has stopped.
func (l *Lock) enter(ctx context.Context) *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.isEnding || l.term.working.Err() != nil || ctx.Err() != nil {
		return nil
	}
	l.term.hasLed = true
	l.term.bodies.Add(1)
	return l.term
}

// Context returns a context that is cancelled at the next loss of the lock, with the cause ErrLost, or when the client is closed, with the
// cause ErrClosed, but not when an elector releases it.
// Pass it to LeaderElector.Run or to the Start of a manager of controller-runtime, which then stop at the moment of the loss; otherwise
// they go on for RenewDeadline. Call cancel to free what it takes.
func (l *Lock) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	return l.contexts.Context(parent)
}

// Hold returns the hold of the present term, for its fencing token and its checks; nil if this process does not lead.
func (l *Lock) Hold() *leasehold.Hold {
	if t := l.current(); t != nil && t.hold.Err() == nil {
		return t.hold
	}
	return nil
}
