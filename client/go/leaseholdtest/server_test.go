package leaseholdtest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold.dev/go"
	"leasehold.dev/go/leaseholdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// until waits until the condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s for a minute", what)
		}
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func TestItKeepsTheRules(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := leaseholdtest.Start(t)
	quiet := leasehold.WithLogger(slog.New(slog.DiscardHandler))
	a, b := server.Client(leasehold.WithClientName("a"), quiet), server.Client(leasehold.WithClientName("b"), quiet)
	acquire := func(request leasehold.Request) *leasehold.Hold {
		t.Helper()
		hold, err := request.Acquire(ctx)
		wantErr(t, err, nil)
		return hold
	}

	// Exclusion, the holder, rising tokens, values.
	hold := acquire(a.Lock("x").Value([]byte("me")))
	_, err := b.Lock("x").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	var busy *leasehold.AcquireError
	if !errors.As(err, &busy) || busy.Holder.ClientName != "a" || string(busy.Holder.Value) != "me" {
		t.Errorf("the error does not say who holds it: %v", err)
	}
	_, err = b.Lock("x").Wait(10 * time.Millisecond).Acquire(ctx)
	wantErr(t, err, leasehold.ErrTimedOut)
	wantErr(t, hold.SetValue(ctx, []byte("still me")), nil)
	if holders := server.Holders("x"); len(holders) != 1 || string(holders[0].Value) != "still me" || holders[0].Token != hold.Token() {
		t.Errorf("the holders are %+v", holders)
	}

	// The queue is in order, and a cancelled wait leaves it.
	var order []int
	var mu sync.Mutex
	var waits sync.WaitGroup
	for i := range 3 {
		waits.Go(func() {
			err := b.Lock("x").Do(ctx, func(context.Context, *leasehold.Hold) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		until(t, "the waiter", func() bool { return server.WaiterCount("x") == i+1 })
	}
	given, cancel := context.WithCancel(ctx)
	cancelled := make(chan error, 1)
	go func() { _, err := b.Lock("x").Acquire(given); cancelled <- err }()
	until(t, "the fourth", func() bool { return server.WaiterCount("x") == 4 })
	cancel()
	wantErr(t, <-cancelled, context.Canceled)
	until(t, "it to leave", func() bool { return server.WaiterCount("x") == 3 })
	wantErr(t, hold.Release(ctx), nil)
	waits.Wait()
	if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
		t.Errorf("served in the order %v", order)
	}

	// Readers together, behind a writer that waits.
	reader, other := acquire(a.Lock("r").Shared()), acquire(b.Lock("r").Shared())
	written := make(chan error, 1)
	go func() {
		written <- a.Lock("r").Do(ctx, func(context.Context, *leasehold.Hold) error { return nil })
	}()
	until(t, "the writer", func() bool { return server.WaiterCount("r") == 1 })
	_, err = b.Lock("r").Shared().Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, leasehold.Holds{reader, other}.Release(ctx), nil)
	wantErr(t, <-written, nil)

	// A semaphore; several locks at once, or none.
	two := acquire(a.Semaphore("s", 3).Permits(2))
	if rest := acquire(b.Semaphore("s", 3).PermitsBetween(1, 3)); rest.Permits() != 1 {
		t.Errorf("granted %d permits", rest.Permits())
	}
	_, err = b.LockAll("free", "s").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	if len(server.Holders("free")) > 0 {
		t.Error("granted a part")
	}
	wantErr(t, two.Release(ctx), nil)

	// A flow that asks again.
	wantErr(t, a.Lock("y").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		_, err := a.Lock("y").Acquire(ctx)
		return err
	}), leasehold.ErrSelfDeadlock)

	// A loss on demand.
	err = a.Lock("z").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		if !server.Lose("z") || server.Lose("z") {
			t.Error("Lose did not tell whether it was held")
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	var lost *leasehold.LostError
	if !errors.As(err, &lost) || lost.Reason != leasehold.LostForced {
		t.Errorf("got %v", err)
	}

	// An election, which goes on when its leader's client ends.
	ctxA, stop := context.WithCancel(ctx)
	leads := make(chan string, 2)
	go func() {
		_ = a.Election("e").Value([]byte("a")).Run(ctxA, func(ctx context.Context, _ *leasehold.Term) error {
			leads <- "a"
			<-ctx.Done()
			return nil
		})
	}()
	if first := <-leads; first != "a" || string(server.Holders("e")[0].Value) != "a" {
		t.Errorf("%q leads", first)
	}
	go func() {
		term, err := b.Election("e").Campaign(ctx)
		if err == nil {
			leads <- "b"
			err = term.Resign(ctx)
		}
		if err != nil {
			t.Error(err)
		}
		leads <- "over"
	}()
	until(t, "the candidate", func() bool { return server.WaiterCount("e") == 1 })
	a.Close()
	stop()
	if next := <-leads; next != "b" {
		t.Errorf("%q leads", next)
	}
	<-leads

	// Detached locks.
	period, err := b.DetachedLock("p").TTL(time.Hour).Try(ctx)
	wantErr(t, err, nil)
	_, err = b.DetachedLock("p").Wait(time.Millisecond).Acquire(ctx)
	wantErr(t, err, leasehold.ErrTimedOut)
	wantErr(t, period.Release(ctx), nil)
	short, err := b.DetachedLock("p").TTL(10 * time.Millisecond).Try(ctx)
	wantErr(t, err, nil)
	until(t, "the end of the TTL", func() bool { return len(server.Holders("p")) == 0 })
	wantErr(t, short.Release(ctx), leasehold.ErrLost)
}
