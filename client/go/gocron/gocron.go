// Package leaseholdgocron lets the schedulers of several processes share jobs, with gocron's interfaces: an Elector, so that the leader
// alone runs jobs, and a Locker, so that one of the processes runs each.
//
// Prefer the Elector. With a Locker, whether a job runs once depends on how far the clocks of the processes differ: see NewLocker.
package leaseholdgocron

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
)

// ErrNotLeader is returned by Elector.IsLeader while this process does not lead.
var ErrNotLeader = errors.New("leaseholdgocron: this process does not lead")

// again is the pause before a campaign that failed for good is repeated: what it lacks, such as a permission, may be given later, and
// the scheduler must not end because of it.
const again = 10 * time.Second

var (
	_ gocron.Elector = (*Elector)(nil)
	_ gocron.Locker  = (*Locker)(nil)
)

// Elector says whether this process leads an election: give it to gocron.WithDistributedElector. All methods may be called from any
// number of goroutines.
type Elector struct {
	term  atomic.Pointer[leasehold.Term]
	cause atomic.Pointer[error]
	stop  context.CancelFunc
	ended chan struct{}
}

// NewElector campaigns in the background, again after every loss and failure, until Close. Observers see the value of the leader, which
// may be empty.
func NewElector(client *leasehold.Client, election string, value []byte) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, ended: make(chan struct{})}
	go e.campaign(ctx, client.Election(election).Value(value))
	return e
}

func (e *Elector) campaign(ctx context.Context, election leasehold.Election) {
	defer close(e.ended)
	for {
		err := election.Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
			e.cause.Store(nil)
			e.term.Store(term)
			<-ctx.Done()
			e.term.Store(nil)
			return nil
		})
		e.cause.Store(&err)
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// IsLeader returns nil while this process leads, by the clock at this moment. Otherwise it returns why not: ErrNotLeader,
// leasehold.ErrSuspended, or why a campaign failed.
func (e *Elector) IsLeader(context.Context) error {
	if term := e.term.Load(); term != nil {
		if err := term.Check(); err == nil || errors.Is(err, leasehold.ErrSuspended) {
			return err
		}
		return ErrNotLeader
	}
	if cause := e.cause.Load(); cause != nil {
		return errors.Join(ErrNotLeader, *cause)
	}
	return ErrNotLeader
}

// Term returns the leadership of this process; nil while it does not lead. gocron does not stop a job when the leadership is lost: a job
// that must not go on then uses its Context, and passes its Token on.
func (e *Elector) Term() *leasehold.Term {
	return e.term.Load()
}

// Close resigns, and campaigns no further. Jobs that run go on: shut the scheduler down before.
func (e *Elector) Close() {
	e.stop()
	<-e.ended
}

// Locker locks jobs by their names: give it to gocron.WithDistributedLocker, and every job a name of its own.
type Locker struct {
	client  *leasehold.Client
	prefix  string
	atLeast time.Duration
}

// NewLocker makes a locker whose locks have names that begin with the prefix.
//
// Each process asks for the lock when a job is due by its own clock, and does not wait. If one asks after another has finished already,
// the job runs twice. So the lock is kept for atLeast from its grant, also when the job ends sooner: it should be longer than the clocks
// of the processes differ, and shorter than the interval of the job. If the process ends before, the lock ends with it.
func NewLocker(client *leasehold.Client, prefix string, atLeast time.Duration) *Locker {
	return &Locker{client: client, prefix: prefix, atLeast: atLeast}
}

// Lock acquires the lock of a job. Fails with leasehold.ErrBusy if another process has it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	hold, err := l.client.Lock(l.prefix + key).Try(ctx)
	if err != nil {
		return nil, err
	}
	return &lock{hold: hold, until: time.Now().Add(l.atLeast)}, nil
}

// lock is the lock of a job that runs.
type lock struct {
	hold  *leasehold.Hold
	until time.Time
}

// Unlock releases the lock, at once or when it has been held for long enough. It fails if the lock was lost while the job ran.
func (l *lock) Unlock(ctx context.Context) error {
	rest := time.Until(l.until)
	if rest <= 0 {
		return l.hold.Release(ctx)
	}
	time.AfterFunc(rest, func() { _ = l.hold.Release(context.WithoutCancel(ctx)) })
	return l.hold.Err()
}
