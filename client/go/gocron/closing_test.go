package leaseholdgocron_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold.dev/go"
	leaseholdgocron "leasehold.dev/go/gocron"
	"leasehold.dev/go/internal/servertest"
)

// TestClosingTheClientInTheMiddleOfAJobLetsNobodyElseIn closes the client of the instance that works, many times, while others wait.
func TestClosingTheClientInTheMiddleOfAJobLetsNobodyElseIn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"elector", "locker"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := servertest.Start(t).URL
			var inside, twice atomic.Int32
			working, over := make(chan *leasehold.Client, 1), make(chan struct{})
			work := func(ctx context.Context, client *leasehold.Client) {
				if inside.Add(1) > 1 {
					twice.Add(1)
				}
				select {
				case working <- client:
				case <-over:
				}
				<-ctx.Done()
				time.Sleep(30 * time.Millisecond)
				inside.Add(-1)
			}
			once := gocron.WithSingletonMode(gocron.LimitModeReschedule)
			start := func() {
				client, err := leasehold.Connect(t.Context(), url, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(client.Close)
				var option gocron.SchedulerOption
				var task func(context.Context) error
				if kind == "elector" {
					elector := leaseholdgocron.NewElector(client, election, leaseholdgocron.WithSplay(0))
					t.Cleanup(elector.Close)
					option = gocron.WithDistributedElector(elector)
					task = elector.Leading(func(ctx context.Context, _ *leasehold.Term) error { work(ctx, client); return nil })
				} else {
					locker := leaseholdgocron.NewLocker(client, "cron/", leaseholdgocron.WithSplay(0))
					t.Cleanup(locker.Close)
					option = gocron.WithDistributedLocker(locker)
					// A job that hears of nothing, and takes its time.
					task = func(context.Context) error {
						ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
						defer cancel()
						work(ctx, client)
						return nil
					}
				}
				scheduler, err := gocron.NewScheduler(option)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = scheduler.Shutdown() })
				if _, err := scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(task), gocron.WithName(job), once); err != nil {
					t.Error(err)
				}
				scheduler.Start()
			}
			start()
			for range servertest.Rounds(20) {
				start()
				// The wrong order: the scheduler goes on.
				client := <-working
				client.Close()
			}
			<-working
			close(over)
			if twice.Load() > 0 {
				t.Errorf("two worked at once %d times", twice.Load())
			}
		})
	}
}

// beWorker schedules a job that works until SIGTERM, under an elector or a locker, and ends in order then.
func beWorker(kind string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	client, err := leasehold.New(servertest.WorkerEndpoint(), leasehold.WithLogger(slog.New(slog.DiscardHandler)), leasehold.WithTTL(longTTL))
	check(err)
	elector := leaseholdgocron.NewElector(client, election+"/"+kind, leaseholdgocron.WithSplay(0))
	locker := leaseholdgocron.NewLocker(client, "cron/", leaseholdgocron.WithSplay(0))
	option := gocron.WithDistributedElector(elector)
	task := elector.Leading(func(ctx context.Context, _ *leasehold.Term) error { return servertest.Work(ctx) })
	if kind == "locker" {
		option = gocron.WithDistributedLocker(locker)
		task = func(ctx context.Context) error {
			under, done := locker.Hold(job).Work(ctx)
			defer done()
			return servertest.Work(under)
		}
	}
	scheduler, err := gocron.NewScheduler(option)
	check(err)
	once := gocron.WithSingletonMode(gocron.LimitModeReschedule)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(task), gocron.WithName(job), once)
	check(err)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	scheduler.Start()
	<-ended
	check(scheduler.Shutdown())
	elector.Close()
	locker.Close()
	client.Close()
}

// TestAProcessThatIsAskedToEndInTheMiddleOfAJobNeverLetsAnotherIn ends processes by SIGTERM, each while it works and another one waits.
func TestAProcessThatIsAskedToEndInTheMiddleOfAJobNeverLetsAnotherIn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"elector", "locker"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := servertest.Start(t)
			watcher := connect(t, server.URL)
			// With a locker they wait for the same election too, of which nobody makes use.
			waits := func() {
				servertest.Until(t, "the other instance", func() bool {
					view, err := watcher.Admin().GetLock(t.Context(), election+"/"+kind)
					return err == nil && view.WaiterCount == 1
				})
			}
			servertest.TerminateWorkers(t, servertest.Rounds(5), server, waits, "GOCRON_TEST_ROLE=working-"+kind)
		})
	}
}
