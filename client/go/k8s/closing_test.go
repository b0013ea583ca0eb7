package k8s_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

func TestClosingTheClientInTheMiddleOfATermLetsNobodyElseLead(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	var inside, twice atomic.Int32
	working := make(chan *leasehold.Client, 1)
	var all sync.WaitGroup
	start := func(identity string) {
		client := connect(t, url)
		lock := k8s.New(client, name, identity)
		all.Go(func() {
			for lock.Create(t.Context(), recordOf(identity)) != nil {
				time.Sleep(time.Millisecond)
			}
			other, cancel := lock.Context(t.Context())
			defer cancel()
			lock.Leading(func(ctx context.Context, _ *leasehold.Hold) {
				if inside.Add(1) > 1 {
					twice.Add(1)
				}
				working <- client
				<-ctx.Done()
				<-other.Done()
				for _, ended := range []context.Context{ctx, other} {
					if err := context.Cause(ended); !errors.Is(err, leasehold.ErrClosed) {
						t.Errorf("the context ended with %v", err)
					}
				}
				if err := lock.Update(t.Context(), recordOf(identity)); err == nil {
					t.Error("the term was renewed")
				}
				time.Sleep(5 * time.Millisecond)
				inside.Add(-1)
			})(t.Context())
		})
	}
	start("0")
	for i := range servertest.Rounds(20) {
		start(fmt.Sprint(i + 1))
		await(t, "the leader", working).Close()
	}
	await(t, "the last leader", working).Close()
	all.Wait()
	if twice.Load() > 0 {
		t.Errorf("two led at once %d times", twice.Load())
	}
}

func TestClosingTheClientStopsAnElector(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	first, second := newLeader(), newLeader()
	lock := k8s.New(client, name, "a")
	settings := config(lock, lock.Leading(first.leadWithHold))
	settings.ReleaseOnCancel = true
	ctx, cancel := lock.Context(t.Context())
	defer cancel()
	stopped := runIn(t, ctx, settings)
	await(t, "the leader", first.started)
	run(t, config(k8s.New(connect(t, url), name, "b"), second.lead))
	client.Close()
	await(t, "the elector's end", stopped)
	ended := await(t, "the leader's end", first.ended)
	if started := await(t, "the next leader", second.started); started.Before(ended) {
		t.Fatalf("the next leader began %v before the first had ended", ended.Sub(started))
	}
}

// beWorker leads until SIGTERM, which ends the context of its elector, and closes its client then. Its times end no leadership, however
// busy the machine is.
func beWorker() {
	client, err := leasehold.New(servertest.WorkerEndpoint(), leasehold.WithLogger(slog.New(slog.DiscardHandler)), leasehold.WithTTL(time.Minute))
	if err != nil {
		panic(err)
	}
	lock := k8s.New(client, name, fmt.Sprint("process ", os.Getpid()))
	settings := config(lock, lock.Leading(func(ctx context.Context, _ *leasehold.Hold) {
		if err := servertest.Work(ctx); err != nil {
			panic(err)
		}
	}))
	settings.ReleaseOnCancel = true
	settings.LeaseDuration, settings.RenewDeadline = time.Minute, 30*time.Second
	elector, err := leaderelection.NewLeaderElector(settings)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	elector.Run(ctx)
	client.Close()
}

// TestAProcessThatIsAskedToEndInTheMiddleOfATermNeverLetsAnotherLead ends processes by SIGTERM, each while it leads and another one is a
// candidate.
func TestAProcessThatIsAskedToEndInTheMiddleOfATermNeverLetsAnotherLead(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	watcher := connect(t, server.URL)
	// Candidates look at the lock now and then, each with a session.
	waits := func() {
		servertest.Until(t, "the candidate", func() bool {
			candidates := 0
			for session, err := range watcher.Admin().ListSessions(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if session.ID != sessionOf(watcher) {
					candidates++
				}
			}
			return candidates == 2
		})
	}
	servertest.TerminateWorkers(t, servertest.Rounds(5), server, waits)
}

func sessionOf(client *leasehold.Client) string {
	info, _ := client.Session().Info()
	return info.SessionID
}
