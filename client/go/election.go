package leasehold

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold.dev/go/internal/clock"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Election is an election: one of several candidates leads, all can observe it, and the next one leads as soon as it ends. Its settings
// return a changed copy.
type Election struct {
	request Request
	calls   *calls
}

// Value sets what observers see of this candidate when it leads, for example its address: at most 4 KiB. Default: empty.
func (e Election) Value(value []byte) Election {
	e.request = e.request.Value(value)
	return e
}

// Wait sets the time to wait to be elected: 0 to 24 h, where 0 means not to wait. Default: as long as it takes, over reconnects too, until
// the context ends.
func (e Election) Wait(wait time.Duration) Election {
	e.request = e.request.Wait(wait)
	return e
}

// LockDelay sets the time for which no candidate is elected after a leadership that ended uncleanly, that is in any way other than by
// resigning: 0 to the maximum TTL. Default: 0.
func (e Election) LockDelay(delay time.Duration) Election {
	e.request = e.request.LockDelay(delay)
	return e
}

// MaxHold bounds the time for which this candidate leads without being elected anew; see Request.MaxHold. Default: no bound but that of
// the coordinator's rules.
func (e Election) MaxHold(bound time.Duration) Election {
	e.request = e.request.MaxHold(bound)
	return e
}

// Term is a leadership of this process, until it resigns or loses it. All methods may be called from any number of goroutines.
//
// A term promises what a Hold promises: it is lost at its deadline, by this process's own clock, before anybody else can be elected. It
// moves to another coordinator with its session, and nobody else is elected for that.
type Term struct {
	held
	candidacy *candidacy
}

// Proclaim changes the value that observers see: at most 4 KiB. If the context ends first, the change may be carried out all the same.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return t.setValue(ctx, value)
}

// Resign gives the leadership up, and the next candidate is elected. It is shielded and idempotent as Hold.Release is, and returns the
// same errors.
func (t *Term) Resign(ctx context.Context) error {
	defer t.candidacy.end()
	return t.release(ctx)
}

// Campaign waits to be elected. Fails as Request.Acquire does, and with ErrAlreadyCandidate if this session campaigns for the election
// already, or leads it: it would wait behind itself. Use Term.Proclaim to change the value, and another session for another candidate.
func (e Election) Campaign(ctx context.Context) (*Term, error) {
	session, err := e.request.on(ctx)
	if err != nil {
		return nil, err
	}
	spec := e.request.spec
	candidacy := session.candidacies.begin(spec.label())
	if candidacy == nil {
		return nil, &AcquireError{Name: spec.label(), Kind: ErrAlreadyCandidate}
	}
	// Of its own, since a candidate that lost its term may campaign while its former hold is still there, closed for a lock-delay.
	spec.actor = NewActor().number
	holds, err := session.acquire(ctx, spec)
	if err != nil {
		candidacy.end()
		return nil, err
	}
	candidacy.elected(holds[0].granted.lease)
	term := &Term{held: holds[0].held, candidacy: candidacy}
	warnIfForgotten(term, term.held)
	return term, nil
}

