package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// flowKey is the key of a flow in contexts.
type flowKey struct{}

// flow is what the contexts of work carry: in whose name its requests ask, and what work it is.
type flow struct {
	// actor is the number of the flow's actor; 0 if it has none yet.
	actor uint64
	// body is the innermost piece of work; nil if there is none.
	body *body
}

// flowOf returns the flow of a context, which may be nil.
func flowOf(ctx context.Context) flow {
	if ctx == nil {
		return flow{}
	}
	found, _ := ctx.Value(flowKey{}).(flow)
	return found
}

// NewFlow returns a context for a goroutine that does not take turns with the work that it is started from. Requests with the context of
// Do and Run ask in the name of one Actor, so that work which asks for the lock that it holds fails at once (ErrSelfDeadlock) instead of
// waiting for itself. Goroutines that ask for locks side by side each need a flow of their own.
func NewFlow(parent context.Context) context.Context {
	return context.WithValue(parent, flowKey{}, flow{body: flowOf(parent).body})
}

// body is a piece of work under locks, from its begin to its end.
type body struct {
	// outer is the work that this one began in; nil if there is none.
	outer *body
	// locks are the names of its locks, for people.
	locks string
	// goroutine is the number of the one that it runs in; empty if that is not known.
	goroutine string
	// stop cancels its context.
	stop context.CancelCauseFunc
}

// bodies are the pieces of work that run under locks of a session. They are told to stop, and waited for, before it is closed.
type bodies struct {
	mu        sync.Mutex
	running   map[*body]struct{}
	isClosing bool
	// ended tells of the end of a body.
	ended signal
}

// begin notes that work begins, and returns its context. Reports whether it may begin: if the session is being closed, the context has
// ended. The body must be ended in any case.
func (b *bodies) begin(parent context.Context, locks, goroutine string, actor uint64) (ctx context.Context, begun *body, mayBegin bool) {
	begun = &body{outer: flowOf(parent).body, locks: locks, goroutine: goroutine}
	ctx, begun.stop = context.WithCancelCause(context.WithValue(parent, flowKey{}, flow{actor, begun}))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosing {
		begun.stop(ErrClosed)
	}
	if b.running == nil {
		b.running = make(map[*body]struct{})
	}
	b.running[begun] = struct{}{}
	return ctx, begun, !b.isClosing
}

// end notes that work has ended. Ending it again does nothing.
func (b *bodies) end(ended *body) {
	ended.stop(context.Canceled)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, ended)
	b.ended.send()
}

// close tells all work to stop, and lets none begin any more. Waits until it has ended, but for the work that calls this from its goroutine
// (here) or with its context, and returns the locks of what still runs when the context ends or the session is over.
func (b *bodies) close(ctx context.Context, here string, over <-chan struct{}) (left []string) {
	isCaller := make(map[*body]bool)
	for own := flowOf(ctx).body; own != nil; own = own.outer {
		isCaller[own] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isClosing = true
	for one := range b.running {
		if isCaller[one] = isCaller[one] || one.goroutine == here; !isCaller[one] {
			one.stop(ErrClosed)
		}
	}
	for isOver := false; ; {
		left = nil
		for one := range b.running {
			if !isCaller[one] {
				left = append(left, one.locks)
			}
		}
		if len(left) == 0 || isOver || ctx.Err() != nil {
			slices.Sort(left)
			return left
		}
		ended := b.ended.next()
		b.mu.Unlock()
		select {
		case <-ended:
		case <-over:
			isOver = true
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
}

// goroutine returns the number of the goroutine that calls it. Close has no context to tell from which work it is called.
func goroutine() string {
	var stack [40]byte
	// "goroutine 7 [running]:…"
	_, text, _ := strings.Cut(string(stack[:runtime.Stack(stack[:], false)]), " ")
	number, _, _ := strings.Cut(text, " ")
	return number
}

// stillRunning is the error of a session, or a client, that was closed while work still ran under these locks.
func stillRunning(ctx context.Context, locks []string) error {
	if len(locks) == 0 {
		return nil
	}
	return fmt.Errorf("leasehold: closed while work still ran under the locks %s: %w", strings.Join(locks, ", "), context.Cause(ctx))
}

// runUnder runs the work until it returns, and then gives the locks up by release: never before, so that nobody else gets them while it still
// runs. The label has their names, for people.
func runUnder(ctx context.Context, label string, holds Holds, release, work func(context.Context) error) (err error) {
	session := holds[0].session
	running, body, mayRun := session.bodies.begin(ctx, label, goroutine(), holds[0].actor)
	defer session.bodies.end(body)
	under, cancel := holds.Context(running)
	defer cancel()
	hasReturned := false
	defer func() {
		if !hasReturned {
			// It panicked, or ended its goroutine.
			_ = release(ctx)
		}
	}()
	err = context.Canceled
	if mayRun {
		err = work(under)
	}
	stopped := holds.settled()
	hasReturned = true
	if released := release(ctx); released != nil && stopped == nil && !errors.Is(released, ErrReleased) {
		session.settings.log.Debug("the release after the work failed", "error", released)
	}
	if stopped == nil && err != nil && errors.Is(context.Cause(running), ErrClosed) && errors.Is(err, context.Canceled) {
		stopped = fmt.Errorf("the work under lock %s was stopped: %w", shown(label), ErrClosed)
	}
	if stopped == nil {
		return err
	}
	if err == nil || err == context.Canceled || err == ErrLost || err == ErrClosed {
		// It only says that it was stopped.
		return stopped
	}
	if errors.Is(err, stopped) {
		return err
	}
	return errors.Join(stopped, err)
}
