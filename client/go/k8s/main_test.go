package k8s_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

const (
	name = "elections/controller"

	// Times of the electors.
	leaseDuration = 2 * time.Second
	renewDeadline = time.Second
	retryPeriod   = 200 * time.Millisecond
	// ttl is that of the sessions.
	ttl = 1500 * time.Millisecond
	// lockDelay follows an unclean end.
	lockDelay = ttl + leaseDuration
	// slack allows for a machine that is busy with other tests.
	slack = 3 * time.Second
	// longest limits every wait.
	longest = time.Minute
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	if servertest.WorkerEndpoint() != "" {
		beWorker()
		return
	}
	if role := os.Getenv("K8S_TEST_CANDIDATE"); role != "" {
		beCandidate(role, os.Getenv("K8S_TEST_ENDPOINT"), os.Getenv("K8S_TEST_BODY"))
		return
	}
	goleak.VerifyTestMain(m)
}

// connect returns a client, which is closed when the test ends.
func connect(t testing.TB, endpoint string) *leasehold.Client {
	t.Helper()
	quiet := leasehold.WithLogger(slog.New(slog.DiscardHandler))
	c, err := leasehold.Connect(t.Context(), endpoint, quiet, leasehold.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// await waits until the channel is closed or has a value.
func await[T any](t testing.TB, what string, channel <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-channel:
	case <-time.After(longest):
		t.Fatalf("waited for %s for %v", what, longest)
	}
	return value
}

// config returns the settings of an elector.
func config(lock resourcelock.Interface, lead func(context.Context)) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	}
}

// run runs an elector until it stops by itself, the returned function is called, or the test ends. The channel is closed when it has
// stopped.
func run(t testing.TB, config leaderelection.LeaderElectionConfig) (cancel context.CancelFunc, stopped <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped = runIn(t, ctx, config)
	return cancel, stopped
}

// runIn runs an elector in this context; see run.
func runIn(t testing.TB, ctx context.Context, config leaderelection.LeaderElectionConfig) (stopped <-chan struct{}) {
	t.Helper()
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		elector.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	return done
}

// leader is a function for OnStartedLeading, and its traces.
type leader struct {
	// started and ended receive the moments.
	started, ended chan time.Time
	// cause receives why its context ended.
	cause chan error
	// lingers is the time that it takes to end.
	lingers time.Duration
}

func newLeader() *leader {
	return &leader{started: make(chan time.Time, 9), ended: make(chan time.Time, 9), cause: make(chan error, 9)}
}

func (l *leader) lead(ctx context.Context) {
	l.started <- time.Now()
	<-ctx.Done()
	l.cause <- context.Cause(ctx)
	time.Sleep(l.lingers)
	l.ended <- time.Now()
}

func (l *leader) leadWithHold(ctx context.Context, _ *leasehold.Hold) {
	l.lead(ctx)
}

// isLeader reports whether it began to lead.
func (l *leader) isLeader() bool {
	return len(l.started) > 0
}

var _ resourcelock.Interface = (*k8s.Lock)(nil)
