package leasehold

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold.dev/go/internal/servertest"
)

// overdue is a context whose deadline has passed a moment before its timer fires.
type overdue struct {
	context.Context
}

func (overdue) Deadline() (deadline time.Time, isSet bool) {
	return time.Now().Add(-time.Millisecond), true
}

func TestADeadlineOfTheCallersOwnIsNoFailureOfTheConnection(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c, err := New(server.URL+","+server.URL, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	late := errors.New("the caller has no more time")
	for name, ask := range map[string]func(context.Context) error{
		"a call": func(ctx context.Context) error {
			_, err := c.Admin().GetLock(ctx, "a")
			return err
		},
		"a stream": func(ctx context.Context) (err error) {
			for event, failed := range c.Admin().Watch(ctx, "a") {
				if failed == nil {
					t.Errorf("the watch told %v", event)
				}
				err = failed
			}
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, func() { cancel(late) })
		if err := ask(overdue{ctx}); !errors.Is(err, late) {
			t.Errorf("%s: got %v", name, err)
		}
		timer.Stop()
		cancel(nil)
	}
	if len(c.calls.route.failedAt) > 0 {
		t.Error("the calls went to the next coordinator")
	}
}

// TestCallsGoToEachAddressOfAName kills the coordinator at one of two addresses of one name, again and again, while calls are made.
func TestCallsGoToEachAddressOfAName(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	_, port, _ := net.SplitHostPort(servertest.FreeAddress(t))
	hosts := []string{"127.0.0.1", "127.0.0.2"}
	servers := make(map[string]*servertest.Server)
	for _, host := range hosts {
		address := net.JoinHostPort(host, port)
		servers[address] = servertest.StartAt(t, address, "--store", store, "--insecure")
	}
	c, err := New("http://locks.example:"+port, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.calls.settings.lookup = func(context.Context, string) ([]string, error) { return hosts, nil }
	inUse := func() *servertest.Server {
		c.calls.mu.Lock()
		defer c.calls.mu.Unlock()
		if c.calls.chosen == nil {
			return nil
		}
		return servers[c.calls.chosen.address]
	}
	ctx, stop := context.WithCancel(t.Context())
	var made atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Admin().GetLock(ctx, "a"); err != nil && ctx.Err() == nil {
					t.Errorf("after %d calls: %v", made.Load(), err)
					return
				}
				made.Add(1)
			}
		})
	}
	// One that changes something is not sent twice, and is sent where somebody answers.
	release := func() {
		if _, err := c.Admin().ForceRelease(ctx, "b"); err != nil {
			t.Errorf("ForceRelease: %v", err)
		}
	}
	for range 3 {
		for _, end := range []func(*servertest.Server){(*servertest.Server).Kill, (*servertest.Server).Terminate} {
			before := made.Load()
			servertest.Until(t, "calls", func() bool { return t.Failed() || made.Load() >= before+100 })
			server := inUse()
			if server == nil {
				continue
			}
			end(server)
			before = made.Load()
			servertest.Until(t, "calls elsewhere", func() bool { return t.Failed() || inUse() != server && made.Load() >= before+100 })
			release()
			server.Restart()
		}
	}
	stop()
	callers.Wait()
}

// TestACoordinatorThatIsSilentLeavesTimeForTheOthers stops the one in use.
func TestACoordinatorThatIsSilentLeavesTimeForTheOthers(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	one, other := servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)
	c, err := New(one.URL+","+other.URL, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Admin().GetLock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	silent := map[string]*servertest.Server{one.Address: one, other.Address: other}[c.calls.chosen.address]
	silent.Stop()
	defer silent.Continue()
	if _, err := c.Admin().GetLock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if c.calls.chosen.address == silent.Address {
		t.Error("calls go on to the silent one")
	}
}
