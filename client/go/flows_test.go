package leasehold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

func TestWorkIsAFlow(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	nothing := func(context.Context, *leasehold.Hold) error { return nil }
	wantErr(t, c.Lock("a").Do(t.Context(), func(ctx context.Context, hold *leasehold.Hold) error {
		// A hang without the flow.
		wantErr(t, c.Lock("a").Do(ctx, nothing), leasehold.ErrSelfDeadlock)
		_, err := c.Lock("a").Acquire(ctx)
		wantErr(t, err, leasehold.ErrSelfDeadlock)
		if text := err.Error(); !strings.Contains(text, "use Reentrant() to hold it once more") {
			t.Errorf("the advice is none for Go: %s", text)
		}
		_, err = c.LockAll("b", "a").Acquire(ctx)
		wantErr(t, err, leasehold.ErrSelfDeadlock)
		_, err = c.Lock("a").Try(ctx)
		wantErr(t, err, leasehold.ErrSelfDeadlock)
		wantErr(t, c.Lock("a").Reentrant().Do(ctx, func(ctx context.Context, again *leasehold.Hold) error {
			if again.Token() != hold.Token() || again.Count() != 2 {
				t.Errorf("token %d after %d, count %d", again.Token(), hold.Token(), again.Count())
			}
			return nil
		}), nil)
		// One flow over several locks.
		wantErr(t, c.LockAll("b", "c").Do(ctx, func(ctx context.Context, _ leasehold.Holds) error {
			wantErr(t, c.Lock("a").Do(ctx, nothing), leasehold.ErrSelfDeadlock)
			return nil
		}), nil)
		// Another flow waits, as does an actor that is named.
		for _, request := range []func() error{
			func() error { _, err := c.Lock("a").Try(leasehold.NewFlow(ctx)); return err },
			func() error { _, err := c.Lock("a").Actor(leasehold.NewActor()).Try(ctx); return err },
			func() error { _, err := c.Lock("a").Try(t.Context()); return err },
		} {
			wantErr(t, request(), leasehold.ErrBusy)
		}
		// Goroutines with flows of their own exclude one another.
		var side sync.WaitGroup
		for range 3 {
			side.Go(func() {
				if err := c.Lock("d").Do(leasehold.NewFlow(ctx), nothing); err != nil {
					t.Error(err)
				}
			})
		}
		side.Wait()
		return nil
	}), nil)
	// An actor that is named is that of the work.
	me := leasehold.NewActor()
	wantErr(t, c.Lock("a").Actor(me).Do(t.Context(), func(ctx context.Context, _ *leasehold.Hold) error {
		_, err := c.Lock("a").Acquire(ctx)
		wantErr(t, err, leasehold.ErrSelfDeadlock)
		view, err := c.Admin().GetLock(ctx, "a")
		wantErr(t, err, nil)
		if view.Holders[0].Actor != me.Number() {
			t.Errorf("the actor is %d, not %d", view.Holders[0].Actor, me.Number())
		}
		return nil
	}), nil)
	// A leader too.
	ctx, stop := context.WithCancel(t.Context())
	err := c.Election("e").Run(ctx, func(ctx context.Context, _ *leasehold.Term) error {
		_, err := c.Lock("e").Acquire(ctx)
		wantErr(t, err, leasehold.ErrSelfDeadlock)
		stop()
		return nil
	})
	wantErr(t, err, context.Canceled)
	// A hold without work marks nothing.
	hold := acquire(t, c.Lock("a"))
	_, err = c.Lock("a").Try(t.Context())
	wantErr(t, err, leasehold.ErrBusy)
	wantErr(t, hold.Release(t.Context()), nil)
}

