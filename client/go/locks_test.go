package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/clock"
	"leasehold.dev/go/internal/servertest"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	stores := map[string]func(t *testing.T) []string{
		"memory": func(*testing.T) []string { return nil },
		"redis":  func(t *testing.T) []string { return []string{"--store", servertest.Redis(t)} },
	}
	for store, args := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			server := servertest.Start(t, args(t)...)
			c := connect(t, server.URL, leasehold.WithClientName("tests"))
			for name, test := range map[string]func(*testing.T, *leasehold.Client){
				"exclusive": exclusive, "shared": shared, "several": several, "semaphore": semaphore, "reentrant": reentrant,
				"cancelled": cancelledWaits, "released": released, "forced": forced, "deadlock": deadlock, "panic": panics,
				"max hold": maxHold, "asked": askedToRelease,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, c)
				})
			}
		})
	}
}

func exclusive(t *testing.T, c *leasehold.Client) {
	ctx := t.Context()
	var last int64
	for range 3 {
		err := c.Lock("exclusive").Value([]byte("me")).Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
			if hold.Token() <= last {
				t.Errorf("token %d after %d", hold.Token(), last)
			}
			last = hold.Token()
			others := leasehold.NewFlow(ctx)
			_, err := c.Lock("exclusive").Try(others)
			wantErr(t, err, leasehold.ErrBusy)
			var busy *leasehold.AcquireError
			if !errors.As(err, &busy) || busy.Holder.ClientName != "tests" || string(busy.Holder.Value) != "me" {
				t.Errorf("the error does not say who holds it: %v", err)
			}
			_, err = c.Lock("exclusive").Wait(20 * time.Millisecond).Acquire(others)
			wantErr(t, err, leasehold.ErrTimedOut)
			// It counts from the last heartbeat, of which there are three in each TTL.
			if left := hold.ValidFor(); left < 5*time.Second || left > 10*time.Second {
				t.Errorf("valid for %v", left)
			}
			wantErr(t, hold.SetValue(ctx, []byte("still me")), nil)
			view, err := c.Admin().GetLock(ctx, "exclusive")
			wantErr(t, err, nil)
			if value := string(view.Holders[0].Value); value != "still me" {
				t.Errorf("the value is %q", value)
			}
			return hold.Check()
		})
		wantErr(t, err, nil)
	}
	_, err := c.Lock("bad\nname").Acquire(ctx)
	wantErr(t, err, leasehold.ErrInvalid)
	var failure *leasehold.Failure
	if !errors.As(err, &failure) || failure.Reason != "INVALID_FIELD" || failure.Violations[0].Field != "acquire.name" {
		t.Errorf("unexpected failure %+v", failure)
	}
}

func shared(t *testing.T, c *leasehold.Client) {
	ctx := t.Context()
	writer := acquire(t, c.Lock("shared"))
	_, err := c.Lock("shared").Shared().Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, writer.Downgrade(ctx), nil)
	reader := acquire(t, c.Lock("shared").Shared())
	_, err = c.Lock("shared").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, leasehold.Holds{writer, reader}.Release(ctx), nil)
	wantErr(t, acquire(t, c.Lock("shared")).Release(ctx), nil)
}

