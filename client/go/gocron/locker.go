package leaseholdgocron

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
)

var (
	_ gocron.Locker = (*Locker)(nil)
	_ gocron.Lock   = (*run)(nil)
)

// Locker is a gocron.Locker: each run of a job holds the lock of the job's name, from its begin to its end, and at least for the splay. An
// instance that finds it taken skips the slot. All methods may be called from any number of goroutines.
type Locker struct {
	prefix  string
	options options

	mu sync.Mutex
	// runs are those that hold a lock, by the key of the job. One that ended within the splay is among them until it has passed.
	runs map[string]*run
	// kept are the locks that are to be released.
	kept sync.WaitGroup
}

// run is the lock of one run.
type run struct {
	locker *Locker
	key    string
	hold   *leasehold.Hold
	since  time.Time
	// done ends the work of the run, for which closing the client waits.
	done func()
}

// NewLocker makes a locker. The name of a job's lock is the prefix followed by the job's name: give jobs names (gocron.WithName), since
// gocron takes that of the function otherwise.
func NewLocker(client *leasehold.Client, prefix string, opts ...Option) *Locker {
	return &Locker{prefix: prefix, options: newOptions(client, opts), runs: make(map[string]*run)}
}

// Lock takes the lock of a job without waiting. Fails with ErrBusy if another run has it, here or at another instance, and with
// ErrUnavailable if no coordinator can be asked: then the job is skipped.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	// The delay keeps others from the same slot if this process dies right after it took the lock. With an actor, a job that asks for the
	// lock with the context of Hold.Work does not wait for itself.
	hold, err := l.options.on.Lock(l.prefix + key).Value(l.options.value).LockDelay(l.options.splay).Actor(leasehold.NewActor()).Try(ctx)
	if err != nil {
		return nil, err
	}
	taken := &run{locker: l, key: key, hold: hold, since: time.Now()}
	// Its context is of no use here: gocron takes none.
	_, taken.done = hold.Work(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[key] = taken
	return taken, nil
}

// Hold returns the hold of the job that runs here, for its fencing token, and for contexts that end with it; nil if it does not run here.
// gocron does not tell a job that its lock was lost, or that the client is being closed: use Hold(name).Work in jobs that take long.
func (l *Locker) Hold(key string) *leasehold.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.runs[key]; held != nil && held.hold.Err() == nil {
		return held.hold
	}
	return nil
}

// Close waits until all locks are released whose runs have ended: at most for the splay, and the time of a release.
func (l *Locker) Close() {
	l.kept.Wait()
}

// Unlock releases the lock, in the background if the splay has not passed. Returns a LostError if it was lost before.
func (r *run) Unlock(ctx context.Context) error {
	if rest := r.locker.options.splay - time.Since(r.since); rest > 0 {
		r.locker.kept.Add(1)
		time.AfterFunc(rest, func() {
			defer r.locker.kept.Done()
			_ = r.release(ctx)
		})
		if err := r.hold.Err(); !errors.Is(err, leasehold.ErrReleased) {
			return err
		}
		return nil
	}
	return r.release(ctx)
}

func (r *run) release(ctx context.Context) error {
	r.locker.mu.Lock()
	if r.locker.runs[r.key] == r {
		delete(r.locker.runs, r.key)
	}
	r.locker.mu.Unlock()
	defer r.done()
	return r.hold.Release(ctx)
}
