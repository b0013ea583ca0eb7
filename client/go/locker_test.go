package leasehold_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

func TestALockerIsASyncLocker(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	c, other := connect(t, url), connect(t, url)
	mine, theirs := leasehold.NewLocker(c.Lock("a")), leasehold.NewLocker(other.Lock("a"))
	inside := 0
	var all sync.WaitGroup
	for _, locker := range []sync.Locker{mine, mine, theirs, theirs} {
		all.Go(func() {
			for range 20 {
				locker.Lock()
				// The race detector finds it if two are inside.
				inside++
				locker.Unlock()
			}
		})
	}
	all.Wait()
	if inside != 80 || mine.Hold() != nil {
		t.Errorf("%d were inside, and the hold is %v", inside, mine.Hold())
	}
	if !mine.TryLock() || theirs.TryLock() {
		t.Error("TryLock did not tell whether it is free")
	}
	first := mine.Hold()
	wantErr(t, first.Check(), nil)
	// A loss does not panic.
	_, err := other.Admin().ForceRelease(t.Context(), "a")
	wantErr(t, err, nil)
	await(t, "the loss", first.Lost())
	mine.Lock()
	if mine.Hold().Token() <= first.Token() {
		t.Error("the token did not rise")
	}
	mine.Unlock()
	wantErr(t, mine.Err(), leasehold.ErrLost)
	wantErr(t, mine.Hold().Check(), nil)
	mine.Unlock()
	wantErr(t, mine.Err(), nil)
	wantPanic := func(what string, call func()) (told any) {
		t.Helper()
		defer func() {
			if told = recover(); told == nil {
				t.Errorf("%s did not panic", what)
			}
		}()
		call()
		return nil
	}
	wantPanic("Unlock twice", mine.Unlock)
	wantPanic("a bad name", leasehold.NewLocker(c.Lock("")).Lock)
	theirs.Lock()
	wantPanic("a bounded wait", leasehold.NewLocker(c.Lock("a").Wait(10*time.Millisecond)).Lock)
	theirs.Unlock()
	readers := leasehold.NewLocker(c.Lock("shared").Shared())
	readers.Lock()
	readers.Lock()
	readers.Unlock()
	readers.Unlock()
	c.Close()
	if err, _ := wantPanic("a closed client", mine.Lock).(error); err != nil && !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("it panicked with %v", err)
	}
	wantPanic("a closed client", func() { mine.TryLock() })
}

func TestALockerOutlivesItsCoordinator(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL)
	locker := leasehold.NewLocker(c.Lock("a"))
	server.Kill()
	locked := make(chan struct{})
	go func() {
		locker.Lock()
		close(locked)
	}()
	if leasehold.NewLocker(c.Lock("b")).TryLock() {
		t.Error("it locked without a coordinator")
	}
	server.Restart()
	await(t, "the lock", locked)
	locker.Unlock()
	wantErr(t, locker.Err(), nil)
}