func several(t *testing.T, c *leasehold.Client) {
	ctx := t.Context()
	holds, err := c.LockAllOf(leasehold.Exclusive("several/1"), leasehold.Shared("several/2"), leasehold.Permits("several/3", 2, 3)).
		Acquire(ctx)
	wantErr(t, err, nil)
	if names := []string{holds[0].Name(), holds[1].Name(), holds[2].Name()}; !slices.Equal(names, []string{"several/1", "several/2", "several/3"}) {
		t.Errorf("got %v", names)
	}
	if holds.Get("several/3").Permits() != 2 {
		t.Error("the permits are missing")
	}
	_, err = c.LockAll("several/0", "several/1").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, holds.Check(), nil)
	wantErr(t, holds.Release(ctx), nil)

	// The loss of one stops the work.
	stopped := make(chan error, 1)
	err = c.LockAll("several/1", "several/2").Do(ctx, func(ctx context.Context, holds leasehold.Holds) error {
		if _, err := c.Admin().ForceRelease(t.Context(), "several/2"); err != nil {
			return err
		}
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil
	})
	if cause := <-stopped; cause != leasehold.ErrLost {
		t.Errorf("the cause is %v", cause)
	}
	if reason := lostReason(t, err); reason != leasehold.LostForced {
		t.Errorf("lost because %v", reason)
	}
	// The other was released.
	wantErr(t, acquire(t, c.Lock("several/1")).Release(ctx), nil)
	_, err = c.LockAll().Acquire(ctx)
	wantErr(t, err, leasehold.ErrInvalid)
}

func semaphore(t *testing.T, c *leasehold.Client) {
	ctx := t.Context()
	api := c.Semaphore("semaphore", 3)
	two := acquire(t, api.Permits(2))
	_, err := api.Permits(2).Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	rest := acquire(t, api.PermitsBetween(1, 3))
	if rest.Permits() != 1 {
		t.Errorf("granted %d permits, want the one that was free", rest.Permits())
	}
	wantErr(t, two.Keep(ctx, 1), nil)
	third := acquire(t, api.Permits(1))
	_, err = c.Semaphore("semaphore", 5).Permits(1).Acquire(ctx)
	wantErr(t, err, leasehold.ErrLimitMismatch)
	var mismatch *leasehold.AcquireError
	if !errors.As(err, &mismatch) || mismatch.Limit != 3 {
		t.Errorf("the limit in force is missing: %v", err)
	}
	fourth := acquire(t, c.Semaphore("semaphore", 4).LimitRevision(1).Permits(1))
	wantErr(t, leasehold.Holds{two, rest, third, fourth}.Release(ctx), nil)
	// The wire would take 0 for the default.
	for _, request := range []leasehold.Request{api.Permits(0), api.PermitsBetween(0, 2), c.Semaphore("semaphore", 0).Permits(1)} {
		_, err = request.Acquire(ctx)
		wantErr(t, err, leasehold.ErrInvalid)
	}
	wantErr(t, fourth.Keep(ctx, 0), leasehold.ErrInvalid)
}

func reentrant(t *testing.T, c *leasehold.Client) {
	ctx := t.Context()
	me := leasehold.NewActor()
	request := c.Lock("reentrant").Actor(me)
	outer := acquire(t, request)
	_, err := request.Acquire(ctx)
	wantErr(t, err, leasehold.ErrSelfDeadlock)
	inner := acquire(t, request.Reentrant())
	if inner.Count() != 2 || inner.Token() != outer.Token() {
		t.Errorf("count %d, tokens %d and %d", inner.Count(), inner.Token(), outer.Token())
	}
	wantErr(t, inner.Release(ctx), nil)
	_, err = c.Lock("reentrant").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, outer.Check(), nil)
	wantErr(t, outer.Release(ctx), nil)
	weak := acquire(t, request.Shared())
	_, err = request.Reentrant().Acquire(ctx)
	wantErr(t, err, leasehold.ErrUpgradeRefused)
	wantErr(t, weak.Release(ctx), nil)
}

func cancelledWaits(t *testing.T, c *leasehold.Client) {
	hold := acquire(t, c.Lock("cancelled"))
	ctx, cancel := context.WithCancelCause(t.Context())
	_, errs := background(ctx, c.Lock("cancelled"))
	waitForWaiters(t, c, "cancelled", 1)
	why := errors.New("why")
	cancel(why)
	err := await(t, "the cancelled acquire", errs)
	wantErr(t, err, context.Canceled)
	wantErr(t, err, why)
	waitForWaiters(t, c, "cancelled", 0)
	late, cancelLate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelLate()
	_, err = c.Lock("cancelled").Acquire(late)
	wantErr(t, err, context.DeadlineExceeded)
	wantErr(t, hold.Release(t.Context()), nil)

	// Cancels that cross their grants leave nothing held.
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		holds, errs := background(ctx, c.Lock("cancelled"))
		go cancel()
		select {
		case hold := <-holds:
			wantErr(t, hold.Release(ctx), nil)
		case err := <-errs:
			wantErr(t, err, context.Canceled)
		}
	}
	wantErr(t, acquire(t, c.Lock("cancelled")).Release(t.Context()), nil)
}

