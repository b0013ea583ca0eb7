package leasehold_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// leaderIn returns the leader of a change; an empty one for none.
func leaderIn(change leasehold.LeaderChange) leasehold.Leader {
	if change.Leader == nil {
		return leasehold.Leader{}
	}
	return *change.Leader
}

func TestElections(t *testing.T) {
	t.Parallel()
	servers, urls := pair(t)
	c, other := connect(t, urls), connect(t, urls)
	ctx := t.Context()
	next, stop := iter.Pull2(other.Election("x").Observe(ctx))
	defer stop()
	wantLeader := func(value string, token int64) {
		t.Helper()
		change, err, _ := next()
		wantErr(t, err, nil)
		if leader := leaderIn(change); string(leader.Value) != value || leader.Token != token {
			t.Fatalf("observed %v, want %q with token %d", change, value, token)
		}
	}
	wantLeader("", 0)
	term, err := c.Election("x").Value([]byte("one")).Campaign(ctx)
	wantErr(t, err, nil)
	wantLeader("one", term.Token())
	_, err = c.Election("x").Campaign(ctx)
	wantErr(t, err, leasehold.ErrAlreadyCandidate)
	_, err = other.Election("x").Wait(0).Campaign(ctx)
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, term.Proclaim(ctx, []byte("uno")), nil)
	wantLeader("uno", term.Token())

	second := make(chan *leasehold.Term, 1)
	go func() {
		term, err := other.Election("x").Value([]byte("two")).Campaign(ctx)
		if err != nil {
			t.Error(err)
		}
		second <- term
	}()
	waitForWaiters(t, c, "x", 1)
	// The leader stays the same when its session moves.
	has, _ := serving(t, c, servers)
	before := sessionID(c)
	has.Terminate()
	servertest.Until(t, "the session to move", func() bool {
		wantErr(t, term.Check(), nil)
		info, isOpen := c.Session().Info()
		return isOpen && info.SessionID != before
	})
	wantErr(t, term.Resign(ctx), nil)
	wantErr(t, term.Resign(ctx), nil)
	won := await(t, "the second leader", second)
	if won.Token() <= term.Token() {
		t.Errorf("token %d after %d", won.Token(), term.Token())
	}
	for {
		change, err, _ := next()
		wantErr(t, err, nil)
		if token := leaderIn(change).Token; token == won.Token() {
			break
		} else if token != 0 && token < term.Token() {
			t.Fatalf("the observer went back to token %d", token)
		}
	}
	leader, err := c.Election("x").Leader(ctx)
	if err != nil || string(leader.Value) != "two" {
		t.Errorf("the leader is %v (%v)", leader, err)
	}
	wantErr(t, won.Resign(ctx), nil)
	_, err = c.Election("bad\n").Leader(ctx)
	wantErr(t, err, leasehold.ErrInvalid)
	for _, err := range c.Election("bad\n").Observe(ctx) {
		wantErr(t, err, leasehold.ErrInvalid)
	}
}

func TestRunCampaignsAgainAfterALossAndWaitsForTheBody(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	ctx, cancel := context.WithCancelCause(t.Context())
	terms := 0
	ended := make(chan struct{})
	var running bool
	why := errors.New("enough")
	go func() {
		defer close(ended)
		err := c.Election("x").Value([]byte("me")).Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
			if running {
				t.Error("two bodies at once")
			}
			running = true
			defer func() { running = false }()
			terms++
			switch terms {
			case 1:
				if _, err := c.Admin().ForceRelease(t.Context(), "x"); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				if cause := context.Cause(ctx); cause != leasehold.ErrLost {
					t.Errorf("the cause is %v", cause)
				}
				// Whatever a deposed leader returns, it must not end the program.
				return errors.New("deposed")
			case 2:
				// Done: it resigns, and campaigns again.
				return nil
			default:
				cancel(why)
				<-ctx.Done()
				return ctx.Err()
			}
		})
		wantErr(t, err, why)
	}()
	await(t, "the end", ended)
	if terms != 3 {
		t.Errorf("%d terms", terms)
	}
	leader, err := c.Election("x").Leader(t.Context())
	if leader != nil || err != nil {
		t.Errorf("the leader is %v (%v)", leader, err)
	}
	// A leader's own error ends it, after resigning.
	own := errors.New("own")
	err = c.Election("x").Run(t.Context(), func(context.Context, *leasehold.Term) error { return own })
	wantErr(t, err, own)
	// So does the loss of another lock.
	err = c.Election("x").Run(t.Context(), func(context.Context, *leasehold.Term) error {
		hold, err := c.Lock("y").Acquire(t.Context())
		if err != nil {
			return err
		}
		if _, err := c.Admin().ForceRelease(t.Context(), "y"); err != nil {
			return err
		}
		<-hold.Lost()
		return hold.Check()
	})
	wantErr(t, err, leasehold.ErrLost)
	err = c.Election("bad\n").Run(t.Context(), func(context.Context, *leasehold.Term) error { return nil })
	wantErr(t, err, leasehold.ErrInvalid)
}

func TestRunOutlivesItsCoordinator(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	tokens, ended := make(chan int64), make(chan error, 1)
	go func() {
		ended <- c.Election("x").Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
			tokens <- term.Token()
			<-ctx.Done()
			return nil
		})
	}()
	first := await(t, "the first term", tokens)
	server.Kill()
	server.Restart()
	if second := await(t, "the second term", tokens); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	cancel()
	wantErr(t, await(t, "the end", ended), context.Canceled)
}

func TestWatchersAndAdmin(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL, leasehold.WithSessionMetadata("pod", "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	hold := acquire(t, c.Lock("jobs/1"))
	next, stop := iter.Pull2(c.Admin().Watch(ctx, "jobs/"))
	defer stop()
	event := func() leasehold.WatchEvent {
		t.Helper()
		event, err, _ := next()
		wantErr(t, err, nil)
		return event
	}
	if got := event(); got.Lock.Name != "jobs/1" {
		t.Fatalf("got %v", got)
	}
	if got := event(); !got.Ready {
		t.Fatalf("got %v", got)
	}
	other := acquire(t, c.Lock("jobs/2"))
	if got := event().Event; got.Name != "jobs/2" || got.Token != other.Token() {
		t.Fatalf("got %v", got)
	}
	names := map[string]bool{}
	for lock, err := range c.Admin().ListLocks(ctx, "jobs/") {
		wantErr(t, err, nil)
		names[lock.Name] = true
	}
	if len(names) != 2 {
		t.Errorf("listed %v", names)
	}
	sessions := 0
	for session, err := range c.Admin().ListSessions(ctx) {
		wantErr(t, err, nil)
		if session.Metadata["pod"] != "a" || session.HoldCount != 2 {
			t.Errorf("listed %v", session)
		}
		sessions++
	}
	if sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
	isCurrent, newest, err := c.Admin().CheckToken(ctx, "jobs/1", hold.Token())
	if err != nil || !isCurrent || newest != hold.Token() {
		t.Errorf("%v %d %v", isCurrent, newest, err)
	}
	_, err = c.Admin().GetLock(ctx, "")
	wantErr(t, err, leasehold.ErrInvalid)
	// A break is a gap, and a new snapshot follows.
	server.Kill()
	if got := event(); got.Gap == "" {
		t.Fatalf("got %v", got)
	}
	server.Restart()
	if got := event(); !got.Ready {
		t.Fatalf("got %v", got)
	}
	cancel()
	_, err, _ = next()
	wantErr(t, err, context.Canceled)
}
