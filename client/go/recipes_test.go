package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/leaseholdtest"
)

// recipe: lock
func payOut(ctx context.Context, client *leasehold.Client, order string) error {
	return client.Lock("orders/"+order).Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
		return pay(ctx, order) // ctx is cancelled if the lock is lost
	})
}

// end recipe

// recipe: try
func cleanUp(ctx context.Context, client *leasehold.Client) error {
	ran, err := client.Lock("cleanup").TryDo(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		return removeOldFiles(ctx)
	})
	if err == nil && !ran {
		fmt.Println("another process cleans up")
	}
	return err
}

// end recipe

// recipe: wait
func payOutSoon(ctx context.Context, client *leasehold.Client, order string) error {
	err := client.Lock("orders/"+order).Wait(5*time.Second).Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		return pay(ctx, order)
	})
	if errors.Is(err, leasehold.ErrTimedOut) {
		return fmt.Errorf("order %s is busy; try again later", order)
	}
	return err
}

// end recipe

// recipe: shared
func readCatalogue(ctx context.Context, client *leasehold.Client) error {
	// Any number of readers at once, and none while a writer has client.Lock("catalogue").
	return client.Lock("catalogue").Shared().Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		return read(ctx)
	})
}

// end recipe

// recipe: semaphore
func callAPI(ctx context.Context, client *leasehold.Client) error {
	// At most ten calls at once, over all processes.
	return client.Semaphore("api", 10).Permits(1).Do(ctx, func(ctx context.Context, _ *leasehold.Hold) error {
		return call(ctx)
	})
}

// end recipe

// recipe: several
func transfer(ctx context.Context, client *leasehold.Client, from, to string) error {
	// Both or none, in any order without a deadlock.
	return client.LockAll("accounts/"+from, "accounts/"+to).Do(ctx, func(ctx context.Context, _ leasehold.Holds) error {
		return move(ctx, from, to)
	})
}

// end recipe

// recipe: election
func runScheduler(ctx context.Context, client *leasehold.Client, address string) error {
	// Campaigns again after every loss, until ctx ends.
	return client.Election("scheduler").Value([]byte(address)).Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
		return schedule(ctx, term.Token()) // ctx is cancelled if the leadership is lost
	})
}

// end recipe

// recipe: once-per-period
func remindOncePerHour(ctx context.Context, client *leasehold.Client, customer string) error {
	period, err := client.DetachedLock("reminded/" + customer).TTL(time.Hour).Try(ctx)
	if errors.Is(err, leasehold.ErrBusy) {
		return nil // somebody has done it in this period
	} else if err != nil {
		return err
	}
	if err := remind(ctx, customer); err != nil {
		// Somebody else may try in the same period.
		return errors.Join(err, period.Release(context.WithoutCancel(ctx)))
	}
	return nil // not released: the period goes on
}

// end recipe

// recipe: fencing
func writeStock(ctx context.Context, client *leasehold.Client, table *stockTable) error {
	return client.Lock("stock").Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
		// The table refuses a smaller token than the largest that it has seen: UPDATE … WHERE token <= $1.
		return table.write(ctx, hold.Token())
	})
}

// end recipe

// recipe: stop
func serve(client *leasehold.Client) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go client.Lock("orders").Do(context.Background(), handleOrders)
	<-ctx.Done()
	// Cancels the context of handleOrders, waits for it to return (WithCloseTimeout, 10 s), and only then gives the lock up.
	client.Close()
}

// end recipe

// recipe: unit-test
func TestPayOutStopsWhenTheLockIsLost(t *testing.T) {
	server := leaseholdtest.Start(t) // in this process, without a coordinator
	client := server.Client()
	pay = func(ctx context.Context, order string) error {
		server.Lose("orders/" + order)
		<-ctx.Done()
		return ctx.Err()
	}
	if err := payOut(t.Context(), client, "42"); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("got %v", err)
	}
	if holders := server.Holders("orders/42"); len(holders) > 0 {
		t.Errorf("still held: %v", holders)
	}
}

