package leasehold

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
)

// Locker is a lock as a sync.Locker, for code that takes one. It excludes the goroutines that share it from one another too. Use Request.Do
// where you can: its work hears of a loss, which Lock and Unlock have no way to tell.
type Locker struct {
	request Request

	mu sync.Mutex
	// holds are those that were locked and not unlocked, the oldest first: several if the request is for shared holds, or one was lost.
	holds []*Hold
	err   error
}

var _ sync.Locker = (*Locker)(nil)

// NewLocker makes a Locker that locks by this request, such as client.Lock("a"), or client.Lock("a").Shared() for readers.
func NewLocker(request Request) *Locker {
	return &Locker{request: request}
}

// Lock waits for the lock, as long as it takes: over reconnects, and while a coordinator or its store does not serve, or a limit is reached.
// It panics with the error of Request.Acquire where another attempt would fail in the same way: if the client is closed (ErrClosed), the
// request is invalid or not permitted, the wait of Request.Wait or WithWait is over, or its Actor would wait for itself.
func (l *Locker) Lock() {
	pauses := newPauses(retryFirst, retryMax)
	for {
		hold, err := l.request.Acquire(context.Background())
		if err == nil {
			l.note(hold)
			return
		}
		if !mayPass(err) {
			panic(err)
		}
		time.Sleep(pauses.pause(clock.Now()))
	}
}

// TryLock locks if the lock is free, and reports whether it did. A lock that is busy, or that can't be asked for at present, is not locked.
// Panics as Lock does.
func (l *Locker) TryLock() bool {
	hold, err := l.request.Try(context.Background())
	if err == nil {
		l.note(hold)
		return true
	}
	if !errors.Is(err, ErrBusy) && !mayPass(err) {
		panic(err)
	}
	return false
}

func (l *Locker) note(hold *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = append(l.holds, hold)
}

// Unlock releases the lock. If it was lost before, or its release was not confirmed, Unlock returns all the same, and Err says why. Panics
// if the Locker is not locked. Of several shared holds it releases the oldest.
func (l *Locker) Unlock() {
	l.mu.Lock()
	if len(l.holds) == 0 {
		l.mu.Unlock()
		panic("leasehold: Unlock of a Locker that is not locked")
	}
	hold := l.holds[0]
	l.holds = l.holds[1:]
	l.mu.Unlock()
	err := hold.Release(context.Background())
	if errors.Is(err, ErrLost) {
		hold.session.settings.log.Warn("a lock was lost before it was unlocked", "lock", hold.Name(), "error", err)
	}
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
}

// Hold returns the present hold, for its fencing token and its checks; nil while the Locker is not locked.
func (l *Locker) Hold() *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.holds) == 0 {
		return nil
	}
	return l.holds[len(l.holds)-1]
}

// Err returns the error of the last Unlock: a LostError if the lock was lost before, so that what it protected may have run beside others.
func (l *Locker) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
