package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// endpoint is where the examples find a coordinator.
var endpoint = "http://127.0.0.1:7420"

func work(ctx context.Context, token int64) error { return ctx.Err() }

func Example() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
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

func ExampleRequest_Try() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hold, err := client.Lock("orders/42").Try(ctx)
	if errors.Is(err, leasehold.ErrBusy) {
		fmt.Println(err) // lock "orders/42" is busy: held by …
		return
	} else if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	for range 3 {
		if err := hold.Check(); err != nil { // reads the clock
			log.Fatal(err)
		}
		// One step, with hold.Token().
	}
}

func ExampleSemaphore() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	api := client.Semaphore("api", 10)
	err = api.Permits(2).Wait(5*time.Second).Do(ctx, func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleElection_Run() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := leasehold.Connect(ctx, endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Election("scheduler").Value([]byte("10.0.0.7:8080")).Run(ctx, func(ctx context.Context, term *leasehold.Term) error {
		fmt.Println("leading, with token", term.Token())
		stop()       // for the example: Run campaigns again and again until its context ends
		<-ctx.Done() // lead until the leadership is lost
		return nil
	})
	fmt.Println(err)
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
		fmt.Printf("the leader is %q\n", change.Leader.GetValue())
		break
	}
}

func ExampleRequestAll() {
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
		fmt.Println(event.Lock.GetName())
	}
}

// TestExamples runs the examples against a coordinator. Each ends the process with its error if it fails.
func TestExamples(t *testing.T) {
	defer func(former string) { endpoint = former }(endpoint)
	endpoint = servertest.Start(t).URL
	for _, example := range []func(){
		Example, ExampleRequest_Try, ExampleSemaphore, ExampleElection_Run, ExampleElection_Observe, ExampleRequestAll, ExampleAdmin_Watch,
	} {
		example()
	}
	c := connect(t, endpoint)
	hold := acquire(t, c.Lock("orders/42"))
	ExampleRequest_Try()
	ExampleAdmin_Watch()
	wantErr(t, hold.Release(t.Context()), nil)
}
