package leasehold

import (
	"context"
	"errors"
	"log/slog"
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
	before := c.calls.moved
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
	if c.calls.moved != before {
		t.Error("the calls went to the next coordinator")
	}
}
