package leaseholdgocron_test

import (
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
	leaseholdgocron "leasehold.dev/go/gocron"
)

func schedule(scheduler gocron.Scheduler, err error) {
	if err != nil {
		log.Fatal(err)
	}
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
	schedule(scheduler, err)
}

func ExampleNewLocker() {
	var client *leasehold.Client
	locker := leaseholdgocron.NewLocker(client, "billing/jobs/")
	defer locker.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	schedule(scheduler, err)
}
