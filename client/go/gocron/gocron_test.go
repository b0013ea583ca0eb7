package leaseholdgocron_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"leasehold.dev/go"
	leaseholdgocron "leasehold.dev/go/gocron"
	"leasehold.dev/go/internal/servertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func connect(t *testing.T, server *servertest.Server) *leasehold.Client {
	t.Helper()
	c, err := leasehold.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// runs are the runs of a job, by the process that ran it.
type runs struct {
	mu     sync.Mutex
	by     []int
	inside int
	most   int
}

func (r *runs) run(process int, takes time.Duration) {
	r.mu.Lock()
	r.by = append(r.by, process)
	r.inside++
	r.most = max(r.most, r.inside)
	r.mu.Unlock()
	time.Sleep(takes)
	r.mu.Lock()
	r.inside--
	r.mu.Unlock()
}

// count returns how many runs there were by one process.
func (r *runs) count(process int) (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, by := range r.by {
		if by == process {
			count++
		}
	}
	return count
}

// schedule runs a job each 50 ms on a scheduler of its own.
func schedule(t *testing.T, option gocron.SchedulerOption, job func()) gocron.Scheduler {
	t.Helper()
	scheduler, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(job), gocron.WithName("job"))
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	t.Cleanup(func() { _ = scheduler.Shutdown() })
	return scheduler
}

func TestTheLeaderAloneRunsJobs(t *testing.T) {
	server := servertest.Start(t)
	var all runs
	var electors []*leaseholdgocron.Elector
	var schedulers []gocron.Scheduler
	for process := range 2 {
		elector := leaseholdgocron.NewElector(connect(t, server), "scheduler", []byte(fmt.Sprint(process)))
		t.Cleanup(elector.Close)
		electors = append(electors, elector)
		if process == 0 {
			servertest.Until(t, "the first to lead", func() bool { return elector.IsLeader(t.Context()) == nil })
		}
		schedulers = append(schedulers, schedule(t, gocron.WithDistributedElector(elector), func() { all.run(process, 0) }))
	}
	servertest.Until(t, "runs of the leader", func() bool { return all.count(0) >= 5 })
	if err := electors[1].IsLeader(t.Context()); !errors.Is(err, leaseholdgocron.ErrNotLeader) || electors[1].Term() != nil {
		t.Errorf("the second says %v", err)
	}
	if all.count(1) != 0 {
		t.Errorf("the second ran %d jobs", all.count(1))
	}
	token := electors[0].Term().Token()
	_ = schedulers[0].Shutdown()
	electors[0].Close()
	before := all.count(0)
	servertest.Until(t, "runs of the second", func() bool { return all.count(1) >= 5 })
	if all.count(0) != before {
		t.Error("the first ran jobs after it had resigned")
	}
	if electors[1].Term().Token() <= token {
		t.Error("the token did not rise")
	}
	// A deposed leader campaigns again, and its scheduler goes on.
	if _, err := connect(t, server).Admin().ForceRelease(t.Context(), "scheduler"); err != nil {
		t.Fatal(err)
	}
	now := all.count(1)
	servertest.Until(t, "more runs of the second", func() bool { return all.count(1) >= now+5 })
}

func TestOneProcessAtATimeRunsALockedJob(t *testing.T) {
	server := servertest.Start(t)
	var all runs
	for process := range 3 {
		locker := leaseholdgocron.NewLocker(connect(t, server), "jobs/", 0)
		schedule(t, gocron.WithDistributedLocker(locker), func() { all.run(process, 20*time.Millisecond) })
	}
	servertest.Until(t, "runs", func() bool { return all.count(0)+all.count(1)+all.count(2) >= 20 })
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.most != 1 {
		t.Errorf("%d processes ran it at once", all.most)
	}
}

func TestALockIsKeptForAWhileAlsoAfterAShortJob(t *testing.T) {
	server := servertest.Start(t)
	c := connect(t, server)
	locker := leaseholdgocron.NewLocker(c, "jobs/", 500*time.Millisecond)
	begun := time.Now()
	lock, err := locker.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Lock(t.Context(), "a"); !errors.Is(err, leasehold.ErrBusy) {
		t.Errorf("got %v", err)
	}
	hold, err := c.Lock("jobs/a").Wait(10 * time.Second).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("it was free after %v", took)
	}
	if err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
