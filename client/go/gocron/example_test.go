package leaseholdgocron_test

import (
	"context"
	"log"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
	leaseholdgocron "leasehold.dev/go/gocron"
	"leasehold.dev/go/internal/servertest"
)

func schedule(scheduler gocron.Scheduler) {
	if _, err := scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func() {}), gocron.WithName("report")); err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
}

func ExampleNewElector() {
	var client *leasehold.Client
	elector := leaseholdgocron.NewElector(client, "billing/scheduler")
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(
		elector.Leading(func(ctx context.Context, term *leasehold.Term) error { return report(ctx, term.Token()) }),
	))
	if err != nil {
		log.Fatal(err)
	}
	schedule(scheduler)
}

func report(ctx context.Context, token int64) error { return ctx.Err() }

func ExampleNewLocker() {
	var client *leasehold.Client
	locker := leaseholdgocron.NewLocker(client, "billing/jobs/")
	defer locker.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	schedule(scheduler)
}

func TestTheReadmeIsWhatTheExamplesDo(t *testing.T) {
	servertest.Excerpts(t, "README.md", "example_test.go")
}
