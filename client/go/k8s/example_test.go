package k8s_test

import (
	"context"
	"log"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

func control(context.Context, int64) {}

func ExampleLock_Leading() {
	ctx, hostname := context.Background(), "host-1"
	client, err := leasehold.Connect(ctx, "http://127.0.0.1:7420", leasehold.WithTTL(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock := k8s.New(client, "billing/controller", hostname)
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: lock.Leading(func(ctx context.Context, hold *leasehold.Hold) {
				control(ctx, hold.Token()) // ctx is cancelled as soon as the lock is lost
			}),
			OnStoppedLeading: func() { log.Print("not the leader") },
		},
	})
}

func ExampleLock_Context() {
	var client *leasehold.Client
	var config *rest.Config
	ctx, hostname := context.Background(), "host-1"
	lock := k8s.New(client, "billing/controller", hostname)
	manager, err := ctrl.NewManager(config, manager.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := lock.Context(ctx)
	defer cancel()
	if err := manager.Start(ctx); err != nil {
		log.Fatal(err)
	}
	log.Fatal(context.Cause(ctx))
}

func TestTheReadmeIsWhatTheExamplesDo(t *testing.T) {
	servertest.Excerpts(t, "README.md", "example_test.go")
}
