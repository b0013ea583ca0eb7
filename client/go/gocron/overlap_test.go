package leaseholdgocron_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	leaseholdgocron "leasehold.dev/go/gocron"
	"leasehold.dev/go/internal/servertest"
)

func TestALockedJobNeverRunsTwiceAtOnce(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	var runs, inside, overlaps atomic.Int32
	work := func() {
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		runs.Add(1)
		time.Sleep(20 * time.Millisecond)
		inside.Add(-1)
	}
	for range 3 {
		locker := leaseholdgocron.NewLocker(connect(t, url), "cron/", leaseholdgocron.WithSplay(0))
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			t.Fatal(err)
		}
		each := gocron.DurationJob(50 * time.Millisecond)
		if _, err := scheduler.NewJob(each, gocron.NewTask(work), gocron.WithName(job)); err != nil {
			t.Fatal(err)
		}
		scheduler.Start()
		t.Cleanup(func() { _ = scheduler.Shutdown() })
	}
	servertest.Until(t, "runs", func() bool { return runs.Load() >= 20 })
	if overlaps.Load() > 0 {
		t.Errorf("%d of %d runs began during another one", overlaps.Load(), runs.Load())
	}
}
