package leasehold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

func TestDetachedLocks(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c, other := connect(t, server.URL), connect(t, server.URL)
	ctx := t.Context()
	lock, err := c.DetachedLock("a").TTL(time.Minute).Value([]byte("me")).Acquire(ctx)
	wantErr(t, err, nil)
	wantErr(t, lock.Check(), nil)
	if left := lock.ValidFor(); left < 50*time.Second || left > time.Minute || lock.Token() < 1 || lock.Name() != "a" {
		t.Errorf("valid for %v, token %d, name %q", left, lock.Token(), lock.Name())
	}
	_, err = other.DetachedLock("a").Acquire(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	var busy *leasehold.AcquireError
	if !errors.As(err, &busy) || busy.Holder == nil || string(busy.Holder.Value) != "me" || busy.Holder.SessionID != "" {
		t.Errorf("the error does not say who holds it: %+v", busy)
	}
	_, err = other.DetachedLock("a").Wait(20 * time.Millisecond).Acquire(ctx)
	wantErr(t, err, leasehold.ErrTimedOut)
	_, err = other.Lock("a").Try(ctx)
	wantErr(t, err, leasehold.ErrBusy)

	// It outlives its client, and another one takes it up.
	id := lock.OwnerID()
	c.Close()
	taken, err := other.AttachDetachedLock("a", lock.Token(), id)
	wantErr(t, err, nil)
	wantErr(t, taken.Check(), leasehold.ErrLost)
	wantErr(t, taken.RenewFor(ctx, 30*time.Second), nil)
	if left := taken.ValidFor(); taken.Check() != nil || left < 20*time.Second || left > 30*time.Second {
		t.Errorf("valid for %v", left)
	}
	// A waiter is served by the release.
	waiting := make(chan *leasehold.DetachedLock, 1)
	go func() {
		next, err := other.DetachedLock("a").TTL(time.Minute).Wait(time.Hour).Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		waiting <- next
	}()
	waitForWaiters(t, other, "a", 1)
	wantErr(t, taken.Release(ctx), nil)
	wantErr(t, taken.Release(ctx), nil)
	wantErr(t, taken.Check(), leasehold.ErrReleased)
	next := await(t, "the waiter", waiting)
	if next.Token() <= taken.Token() {
		t.Errorf("token %d after %d", next.Token(), taken.Token())
	}
	// An operator takes it away: the next renewal finds out.
	_, err = other.Admin().ForceRelease(ctx, "a")
	wantErr(t, err, nil)
	wantErr(t, next.Renew(ctx), leasehold.ErrLost)
	wantErr(t, next.Check(), leasehold.ErrLost)
	wantErr(t, next.Release(ctx), leasehold.ErrLost)

	// Whoever has the key takes it over.
	key := "a key of sixteen bytes or more"
	first, err := other.DetachedLock("keyed").Key(key).TTL(time.Minute).Try(ctx)
	wantErr(t, err, nil)
	second, err := other.DetachedLock("keyed").Key(key).TTL(time.Minute).Try(ctx)
	if err != nil || second.Token() != first.Token() {
		t.Errorf("got %v, %v", second, err)
	}
	wantErr(t, second.Release(ctx), nil)
	// Modes.
	for range 2 {
		_, err = other.DetachedLock("shared").Shared().Acquire(ctx)
		wantErr(t, err, nil)
	}
	permits, err := other.DetachedLock("pool").Permits(2, 3).Acquire(ctx)
	if err != nil || permits.Permits() != 2 {
		t.Errorf("got %v, %v", permits, err)
	}
	_, err = other.DetachedLock("pool").Permits(2, 3).Acquire(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	cancelled, cancel := context.WithCancel(ctx)
	go func() {
		waitForWaiters(t, other, "pool", 1)
		cancel()
	}()
	_, err = other.DetachedLock("pool").Permits(2, 3).Wait(time.Hour).Acquire(cancelled)
	wantErr(t, err, context.Canceled)
	waitForWaiters(t, other, "pool", 0)
}

func TestADetachedLockIsAskedForAtEachAddress(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	one, two := servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)
	c := connect(t, one.URL+","+two.URL)
	ctx := t.Context()
	lock, err := c.DetachedLock("a").TTL(time.Minute).Acquire(ctx)
	wantErr(t, err, nil)
	one.Kill()
	wantErr(t, lock.Renew(ctx), nil)
	waiting := make(chan error, 1)
	go func() {
		next, err := c.DetachedLock("a").TTL(time.Minute).Wait(time.Hour).Acquire(ctx)
		if err == nil {
			err = next.Release(ctx)
		}
		waiting <- err
	}()
	waitForWaiters(t, c, "a", 1)
	one.Restart()
	two.Kill()
	// It waits on at the other address, under the same key.
	wantErr(t, lock.Release(ctx), nil)
	wantErr(t, await(t, "the waiter", waiting), nil)
	one.Kill()
	_, err = c.DetachedLock("b").Try(ctx)
	wantErr(t, err, leasehold.ErrUnavailable)
	wantErr(t, lock.Renew(ctx), leasehold.ErrUnavailable)
}

func TestBadDetachedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	for name, request := range map[string]leasehold.DetachedRequest{
		"no name": c.DetachedLock(""), "UTF-8": c.DetachedLock("a\xff"), "TTL": c.DetachedLock("a").TTL(-1), "wait": c.DetachedLock("a").Wait(-1),
		"delay": c.DetachedLock("a").LockDelay(-1), "value": c.DetachedLock("a").Value(make([]byte, 4097)), "key": c.DetachedLock("a").Key("short"),
		"no permits": c.DetachedLock("a").Permits(0, 1), "shared permits": c.DetachedLock("a").Permits(1, 2).Shared(), "zero": {},
	} {
		if _, err := request.Acquire(t.Context()); !errors.Is(err, leasehold.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := c.DetachedLock("a").Acquire(nil)
	wantErr(t, err, leasehold.ErrInvalid)
	id := []byte("sixteen bytes id")
	for _, attach := range []func() (*leasehold.DetachedLock, error){
		func() (*leasehold.DetachedLock, error) { return c.AttachDetachedLock("", 1, id) },
		func() (*leasehold.DetachedLock, error) { return c.AttachDetachedLock("a", 0, id) },
		func() (*leasehold.DetachedLock, error) { return c.AttachDetachedLock("a", 1, id[1:]) },
	} {
		_, err := attach()
		wantErr(t, err, leasehold.ErrInvalid)
	}
	stranger, err := c.AttachDetachedLock("a", 1, id)
	wantErr(t, err, nil)
	wantErr(t, stranger.RenewFor(t.Context(), -1), leasehold.ErrInvalid)
	wantErr(t, stranger.Release(t.Context()), leasehold.ErrLost)
}
