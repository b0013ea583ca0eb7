package leasehold_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(holderEndpoint); endpoint != "" {
		beHolder(endpoint)
		return
	}
	if endpoint := os.Getenv(recipeEndpoint); endpoint != "" {
		beRecipe(endpoint)
		return
	}
	if endpoint := servertest.WorkerEndpoint(); endpoint != "" {
		beWorker(endpoint)
		return
	}
	goleak.VerifyTestMain(m)
}

// connect returns a client, which is closed when the test ends.
func connect(t testing.TB, endpoints string, options ...leasehold.Option) *leasehold.Client {
	t.Helper()
	options = append([]leasehold.Option{leasehold.WithLogger(slog.New(slog.DiscardHandler))}, options...)
	c, err := leasehold.Connect(t.Context(), endpoints, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// acquire acquires a lock that is free.
func acquire(t testing.TB, r leasehold.Request) *leasehold.Hold {
	t.Helper()
	hold, err := r.Wait(10 * time.Second).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// wantErr checks that the error is the wanted one; nil for none.
func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// longest limits every wait. It only tells a hang from a busy machine.
const longest = time.Minute

// await waits for a channel.
func await[T any](t testing.TB, what string, channel <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-channel:
	case <-time.After(longest):
		t.Fatalf("waited for %s for %v", what, longest)
	}
	return value
}

// waitForWaiters waits until so many wait for a lock.
func waitForWaiters(t testing.TB, c *leasehold.Client, name string, count int64) {
	t.Helper()
	servertest.Until(t, "the waiters of "+name, func() bool {
		view, err := c.Admin().GetLock(t.Context(), name)
		return err == nil && view.WaiterCount == count
	})
}

// background begins an acquire, and returns the channels of its outcome.
func background(ctx context.Context, r leasehold.Request) (<-chan *leasehold.Hold, <-chan error) {
	holds, errs := make(chan *leasehold.Hold, 1), make(chan error, 1)
	go func() {
		if hold, err := r.Acquire(ctx); err != nil {
			errs <- err
		} else {
			holds <- hold
		}
	}()
	return holds, errs
}

// lostReason returns why a hold was lost.
func lostReason(t testing.TB, err error) leasehold.LostReason {
	t.Helper()
	var lost *leasehold.LostError
	if !errors.As(err, &lost) {
		t.Fatalf("got %v, want a loss", err)
	}
	return lost.Reason
}
