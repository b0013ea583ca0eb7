package leaseholdgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
)

// campaignPause is the pause after a campaign that another attempt at once would not mend.
const campaignPause = 5 * time.Second

// ErrNotLeader means that another instance leads, or none does at present.
var ErrNotLeader = errors.New("leaseholdgocron: this instance does not lead")

var _ gocron.Elector = (*Elector)(nil)

// Elector is a gocron.Elector: the instance that leads an election runs the jobs. It campaigns in the background from NewElector to Close,
// whatever fails meanwhile, unless its client or session is closed before. All methods may be called from any number of goroutines.
type Elector struct {
	options options
	// resign ends the campaigns; done is closed when they have ended.
	resign context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// term is the present leadership; nil if there is none.
	term *leasehold.Term
	// err says why the last campaign failed.
	err error
	// allowed is when IsLeader last allowed a job; zero if it never did.
	allowed  time.Time
	isClosed bool
	// running are the tasks of Leading that run.
	running sync.WaitGroup
}

// NewElector makes an elector that campaigns for the election of this name: 1 to 512 bytes of UTF-8 without control characters.
func NewElector(client *leasehold.Client, name string, opts ...Option) *Elector {
	ctx, resign := context.WithCancel(context.Background())
	e := &Elector{options: newOptions(client, opts), resign: resign, done: make(chan struct{})}
	election := e.options.on.Election(name).Value(e.options.value).LockDelay(e.options.splay)
	go func() {
		defer close(e.done)
		for ctx.Err() == nil {
			err := election.Run(ctx, e.lead)
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, leasehold.ErrClosed) {
				// The client, or the session, is not made anew.
				e.set(nil, err)
				return
			}
			e.options.log.Error("failed to campaign; this instance runs no jobs until it can", "election", name, "error", err)
			e.set(nil, err)
			select {
			case <-time.After(campaignPause):
			case <-ctx.Done():
			}
		}
	}()
	return e
}

// lead keeps the leadership until it is lost, or the elector or the client is closed, and then until the tasks of Leading have returned and
// the splay has passed since the last job that was allowed.
func (e *Elector) lead(ctx context.Context, term *leasehold.Term) error {
	e.set(term, nil)
	<-ctx.Done()
	e.set(nil, nil)
	e.running.Wait()
	if term.Err() == nil {
		e.mu.Lock()
		rest := e.options.splay - time.Since(e.allowed)
		e.mu.Unlock()
		time.Sleep(rest)
	}
	return nil
}

// Leading returns a task for gocron.NewTask that runs the work while this instance leads. Its context ends with that of the job, when the
// leadership is lost (with the cause leasehold.ErrLost), and when the client is closed (leasehold.ErrClosed). The leadership is not given up
// before the work has returned, unless it is lost. If this instance does not lead any more, the task returns ErrNotLeader.
func (e *Elector) Leading(work func(ctx context.Context, term *leasehold.Term) error) func(context.Context) error {
	return func(ctx context.Context) error {
		e.mu.Lock()
		term := e.term
		if term == nil {
			e.mu.Unlock()
			return ErrNotLeader
		}
		e.running.Add(1)
		e.mu.Unlock()
		defer e.running.Done()
		under, done := term.Work(ctx)
		defer done()
		return work(under, term)
	}
}

func (e *Elector) set(term *leasehold.Term, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.err = term, err
}

// IsLeader returns nil if this instance leads, by its own clock at this moment, and ErrNotLeader, ErrSuspended or ErrLost otherwise. It
// does not wait.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.isClosed:
		return fmt.Errorf("%w: the elector is closed", ErrNotLeader)
	case e.term == nil && e.err != nil:
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	case e.term == nil:
		return ErrNotLeader
	}
	if err := e.term.Check(); err != nil {
		return err
	}
	e.allowed = time.Now()
	return nil
}

// Term returns the present leadership, for its fencing token, and for contexts that end with it; nil if this instance does not lead.
// IsLeader is asked only before a job begins: use Term().Context in jobs that must not go on after a loss.
func (e *Elector) Term() *leasehold.Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.Err() != nil {
		return nil
	}
	return e.term
}

// Close resigns, once the tasks of Leading have returned and the splay has passed since the last job that was allowed, so that no other
// instance runs the same slot. From the call on, no job is allowed. Returns when the election is given up. Closing it again does nothing.
func (e *Elector) Close() {
	e.mu.Lock()
	e.isClosed = true
	e.mu.Unlock()
	e.resign()
	<-e.done
}
