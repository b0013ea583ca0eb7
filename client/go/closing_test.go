package leasehold_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// working begins work under a lock, which ends once finish is closed. stopped has the cause of its context, err what Do returned.
type working struct {
	stopped chan error
	finish  chan struct{}
	err     chan error
}

func begin(t testing.TB, r leasehold.Request, ends func(context.Context) error) *working {
	t.Helper()
	w := &working{make(chan error, 1), make(chan struct{}), make(chan error, 1)}
	begun := make(chan struct{})
	go func() {
		w.err <- r.Do(context.Background(), func(ctx context.Context, hold *leasehold.Hold) error {
			close(begun)
			<-ctx.Done()
			w.stopped <- context.Cause(ctx)
			<-w.finish
			if err := hold.Check(); err != nil {
				t.Errorf("the lock was not held to the end of the work: %v", err)
			}
			return ends(ctx)
		})
	}()
	await(t, "the work", begun)
	return w
}

func closing(c interface{ Close() }) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	return closed
}

func TestClosingStopsTheWorkAndWaitsForIt(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	other := connect(t, url)
	own := errors.New("the write failed")
	for name, test := range map[string]struct {
		ends func(context.Context) error
		want error
	}{
		"it says that it was stopped": {func(ctx context.Context) error { return ctx.Err() }, leasehold.ErrClosed},
		"it says why":                 {context.Cause, leasehold.ErrClosed},
		"it is done":                  {func(context.Context) error { return nil }, nil},
		"it fails":                    {func(context.Context) error { return own }, own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, url)
			lock := c.Lock(name)
			w := begin(t, lock, test.ends)
			kept := acquire(t, c.Lock(name+", plain"))
			_, waits := background(t.Context(), c.Lock(name))
			next, _ := background(t.Context(), other.Lock(name))
			waitForWaiters(t, other, name, 2)
			closed := closing(c)
			if cause := await(t, "the stop", w.stopped); cause != leasehold.ErrClosed {
				t.Errorf("the cause is %v", cause)
			}
			wantErr(t, await(t, "the end of the wait", waits), leasehold.ErrClosed)
			_, err := lock.Acquire(t.Context())
			wantErr(t, err, leasehold.ErrClosed)
			wantErr(t, lock.Do(t.Context(), func(context.Context, *leasehold.Hold) error { return nil }), leasehold.ErrClosed)
			_, err = c.DetachedLock("free").Acquire(t.Context())
			wantErr(t, err, leasehold.ErrClosed)
			// What has no work is held until the end.
			wantErr(t, kept.Check(), nil)
			again := closing(c)
			select {
			case <-closed:
				t.Error("it closed while the work ran")
			case <-again:
				t.Error("the second call did not wait")
			case <-next:
				t.Error("another client has the lock while the work runs")
			case <-time.After(50 * time.Millisecond):
			}
			close(w.finish)
			hold := await(t, "the next holder", next)
			if err := await(t, "the work", w.err); !errors.Is(err, test.want) {
				t.Errorf("Do returned %v", err)
			}
			await(t, "the close", closed)
			await(t, "the second close", again)
			wantErr(t, kept.Check(), leasehold.ErrLost)
			wantErr(t, acquire(t, other.Lock(name+", plain")).Release(t.Context()), nil)
			wantErr(t, hold.Release(t.Context()), nil)
		})
	}
}

func TestClosingWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	var log bytes.Buffer
	c, err := leasehold.Connect(t.Context(), url, leasehold.WithCloseTimeout(20*time.Millisecond), leasehold.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	wantErr(t, err, nil)
	stubborn := make(chan struct{})
	done := make(chan error, 1)
	begun := make(chan *leasehold.Hold, 1)
	go func() {
		done <- c.LockAll("a", "b").Do(context.Background(), func(_ context.Context, holds leasehold.Holds) error {
			begun <- holds[0]
			<-stubborn
			return nil
		})
	}()
	hold := await(t, "the work", begun)
	c.Close()
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "a, b") {
		t.Errorf("the log is %q", text)
	}
	if reason := lostReason(t, hold.Check()); reason != leasehold.LostSessionClosed {
		t.Errorf("lost because %v", reason)
	}
	close(stubborn)
	wantErr(t, await(t, "the work", done), leasehold.ErrLost)

	// With a context of the caller's own.
	c = connect(t, url)
	w := &working{stopped: make(chan error, 1), finish: make(chan struct{})}
	defer close(w.finish)
	begunAgain := make(chan struct{})
	go func() {
		_ = c.Lock("c").Do(context.Background(), func(ctx context.Context, _ *leasehold.Hold) error {
			close(begunAgain)
			<-ctx.Done()
			w.stopped <- context.Cause(ctx)
			<-w.finish
			return nil
		})
	}()
	await(t, "the work", begunAgain)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	session, err := c.NewSession(t.Context())
	wantErr(t, err, nil)
	wantErr(t, session.Shutdown(ctx), nil)
	if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "locks c:") {
		t.Errorf("Shutdown returned %v", err)
	}
	wantErr(t, c.Shutdown(t.Context()), nil)
	wantErr(t, c.Shutdown(nil), leasehold.ErrInvalid)
	await(t, "the stop", w.stopped)
}

func TestWorkThatClosesItsClientDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	for name, end := range map[string]func(context.Context, *leasehold.Client) error{
		"Close": func(_ context.Context, c *leasehold.Client) error { c.Close(); return nil },
		"Shutdown": func(ctx context.Context, c *leasehold.Client) error {
			// Of a goroutine of its own, which the context alone tells.
			ended := make(chan error)
			go func() { ended <- c.Shutdown(ctx) }()
			return <-ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// As long as the test waits: a close that waits for itself fails it.
			c := connect(t, url, leasehold.WithCloseTimeout(2*longest))
			others := begin(t, c.Lock(name+"/other"), func(context.Context) error { return nil })
			ended := make(chan error, 1)
			go func() {
				_ = c.Lock(name).Do(context.Background(), func(ctx context.Context, _ *leasehold.Hold) error {
					return c.Lock(name+"/inner").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
						err := end(ctx, c)
						ended <- err
						return err
					})
				})
			}()
			// It waits for the others.
			await(t, "the stop", others.stopped)
			select {
			case <-ended:
				t.Error("it did not wait for other work")
			case <-time.After(20 * time.Millisecond):
			}
			close(others.finish)
			wantErr(t, await(t, "the close", ended), nil)
		})
	}
}

func TestClosingEndsALeadershipInOrder(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	c, other := connect(t, url), connect(t, url)
	var leads sync.Mutex
	leading, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.Election("x").Run(context.Background(), func(ctx context.Context, term *leasehold.Term) error {
			leads.Lock()
			defer leads.Unlock()
			close(leading)
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond)
			if err := term.Check(); err != nil || context.Cause(ctx) != leasehold.ErrClosed {
				t.Errorf("got %v, %v", err, context.Cause(ctx))
			}
			return nil
		})
	}()
	await(t, "the leader", leading)
	terms := make(chan *leasehold.Term, 1)
	go func() {
		term, err := other.Election("x").Campaign(context.Background())
		if err != nil {
			t.Error(err)
		}
		if !leads.TryLock() {
			t.Error("another one was elected while lead ran")
		}
		terms <- term
	}()
	waitForWaiters(t, other, "x", 1)
	c.Close()
	wantErr(t, await(t, "the end of Run", done), leasehold.ErrClosed)
	wantErr(t, await(t, "the next leader", terms).Resign(t.Context()), nil)
}

// TestWorkOfAnothersCallIsWaitedFor has work that begins and ends by callbacks.
func TestWorkOfAnothersCallIsWaitedFor(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	c := connect(t, url)
	hold := acquire(t, c.Lock("a"))
	ctx, done := hold.Work(t.Context())
	closed := closing(c)
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != leasehold.ErrClosed {
		t.Errorf("the cause is %v", cause)
	}
	wantErr(t, hold.Check(), nil)
	wantErr(t, hold.Release(ctx), nil)
	select {
	case <-closed:
		t.Error("it did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	done()
	done()
	await(t, "the close", closed)
}

// TestClosingInTheMiddleOfWorkNeverLetsAnotherIn closes the client of who works, many times, while another one waits.
func TestClosingInTheMiddleOfWorkNeverLetsAnotherIn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for kind, runs := range map[string]func(c *leasehold.Client, work func(context.Context)) error{
		"Do": func(c *leasehold.Client, work func(context.Context)) error {
			return c.Lock("a").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error { work(ctx); return ctx.Err() })
		},
		"Do with several locks": func(c *leasehold.Client, work func(context.Context)) error {
			return c.LockAll("a", "b").Do(ctx, func(ctx context.Context, _ leasehold.Holds) error { work(ctx); return ctx.Err() })
		},
		"Do in Do": func(c *leasehold.Client, work func(context.Context)) error {
			return c.Lock("a").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
				return c.Lock("b").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error { work(ctx); return ctx.Err() })
			})
		},
		"Run": func(c *leasehold.Client, work func(context.Context)) error {
			return c.Election("a").Run(ctx, func(ctx context.Context, _ *leasehold.Term) error { work(ctx); return ctx.Err() })
		},
		"Work": func(c *leasehold.Client, work func(context.Context)) error {
			hold, err := c.Lock("a").Acquire(ctx)
			if err != nil {
				return err
			}
			under, done := hold.Work(ctx)
			defer done()
			work(under)
			return hold.Release(under)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := servertest.Start(t).URL
			watcher := connect(t, url)
			var inside atomic.Int32
			working := make(chan *leasehold.Client, 1)
			var all sync.WaitGroup
			start := func() {
				c := connect(t, url)
				all.Go(func() {
					err := runs(c, func(ctx context.Context) {
						if inside.Add(1) > 1 {
							t.Error("two are inside")
						}
						working <- c
						<-ctx.Done()
						if err := context.Cause(ctx); err != leasehold.ErrClosed {
							t.Errorf("the context ended with %v", err)
						}
						time.Sleep(time.Millisecond)
						inside.Add(-1)
					})
					if kind != "Work" && !errors.Is(err, leasehold.ErrClosed) || kind == "Work" && err != nil {
						t.Errorf("the work ended with %v", err)
					}
				})
			}
			start()
			current := await(t, "the first", working)
			for range servertest.Rounds(20) {
				start()
				waitForWaiters(t, watcher, "a", 1)
				current.Close()
				current = await(t, "the next", working)
			}
			current.Close()
			all.Wait()
		})
	}
}

// beWorker works under a lock until SIGTERM.
func beWorker(endpoint string) {
	client, err := leasehold.New(endpoint, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_ = client.Lock("a").Do(context.Background(), func(ctx context.Context, _ *leasehold.Hold) error { return servertest.Work(ctx) })
	}()
	<-ctx.Done()
	client.Close()
}

func TestAProcessThatIsAskedToEndInTheMiddleOfWorkNeverLetsAnotherIn(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL)
	servertest.TerminateWorkers(t, servertest.Rounds(20), server, func() { waitForWaiters(t, c, "a", 1) })
}
