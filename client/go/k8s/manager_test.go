package k8s_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

// newManager returns a manager that talks to no API server, since nothing of it asks for an object.
func newManager(t *testing.T, lock *k8s.Lock, leads *leader) manager.Manager {
	t.Helper()
	lease, deadline, period := leaseDuration, renewDeadline, retryPeriod
	m, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil), nil
		},
		Metrics:                             server.Options{BindAddress: "0"},
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &lease,
		RenewDeadline:                       &deadline,
		RetryPeriod:                         &period,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		leads.lead(ctx)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	return m
}

// start starts a manager; the channel receives what Start returns.
func start(t *testing.T, ctx context.Context, m manager.Manager) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result <- m.Start(ctx)
	}()
	t.Cleanup(func() { <-done })
	return result
}

func TestAManagerHandsOverWhenItStops(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	first, second := newLeader(), newLeader()
	first.lingers = 300 * time.Millisecond
	a := newManager(t, k8s.New(connect(t, url), name, "a"), first)
	b := newManager(t, k8s.New(connect(t, url), name, "b"), second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := start(t, ctx, a)
	await(t, "the first leader", first.started)
	await(t, "the manager's word", a.Elected())
	start(t, t.Context(), b)
	cancel()
	if err := await(t, "the manager's end", result); err != nil {
		t.Fatalf("Start returned %v", err)
	}
	ended := await(t, "the first leader's end", first.ended)
	if started := await(t, "the second leader", second.started); started.Before(ended) {
		t.Fatalf("the second leader began %v before the first had ended", ended.Sub(started))
	}
}

func TestAManagerEndsAfterALoss(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	leads := newLeader()
	m := newManager(t, k8s.New(client, name, "a"), leads)
	result := start(t, t.Context(), m)
	await(t, "the leader", leads.started)
	if _, err := client.Admin().ForceRelease(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "the manager's end", result); err == nil {
		t.Fatal("Start returned nil after the loss of the leadership")
	}
	await(t, "the leader's end", leads.ended)
}

func TestAManagerStopsInOrderAtALoss(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	leads := newLeader()
	lock := k8s.New(client, name, "a")
	m := newManager(t, lock, leads)
	ctx, cancel := lock.Context(t.Context())
	defer cancel()
	result := start(t, ctx, m)
	await(t, "the leader", leads.started)
	lostAt := time.Now()
	if _, err := client.Admin().ForceRelease(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	ended := await(t, "the leader's end", leads.ended)
	if took := ended.Sub(lostAt); took > renewDeadline {
		t.Fatalf("the leader was stopped after %v", took)
	}
	if err := await(t, "the manager's end", result); err != nil {
		t.Fatalf("Start returned %v", err)
	}
}
