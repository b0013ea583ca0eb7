package k8s_test

import (
	"errors"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

func TestReleaseWaitsForTheLeader(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	first, second := newLeader(), newLeader()
	first.lingers = renewDeadline / 2
	a, b := k8s.New(connect(t, server.URL), name, "a"), k8s.New(connect(t, server.URL), name, "b")
	settings := config(a, a.Leading(first.leadWithHold))
	settings.ReleaseOnCancel = true
	cancel, stopped := run(t, settings)
	await(t, "the first leader", first.started)
	run(t, config(b, second.lead))
	if err := b.Update(t.Context(), recordOf("b")); err == nil || second.isLeader() {
		t.Fatal("two leaders")
	}

	cancelled := time.Now()
	cancel()
	await(t, "the first elector's end", stopped)
	ended := await(t, "the first leader's end", first.ended)
	started := await(t, "the second leader", second.started)
	if started.Before(ended) {
		t.Fatalf("the second leader began %v before the first had ended", ended.Sub(started))
	}
	if took := started.Sub(cancelled); took > renewDeadline/2+3*retryPeriod+slack {
		t.Fatalf("the hand-over took %v", took)
	}
	if cause := await(t, "the cause", first.cause); errors.Is(cause, leasehold.ErrLost) {
		t.Fatalf("the leader's context ended with %v", cause)
	}
}

func TestALeaderThatOverstaysKeepsTheLock(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	first, second := newLeader(), newLeader()
	first.lingers = renewDeadline * 2
	a, b := k8s.New(connect(t, server.URL), name, "a"), k8s.New(connect(t, server.URL), name, "b")
	settings := config(a, a.Leading(first.leadWithHold))
	settings.ReleaseOnCancel = true
	cancel, stopped := run(t, settings)
	await(t, "the first leader", first.started)
	run(t, config(b, second.lead))

	cancel()
	await(t, "the first elector's end", stopped)
	ended := await(t, "the first leader's end", first.ended)
	if started := await(t, "the second leader", second.started); started.Before(ended) {
		t.Fatalf("the second leader began %v before the first had ended", ended.Sub(started))
	}
}

func TestAnElectorThatStopsWithoutAReleaseLetsGo(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	first, second := newLeader(), newLeader()
	a, b := k8s.New(connect(t, server.URL), name, "a"), k8s.New(connect(t, server.URL), name, "b")
	cancel, stopped := run(t, config(a, first.lead))
	await(t, "the first leader", first.started)
	run(t, config(b, second.lead))
	cancel()
	await(t, "the first elector's end", stopped)
	// Its process and its session live on.
	took := time.Now()
	started := await(t, "the second leader", second.started)
	if late := started.Sub(took); late > leaseDuration+3*retryPeriod+slack {
		t.Fatalf("the lock was let go after %v", late)
	}
	if ended := await(t, "the first leader's end", first.ended); started.Before(ended) {
		t.Fatal("two leaders")
	}
}

func TestAnElectorStopsAfterALoss(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	client := connect(t, server.URL)
	leads := newLeader()
	lock := k8s.New(client, name, "a")
	_, stopped := run(t, config(lock, lock.Leading(leads.leadWithHold)))
	await(t, "the leader", leads.started)
	// The lock is free at once, so that the elector could acquire it again within its term.
	lostAt := time.Now()
	if _, err := client.Admin().ForceRelease(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if cause := await(t, "the cause", leads.cause); !errors.Is(cause, leasehold.ErrLost) {
		t.Fatalf("the leader's context ended with %v", cause)
	}
	if took := time.Since(lostAt); took > renewDeadline {
		t.Fatalf("the leader was stopped after %v", took)
	}
	await(t, "the elector's end", stopped)
	if leads.isLeader() {
		t.Fatal("the elector led a second time without a new run")
	}
}

func TestContextStopsAnElectorAtOnce(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	client := connect(t, server.URL)
	leads := newLeader()
	lock := k8s.New(client, name, "a")
	settings := config(lock, leads.lead)
	settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod = 20*longest, 10*longest, 5*longest
	ctx, cancel := lock.Context(t.Context())
	defer cancel()
	stopped := runIn(t, ctx, settings)
	await(t, "the leader", leads.started)
	if _, err := client.Admin().ForceRelease(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	await(t, "the elector's end", stopped)
	if cause := await(t, "the cause", leads.cause); !errors.Is(cause, leasehold.ErrLost) {
		t.Fatalf("the leader's context ended with %v", cause)
	}
}

func TestEventsAreReported(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	events := make(chan string, 9)
	lock := k8s.New(connect(t, server.URL), name, "a", k8s.WithEvents(func(event string) { events <- event }))
	cancel, stopped := run(t, config(lock, newLeader().lead))
	if event := await(t, "an event", events); event != "a became leader" {
		t.Fatalf("got %q", event)
	}
	cancel()
	await(t, "the elector's end", stopped)
	if event := await(t, "an event", events); event != "a stopped leading" {
		t.Fatalf("got %q", event)
	}
}