func released(t *testing.T, c *leasehold.Client) {
	hold := acquire(t, c.Lock("released"))
	ctx, cancel := hold.Context(t.Context())
	defer cancel()
	ended, cancelEnded := context.WithCancel(t.Context())
	cancelEnded()
	// It is shielded from the context, and whoever calls gets the same answer.
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if err := hold.Release(ended); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if cause := context.Cause(ctx); cause != leasehold.ErrReleased {
		t.Errorf("the cause is %v", cause)
	}
	await(t, "the channel", hold.Lost())
	wantErr(t, hold.Check(), leasehold.ErrReleased)
	if hold.State() != leasehold.StateReleased {
		t.Errorf("the state is %v", hold.State())
	}
	wantErr(t, hold.SetValue(t.Context(), nil), leasehold.ErrReleased)
	wantErr(t, acquire(t, c.Lock("released")).Release(t.Context()), nil)
	// A body that releases by itself has not lost it.
	wantErr(t, c.Lock("released").Do(t.Context(), func(ctx context.Context, hold *leasehold.Hold) error {
		return hold.Release(ctx)
	}), nil)
}

func forced(t *testing.T, c *leasehold.Client) {
	own := errors.New("the write failed")
	waiter := make(chan *leasehold.Hold, 1)
	var ended, granted time.Time
	err := c.Lock("forced").Do(t.Context(), func(ctx context.Context, hold *leasehold.Hold) error {
		if released, err := c.Admin().ForceReleaseHolder(t.Context(), "forced", hold.Token()); err != nil || !released {
			t.Error(released, err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != leasehold.ErrLost {
			t.Errorf("the cause is %v", cause)
		}
		ended = time.Now()
		return own
	})
	wantErr(t, err, leasehold.ErrLost)
	wantErr(t, err, own)
	if reason := lostReason(t, err); reason != leasehold.LostForced {
		t.Errorf("lost because %v", reason)
	}
	// Of a body that only says that it was stopped, nothing is added.
	err = c.Lock("forced").Do(t.Context(), func(ctx context.Context, hold *leasehold.Hold) error {
		_, _ = c.Admin().ForceRelease(t.Context(), "forced")
		<-ctx.Done()
		return ctx.Err()
	})
	if errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The lock is given up only when the body has returned.
	err = c.Lock("forced").Do(t.Context(), func(ctx context.Context, hold *leasehold.Hold) error {
		go func() {
			hold, err := c.Lock("forced").Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			granted = time.Now()
			waiter <- hold
		}()
		waitForWaiters(t, c, "forced", 1)
		ended = time.Now()
		return own
	})
	if err != own {
		t.Errorf("got %v", err)
	}
	hold := await(t, "the next holder", waiter)
	if granted.Before(ended) {
		t.Error("the next holder had it before the body ended")
	}
	wantErr(t, hold.Release(t.Context()), nil)
	// An operator ends a wait.
	hold = acquire(t, c.Lock("forced"))
	_, errs := background(t.Context(), c.Lock("forced"))
	waitForWaiters(t, c, "forced", 1)
	view, err := c.Admin().GetLock(t.Context(), "forced")
	wantErr(t, err, nil)
	_, err = c.Admin().ForceReleaseWaiter(t.Context(), "forced", view.Waiters[0].Number)
	wantErr(t, err, nil)
	wantErr(t, await(t, "the end of the wait", errs), leasehold.ErrForceReleased)
	wantErr(t, hold.Release(t.Context()), nil)
}

func deadlock(t *testing.T, c *leasehold.Client) {
	one, two := leasehold.NewActor(), leasehold.NewActor()
	a, b := acquire(t, c.Lock("deadlock/a").Actor(one)), acquire(t, c.Lock("deadlock/b").Actor(two))
	older, _ := background(t.Context(), c.Lock("deadlock/b").Actor(one))
	waitForWaiters(t, c, "deadlock/b", 1)
	_, err := c.Lock("deadlock/a").Actor(two).Acquire(t.Context())
	wantErr(t, err, leasehold.ErrDeadlock)
	wantErr(t, b.Release(t.Context()), nil)
	wantErr(t, leasehold.Holds{await(t, "the older wait", older), a}.Release(t.Context()), nil)
}

func panics(t *testing.T, c *leasehold.Client) {
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = c.Lock("panics").Do(t.Context(), func(context.Context, *leasehold.Hold) error { panic("for the test") })
	}()
	hold, err := c.Lock("panics").Try(t.Context())
	wantErr(t, err, nil)
	wantErr(t, hold.Release(t.Context()), nil)
}

func maxHold(t *testing.T, c *leasehold.Client) {
	hold := acquire(t, c.Lock("max hold").MaxHold(time.Second))
	if left, isBounded := hold.EndsIn(); !isBounded || left > time.Second {
		t.Errorf("ends in %v (%v)", left, isBounded)
	}
	await(t, "the end", hold.Lost())
	if reason := lostReason(t, hold.Err()); reason != leasehold.LostMaxHold {
		t.Errorf("lost because %v", reason)
	}
}

func askedToRelease(t *testing.T, c *leasehold.Client) {
	hold := acquire(t, c.Lock("asked"))
	if _, isAsked := hold.ReleaseRequested(); isAsked {
		t.Error("nobody has asked yet")
	}
	requests := make(chan leasehold.ReleaseRequest, 1)
	go func() {
		request, _ := hold.AwaitReleaseRequest(t.Context())
		requests <- request
	}()
	asked, err := c.Admin().RequestRelease(t.Context(), "asked", "maintenance", time.Minute)
	if err != nil || asked != 1 {
		t.Fatal(asked, err)
	}
	request := await(t, "the request", requests)
	if left, hasAny := request.TimeLeft(); request.Reason != "maintenance" || !hasAny || left > time.Minute {
		t.Errorf("asked because %q, within %v", request.Reason, left)
	}
	wantErr(t, hold.Check(), nil)
	wantErr(t, hold.Release(t.Context()), nil)
}

func TestManyGoroutinesShareASession(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	const names, workers, rounds = 8, 64, 20
	var inside [names]int
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for range rounds {
				lock := worker % names
				err := c.Lock(fmt.Sprint("many/", lock)).Do(t.Context(), func(context.Context, *leasehold.Hold) error {
					// The race detector finds it if two are inside.
					inside[lock]++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for lock, count := range inside {
		if count != workers/names*rounds {
			t.Errorf("lock %d was held %d times", lock, count)
		}
	}
}

// TestTheClockDecides is not parallel, since it moves the clock of all clients.
func TestTheClockDecides(t *testing.T) {
	c := connect(t, servertest.Start(t).URL)
	hold := acquire(t, c.Lock("a"))
	ctx, cancel := hold.Context(t.Context())
	defer cancel()
	// As after a suspension of the machine: no timer has rung.
	clock.Skew(11 * time.Second)
	if reason := lostReason(t, hold.Check()); reason != leasehold.LostExpired {
		t.Errorf("lost because %v", reason)
	}
	if cause := context.Cause(ctx); cause != leasehold.ErrLost {
		t.Errorf("the cause is %v", cause)
	}
	wantErr(t, hold.Release(t.Context()), leasehold.ErrLost)
	wantErr(t, hold.Release(t.Context()), leasehold.ErrLost)
	wantErr(t, acquire(t, c.Lock("a")).Release(t.Context()), nil)
}