// end recipe

// What the recipes call.
var (
	pay            = func(ctx context.Context, _ string) error { return ctx.Err() }
	removeOldFiles = func(ctx context.Context) error { return ctx.Err() }
	read           = removeOldFiles
	call           = removeOldFiles
	move           = func(ctx context.Context, _, _ string) error { return ctx.Err() }
	schedule       = func(ctx context.Context, _ int64) error { return ctx.Err() }
	remind         = pay
)

type stockTable struct{ newest int64 }

func (s *stockTable) write(_ context.Context, token int64) error {
	if token < s.newest {
		return fmt.Errorf("token %d is older than %d", token, s.newest)
	}
	s.newest = token
	return nil
}

func handleOrders(ctx context.Context, _ *leasehold.Hold) error {
	fmt.Println("inside")
	<-ctx.Done()
	fmt.Println("stopped:", context.Cause(ctx))
	return nil
}

// recipeEndpoint is the variable by which this program becomes the process of the recipe "stop".
const recipeEndpoint = "LEASEHOLD_TEST_RECIPE"

func beRecipe(endpoint string) {
	client, err := leasehold.New(endpoint, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	serve(client)
}

func TestRecipes(t *testing.T) {
	url := servertest.Start(t).URL
	c, other := connect(t, url), connect(t, url)
	ctx := t.Context()
	failed := errors.New("failed")
	defer func(before func(context.Context, string) error) { pay, remind = before, before }(remind)
	pay = remind
	for name, recipe := range map[string]func() error{
		"lock":      func() error { return payOut(ctx, c, "1") },
		"try":       func() error { return cleanUp(ctx, c) },
		"wait":      func() error { return payOutSoon(ctx, c, "1") },
		"shared":    func() error { return readCatalogue(ctx, c) },
		"semaphore": func() error { return callAPI(ctx, c) },
		"several":   func() error { return transfer(ctx, c, "7", "9") },
		"fencing":   func() error { return writeStock(ctx, c, &stockTable{}) },
	} {
		if err := recipe(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := writeStock(ctx, c, &stockTable{newest: math.MaxInt64}); err == nil {
		t.Error("the table took an old token")
	}
	busy := acquire(t, other.Lock("cleanup"))
	removeOldFiles = func(context.Context) error { return failed }
	wantErr(t, cleanUp(ctx, c), nil)
	wantErr(t, busy.Release(ctx), nil)
	wantErr(t, cleanUp(ctx, c), failed)

	// The period is used up once the work is done, and not before.
	remind = func(context.Context, string) error { return failed }
	wantErr(t, remindOncePerHour(ctx, c, "1"), failed)
	reminded := 0
	remind = func(context.Context, string) error { reminded++; return nil }
	for range 2 {
		wantErr(t, remindOncePerHour(ctx, c, "1"), nil)
		wantErr(t, remindOncePerHour(ctx, other, "1"), nil)
	}
	if reminded != 1 {
		t.Errorf("reminded %d times", reminded)
	}
	leading, stop := context.WithCancel(ctx)
	schedule = func(context.Context, int64) error { stop(); return nil }
	wantErr(t, runScheduler(leading, c, "10.0.0.7"), context.Canceled)

	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), recipeEndpoint+"="+url)
	says, err := process.StdoutPipe()
	wantErr(t, err, nil)
	wantErr(t, process.Start(), nil)
	var line string
	_, err = fmt.Fscanln(says, &line)
	if err != nil || line != "inside" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	wantErr(t, process.Process.Signal(syscall.SIGTERM), nil)
	_, err = fmt.Fscanln(says, &line)
	if line != "stopped:" {
		t.Errorf("the process said %q, %v", line, err)
	}
	_ = process.Wait()
	wantErr(t, acquire(t, other.Lock("orders")).Release(ctx), nil)
}