// Run campaigns, and calls lead while this process leads; again and again, until the context ends. The context of lead is cancelled with
// the cause ErrLost if the leadership is lost. Run waits for lead to return before it resigns or campaigns again, so that nobody else
// leads because of this process while its lead still runs.
//
// While the leadership is only suspended, lead goes on, and Term.Check tells it not to act. If the leadership moves to another coordinator,
// lead goes on too.
//
// A loss of the leadership never ends Run, whatever lead returns then, and neither does a failure that may pass: no connection, a coordinator or a store
// that does not serve at present, a limit that is reached. Both are logged. If lead returns nil while it leads, this process resigns, and
// campaigns again behind the others. Run ends with
//
//   - the error that lead returned while it led, after resigning;
//   - the error of a campaign that another attempt can't mend, such as ErrPermissionDenied, or ErrTimedOut if there is a Wait;
//   - ErrClosed when the client or the session is closed: the context of lead is cancelled then, and closing waits for lead to return;
//   - the cause of the context, when that has ended.
func (e Election) Run(ctx context.Context, lead func(ctx context.Context, term *Term) error) error {
	if lead == nil {
		return &AcquireError{Name: e.request.spec.label(), Kind: ErrInvalid, Cause: errNoWork}
	}
	if _, err := e.request.on(ctx); err != nil {
		return err
	}
	log := e.calls.settings.log.With("election", e.request.spec.label())
	pauses := newPauses(e.calls.settings.backoffMin, e.calls.settings.backoffMax)
	failures := 0
	for {
		term, err := e.Campaign(ctx)
		if ctx.Err() != nil {
			if err == nil {
				_ = term.Resign(ctx)
			}
			return context.Cause(ctx)
		}
		if err != nil {
			if !mayPass(err) {
				return err
			}
			// The first of a row as a warning, since no caller sees the error and it may go on for ever.
			if failures++; failures == 1 {
				log.Warn("campaign failed; repeating it until it succeeds", "error", err)
			} else {
				log.Debug("campaign failed again", "error", err)
			}
			if !sleep(ctx, pauses.pauseAsAsked(clock.Now(), retryAfter(err)), nil) {
				return context.Cause(ctx)
			}
			continue
		}
		failures = 0
		pauses.opened(clock.Now())
		err = runUnder(ctx, term.Name(), Holds{{term.held}}, term.Resign, func(ctx context.Context) error { return lead(ctx, term) })
		switch {
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), ownError(ctx, err))
		case isLossOf(term, err):
			log.Warn("lost the leadership; campaigning again", "error", err)
		case err != nil:
			return err
		}
		// Terms that end as soon as they begin must not become a loop.
		if !pauses.lived(clock.Now()) && !sleep(ctx, pauses.pause(clock.Now()), nil) {
			return context.Cause(ctx)
		}
	}
}

// isLossOf reports whether an error is the loss of this term: the work may return that of another lock as well, which is its own failure.
func isLossOf(term *Term, err error) bool {
	var lost *LostError
	return errors.As(err, &lost) && lost.Name == term.Name() && lost.Token == term.Token()
}

// ownError returns what a leader reported when its context had ended, unless it only says that.
func ownError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// mayPass reports whether a campaign that failed with this error is worth repeating. Another leader is an answer, not a failure.
func mayPass(err error) bool {
	var failed *AcquireError
	if !errors.As(err, &failed) || failed.Kind == ErrBusy || failed.Kind == ErrTimedOut {
		return false
	}
	// An operator who ends the wait of a candidate sends it to the end of the queue, and does not end its program.
	return failed.Kind == ErrForceReleased || failed.Retryable()
}

// candidacies are the elections for which a session campaigns, or which it leads: at most one candidacy each, since a second one would
// wait behind the first.
type candidacies struct {
	mu  sync.Mutex
	all map[string]*candidacy
}

// candidacy is that of one election.
type candidacy struct {
	of       *candidacies
	election string
	// term is the leadership, once it is elected.
	term *lease
}

// begin begins a candidacy; nil if the session has one that waits, leads or is suspended.
func (c *candidacies) begin(election string) *candidacy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if former := c.all[election]; former != nil {
		if former.term == nil {
			return nil
		}
		if _, isAlive := former.term.alive(clock.Now()); isAlive {
			return nil
		}
	}
	if c.all == nil {
		c.all = make(map[string]*candidacy)
	}
	begun := &candidacy{of: c, election: election}
	c.all[election] = begun
	return begun
}

// elected notes the leadership.
func (c *candidacy) elected(term *lease) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.term = term
}

// end ends it. After a loss the session may have begun another one, which stays.
func (c *candidacy) end() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.all[c.election] == c {
		delete(c.of.all, c.election)
	}
}

// LeaderChange is a change of an election's leader, as an observer sees it.
type LeaderChange struct {
	// Leader is the leader; nil while there is none.
	Leader *Leader
	// Skipped is set if there may have been other leaders, or values, since the change before: the program did not read in time, there
	// was no connection, or the coordinator could not follow for a while.
	Skipped bool
}

// Leader returns the present leader; nil while there is none, also before the first campaign.
func (e Election) Leader(ctx context.Context) (*Leader, error) {
	request := &leaseholdv1.LeaderRequest{Election: e.request.spec.label()}
	answer, err := call(ctx, e.calls, repeatsFreely, func(ctx context.Context, on channel) (*leaseholdv1.LeaderResponse, error) {
		return leaseholdv1.NewElectionServiceClient(on).Leader(ctx, request)
	})
	return some(answer.GetLeader(), leaderOf), err
}
