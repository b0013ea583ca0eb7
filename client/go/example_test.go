package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// endpoint is where the examples find a coordinator.
var endpoint = "http://127.0.0.1:7420"

func work(ctx context.Context, token int64) error { return ctx.Err() }

func write(row string, token int64) error { return nil }

func Example() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint) // or several, with commas in between
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Lock("orders/42").Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold.Token()) // ctx is cancelled if the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
}

// writeAll writes the rows, unless another process does.
func writeAll(ctx context.Context, client *leasehold.Client, rows []string) error {
	hold, err := client.Lock("orders/42").Try(ctx)
	if errors.Is(err, leasehold.ErrBusy) {
		return nil // another process has it
	} else if err != nil {
		return err
	}
	defer hold.Release(ctx)
	for _, row := range rows {
		if err := hold.Check(); err != nil { // reads the clock
			return err
		}
		if err := write(row, hold.Token()); err != nil {
			return err
		}
	}
	return nil
}

func ExampleRequest_Try() {
	ctx := context.Background()
	client, err := leasehold.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := writeAll(ctx, client, []string{"a row"}); err != nil {
		fmt.Println(err)
	}
}

func ExampleSemaphore() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	f := func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold.Token())
	}
	err = client.Semaphore("api", 10).Permits(2).Wait(5*time.Second).Do(ctx, f)
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleRequest_TryDo() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	f := func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold.Token())
	}
	ran, err := client.Lock("cleanup").TryDo(ctx, f)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("cleaned up here:", ran) // false and no error if another process has the lock
}

func ExampleElection_Run() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lead := func(ctx context.Context, token int64) error {
		stop() // for the example: Run campaigns again and again until its context ends
		return nil
	}
	err = client.Election("scheduler").Value([]byte("10.0.0.7:8080")).Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
		return lead(ctx, term.Token()) // ctx is cancelled if the leadership is lost
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func ExampleElection_Observe() {
	ctx := context.Background()
	client, err := leasehold.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for change, err := range client.Election("scheduler").Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if change.Leader != nil {
			fmt.Printf("the leader is %q\n", change.Leader.Value)
		}
		break
	}
}

func ExampleMultiRequest() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.LockAll("account/7", "account/9").Do(ctx, func(ctx context.Context, holds leasehold.Holds) error {
		return work(ctx, holds.Get("account/7").Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleAdmin_Watch() {
	ctx := context.Background()
	client, err := leasehold.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for event, err := range client.Admin().Watch(ctx, "orders/") {
		if err != nil {
			log.Fatal(err)
		}
		if event.Ready {
			break // the snapshot is complete
		}
		fmt.Println(event.Lock.Name)
	}
}

// TestExamples runs the examples against a coordinator. Each ends the process with its error if it fails.
func TestExamples(t *testing.T) {
	defer func(former string) { endpoint = former }(endpoint)
	endpoint = servertest.Start(t).URL
	for _, example := range []func(){
		Example, ExampleRequest_Try, ExampleSemaphore, ExampleRequest_TryDo, ExampleElection_Run, ExampleElection_Observe, ExampleMultiRequest, ExampleAdmin_Watch,
	} {
		example()
	}
	c := connect(t, endpoint)
	hold := acquire(t, c.Lock("orders/42"))
	ExampleRequest_Try()
	ExampleAdmin_Watch()
	wantErr(t, hold.Release(t.Context()), nil)
}

func TestTheReadmeIsWhatTheExamplesDo(t *testing.T) {
	servertest.Excerpts(t, "README.md", "example_test.go", "recipes_test.go")
}

// TestTheExamplesTellThatNoCoordinatorRuns runs the one that handles a missing coordinator by itself.
func TestTheExamplesTellThatNoCoordinatorRuns(t *testing.T) {
	client, err := leasehold.New(servertest.FreeAddress(t), leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	wantErr(t, err, nil)
	defer client.Close()
	wantErr(t, writeAll(t.Context(), client, nil), leasehold.ErrUnavailable)
}