// TestWhoseFlowItIs holds a lock in each way, and asks for it again with each context that there is then.
func TestWhoseFlowItIs(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	other, err := c.NewSession(t.Context())
	wantErr(t, err, nil)
	// do holds the lock by work, and asks with what is made of its context.
	do := func(with func(context.Context) context.Context) func(func(context.Context)) error {
		return func(asks func(context.Context)) error {
			return c.Lock("a").Do(t.Context(), func(ctx context.Context, _ *leasehold.Hold) error { asks(with(ctx)); return nil })
		}
	}
	// plain holds it by a plain hold.
	plain := func(ctx context.Context, request leasehold.Request, asks func(*leasehold.Hold)) error {
		hold, err := request.Acquire(ctx)
		if err != nil {
			return err
		}
		asks(hold)
		return hold.Release(ctx)
	}
	same := func(ctx context.Context) context.Context { return ctx }
	for name, test := range map[string]struct {
		holds func(asks func(context.Context)) error
		on    func(string) leasehold.Request
		// again and reentrant are the errors of asking again.
		again, reentrant error
	}{
		"work":                 {do(same), c.Lock, leasehold.ErrSelfDeadlock, nil},
		"a derived context":    {do(context.WithoutCancel), c.Lock, leasehold.ErrSelfDeadlock, nil},
		"a new flow":           {do(leasehold.NewFlow), c.Lock, leasehold.ErrBusy, leasehold.ErrInvalid},
		"a context of its own": {do(func(context.Context) context.Context { return t.Context() }), c.Lock, leasehold.ErrBusy, leasehold.ErrInvalid},
		"another session's":    {do(same), other.Lock, leasehold.ErrBusy, leasehold.ErrBusy},
		"a goroutine of the work": {func(asks func(context.Context)) error {
			return do(same)(func(ctx context.Context) {
				var beside sync.WaitGroup
				beside.Go(func() { asks(ctx) })
				beside.Wait()
			})
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"nested work": {func(asks func(context.Context)) error {
			return do(same)(func(ctx context.Context) {
				wantErr(t, c.Lock("b").Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error { asks(ctx); return nil }), nil)
			})
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"work under several locks": {func(asks func(context.Context)) error {
			return c.LockAll("b", "a").Do(t.Context(), func(ctx context.Context, _ leasehold.Holds) error { asks(ctx); return nil })
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"a term": {func(asks func(context.Context)) error {
			ctx, stop := context.WithCancel(t.Context())
			err := c.Election("a").Run(ctx, func(ctx context.Context, _ *leasehold.Term) error { asks(ctx); stop(); return nil })
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"a plain hold": {func(asks func(context.Context)) error {
			return plain(t.Context(), c.Lock("a"), func(*leasehold.Hold) { asks(t.Context()) })
		}, c.Lock, leasehold.ErrBusy, leasehold.ErrInvalid},
		"a plain hold in work": {func(asks func(context.Context)) error {
			return c.Lock("b").Do(t.Context(), func(ctx context.Context, _ *leasehold.Hold) error {
				return plain(ctx, c.Lock("a"), func(*leasehold.Hold) { asks(ctx) })
			})
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"work of a plain hold": {func(asks func(context.Context)) error {
			return plain(t.Context(), c.Lock("a"), func(hold *leasehold.Hold) {
				ctx, done := hold.Work(t.Context())
				defer done()
				asks(ctx)
			})
		}, c.Lock, leasehold.ErrBusy, leasehold.ErrInvalid},
		"work of an actor's hold": {func(asks func(context.Context)) error {
			return plain(t.Context(), c.Lock("a").Actor(leasehold.NewActor()), func(hold *leasehold.Hold) {
				ctx, done := hold.Work(t.Context())
				defer done()
				asks(ctx)
			})
		}, c.Lock, leasehold.ErrSelfDeadlock, nil},
		"a detached lock": {func(asks func(context.Context)) error {
			lock, err := c.DetachedLock("a").Try(t.Context())
			if err != nil {
				return err
			}
			asks(t.Context())
			return lock.Release(t.Context())
		}, c.Lock, leasehold.ErrBusy, leasehold.ErrInvalid},
	} {
		// One after the other: they want one lock.
		t.Run(name, func(t *testing.T) {
			wantErr(t, test.holds(func(ctx context.Context) {
				_, err := test.on("a").Try(ctx)
				if !errors.Is(err, test.again) {
					t.Errorf("asking again: %v", err)
				}
				hold, err := test.on("a").Reentrant().Try(ctx)
				if !errors.Is(err, test.reentrant) {
					t.Errorf("asking again, reentrant: %v", err)
				}
				if err == nil {
					if err := hold.Release(ctx); err != nil {
						t.Error(err)
					}
				}
				_, err = c.DetachedLock("a").Try(ctx)
				if !errors.Is(err, leasehold.ErrBusy) {
					t.Errorf("asking without a session: %v", err)
				}
			}), nil)
		})
	}
}

func TestABusyLockIsSkippedWithoutAnError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	url := servertest.Start(t).URL
	c := connect(t, url, leasehold.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))))
	runs := 0
	one := func(context.Context, *leasehold.Hold) error { runs++; return nil }
	all := func(context.Context, leasehold.Holds) error { runs++; return nil }
	holder := connect(t, url)
	hold := acquire(t, holder.Lock("a"))
	for _, try := range []func() (bool, error){
		func() (bool, error) { return c.Lock("a").Wait(time.Hour).TryDo(t.Context(), one) },
		func() (bool, error) { return c.LockAll("b", "a").TryDo(t.Context(), all) },
	} {
		if ran, err := try(); ran || err != nil {
			t.Errorf("got %v, %v", ran, err)
		}
	}
	wantErr(t, hold.Release(t.Context()), nil)
	ran, err := c.LockAll("b", "a").TryDo(t.Context(), all)
	if !ran || err != nil || runs != 1 || log.Len() > 0 {
		t.Errorf("got %v, %v; it ran %d times; the log is %q", ran, err, runs, &log)
	}
	// What the work says is the work's.
	ran, err = c.Lock("a").TryDo(t.Context(), func(context.Context, *leasehold.Hold) error { return leasehold.ErrBusy })
	if !ran || !errors.Is(err, leasehold.ErrBusy) {
		t.Errorf("got %v, %v", ran, err)
	}
	_, err = c.Lock("a").TryDo(t.Context(), nil)
	wantErr(t, err, leasehold.ErrInvalid)
}

func TestAClientMayBoundAllWaits(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	holder, c := connect(t, url), connect(t, url, leasehold.WithWait(20*time.Millisecond))
	hold := acquire(t, holder.Lock("a"))
	_, err := c.Lock("a").Acquire(t.Context())
	wantErr(t, err, leasehold.ErrTimedOut)
	_, err = c.LockAll("a", "b").Acquire(t.Context())
	wantErr(t, err, leasehold.ErrTimedOut)
	// A request's own wait, and elections, go beyond it.
	holds, _ := background(t.Context(), c.Lock("a").Wait(time.Hour))
	waitForWaiters(t, holder, "a", 1)
	terms := make(chan *leasehold.Term, 1)
	go func() {
		term, err := c.Election("a").Campaign(t.Context())
		if err != nil {
			t.Error(err)
		}
		terms <- term
	}()
	waitForWaiters(t, holder, "a", 2)
	time.Sleep(40 * time.Millisecond)
	wantErr(t, hold.Release(t.Context()), nil)
	wantErr(t, await(t, "the lock", holds).Release(t.Context()), nil)
	wantErr(t, await(t, "the term", terms).Resign(t.Context()), nil)
}

func TestASessionTellsItsNextLoss(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL)
	before := acquire(t, c.Lock("before"))
	lost := c.Session().Lost()
	if again := c.Session().Lost(); again != lost {
		t.Error("two channels for one loss")
	}
	after := acquire(t, c.Lock("after"))
	wantErr(t, before.Release(t.Context()), nil)
	select {
	case <-lost:
		t.Fatal("a release is no loss")
	default:
	}
	_, err := c.Admin().ForceRelease(t.Context(), "after")
	wantErr(t, err, nil)
	await(t, "the loss", lost)
	wantErr(t, after.Check(), leasehold.ErrLost)
	session := c.Session()
	next := session.Lost()
	select {
	case <-next:
		t.Fatal("the same loss twice")
	default:
	}
	c.Close()
	await(t, "the end", next)
	await(t, "a later call", session.Lost())
}

// TestWhatIsPrintedIsShort prints what a program may log.
func TestWhatIsPrintedIsShort(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	c := connect(t, url, leasehold.WithToken("secret-token"))
	hold := acquire(t, c.Lock("a"))
	term, err := c.Election("e").Campaign(t.Context())
	wantErr(t, err, nil)
	detached, err := c.DetachedLock("d").Acquire(t.Context())
	wantErr(t, err, nil)
	for want, value := range map[string]any{
		`lock "a", token`: hold, `lock "e", token`: term, "client of http://127.0.0.1:": c, "session ": c.Session(), `detached lock "d", token`: detached,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			text := fmt.Sprintf(verb, value)
			if !strings.HasPrefix(text, want) || len(text) > 100 || strings.Contains(text, "secret") || strings.Contains(text, string(detached.OwnerID())) {
				t.Errorf("%s of %T is %q", verb, value, text)
			}
		}
	}
	wantErr(t, detached.Release(t.Context()), nil)
}

// TestTheInterfaceHasNoGeneratedTypes reads the package's own code: what it exports must not change with the protocol's code.
func TestTheInterfaceHasNoGeneratedTypes(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	wantErr(t, err, nil)
	exported := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		wantErr(t, err, nil)
		if !ast.FileExports(parsed) {
			continue
		}
		for _, declared := range parsed.Decls {
			if function, isFunction := declared.(*ast.FuncDecl); isFunction {
				function.Body = nil
			}
			exported++
			ast.Inspect(declared, func(node ast.Node) bool {
				if name, isName := node.(*ast.Ident); isName && name.Name == "leaseholdv1" {
					t.Errorf("%s exports a generated type", file.Name())
				}
				return true
			})
		}
	}
	if exported < 100 {
		t.Errorf("found only %d declarations", exported)
	}
}
