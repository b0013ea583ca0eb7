package leaseholdgocron_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"go.uber.org/goleak"

	"leasehold.dev/go"
	leaseholdgocron "leasehold.dev/go/gocron"
	"leasehold.dev/go/internal/servertest"
)

const (
	election = "cron/scheduler"
	job      = "report"
	// period is the time between slots.
	period = time.Second
	// interval is that of a job which has one.
	interval = 2 * time.Second
	splay    = 700 * time.Millisecond
	// skew is how late the clock of one instance is.
	skew = 200 * time.Millisecond
	ttl  = 2 * time.Second
	// longTTL is that of instances which must not lose a lock, however busy the machine is.
	longTTL = time.Minute
	// longest limits every wait.
	longest = time.Minute
)

func TestMain(m *testing.M) {
	role := os.Getenv("GOCRON_TEST_ROLE")
	if kind, isWorker := strings.CutPrefix(role, "working-"); isWorker {
		beWorker(kind)
		return
	}
	if role != "" {
		beInstance(role, os.Getenv("GOCRON_TEST_ENDPOINT"))
		return
	}
	goleak.VerifyTestMain(m)
}

// lateClock is a clock that is late.
type lateClock struct {
	clockwork.Clock
	by time.Duration
}

func (c lateClock) Now() time.Time                        { return c.Clock.Now().Add(-c.by) }
func (c lateClock) Since(earlier time.Time) time.Duration { return c.Now().Sub(earlier) }
func (c lateClock) Until(later time.Time) time.Duration   { return later.Sub(c.Now()) }

// beInstance is an instance of a program that schedules a job: "elector" or "locker", after any of these words:
//
//   - "late-": its clock is late;
//   - "slow-": the job does not end;
//   - "long-": the TTL is longTTL;
//   - "interval-": the job is an interval, not a cron expression.
//
// It writes the slot of each run to its output, or of an interval the time in microseconds: that of the grant of a lock, and that of the
// run under an elector. It ends in order at SIGTERM.
func beInstance(role, endpoint string) {
	is := func(word string) bool { return strings.Contains(role, word) }
	lives := ttl
	if is("long-") {
		lives = longTTL
	}
	quiet := leasehold.WithLogger(slog.New(slog.DiscardHandler))
	client, err := leasehold.New(endpoint, quiet, leasehold.WithTTL(lives))
	if err != nil {
		panic(err)
	}
	var clock clockwork.Clock = clockwork.NewRealClock()
	if is("late-") {
		clock = lateClock{clock, skew}
	}
	takes := time.Duration(0)
	if is("slow-") {
		takes = time.Hour
	}
	var options []gocron.SchedulerOption
	closes := func() {}
	began := func() int64 { return time.Now().UnixMicro() }
	if is("elector") {
		elector := leaseholdgocron.NewElector(client, election, leaseholdgocron.WithSplay(splay))
		options, closes = append(options, gocron.WithDistributedElector(elector)), elector.Close
	} else {
		locker := leaseholdgocron.NewLocker(client, "cron/", leaseholdgocron.WithSplay(splay))
		options, closes = append(options, gocron.WithDistributedLocker(locker)), locker.Close
		// A token is the time of its grant by the store's clock.
		began = func() int64 { return locker.Hold(job).Token() }
	}
	scheduler, err := gocron.NewScheduler(append(options, gocron.WithClock(clock), gocron.WithLocation(time.UTC))...)
	if err != nil {
		panic(err)
	}
	definition := gocron.CronJob("* * * * * *", true)
	work := func() {
		// The slot, which the clock may be just short of.
		fmt.Println(clock.Now().Add(period / 10).Truncate(period).Unix())
		time.Sleep(takes)
	}
	if is("interval-") {
		definition = gocron.DurationJob(interval)
		work = func() { fmt.Println(began()) }
	}
	if _, err := scheduler.NewJob(definition, gocron.NewTask(work), gocron.WithName(job)); err != nil {
		panic(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	scheduler.Start()
	<-ended
	if err := scheduler.Shutdown(); err != nil {
		panic(err)
	}
	closes()
	client.Close()
}

// instance is such a process, as the test sees it.
type instance struct {
	t       *testing.T
	process *os.Process
	ended   chan struct{}
	mu      sync.Mutex
	slots   []int64
}

func startInstance(t *testing.T, role, endpoint string) *instance {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "GOCRON_TEST_ROLE="+role, "GOCRON_TEST_ENDPOINT="+endpoint)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	i := &instance{t: t, process: command.Process, ended: make(chan struct{})}
	go func() {
		defer close(i.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var slot int64
			if _, err := fmt.Sscan(lines.Text(), &slot); err == nil {
				i.mu.Lock()
				i.slots = append(i.slots, slot)
				i.mu.Unlock()
			}
		}
		_ = command.Wait()
	}()
	t.Cleanup(func() {
		_ = i.process.Kill()
		<-i.ended
	})
	return i
}

func (i *instance) signal(signal syscall.Signal) {
	i.t.Helper()
	if err := i.process.Signal(signal); err != nil {
		i.t.Fatal(err)
	}
}

// runs returns how often it ran the job.
func (i *instance) runs() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.slots)
}

// awaitRuns waits until the instances together have run the job so many more times.
func awaitRuns(t *testing.T, more int, instances ...*instance) {
	t.Helper()
	count := func() (all int) {
		for _, i := range instances {
			all += i.runs()
		}
		return all
	}
	wanted := count() + more
	servertest.Until(t, "the job to run", func() bool { return count() >= wanted })
}

// checkOnce checks that every slot ran at most once, and that at most so many between the first and the last did not run at all.
func checkOnce(t *testing.T, mayMiss int, instances ...*instance) {
	t.Helper()
	ran := make(map[int64]int)
	var first, last int64
	for _, i := range instances {
		i.mu.Lock()
		for _, slot := range i.slots {
			if ran[slot]++; ran[slot] > 1 {
				t.Errorf("slot %d ran %d times", slot, ran[slot])
			}
			if first == 0 || slot < first {
				first = slot
			}
			last = max(last, slot)
		}
		t.Logf("an instance ran %v", i.slots)
		i.mu.Unlock()
	}
	missed := int(last-first) + 1 - len(ran)
	t.Logf("%d of %d slots did not run", missed, last-first+1)
	if missed > mayMiss {
		t.Errorf("at most %d may miss", mayMiss)
	}
}

func TestOneElectorRunsTheJobs(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a := startInstance(t, "elector", url)
	awaitRuns(t, 1, a)
	b := startInstance(t, "late-elector", url)
	awaitRuns(t, 2, a)
	if b.runs() > 0 {
		t.Fatal("an instance that does not lead ran a job")
	}
	// It ends right after it began the slot that the late one has not come to yet.
	a.signal(syscall.SIGKILL)
	awaitRuns(t, 2, b)
	c := startInstance(t, "elector", url)
	awaitRuns(t, 1, b)
	b.signal(syscall.SIGTERM)
	awaitRuns(t, 2, c)
	select {
	case <-b.ended:
	case <-time.After(longest):
		t.Fatal("the instance did not end")
	}
	// The slots of the lock-delay and of the end of the connection, and that of the splay.
	checkOnce(t, 4, a, b, c)
}

func TestLockersRunASlotOnce(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a, b, c := startInstance(t, "locker", url), startInstance(t, "late-locker", url), startInstance(t, "locker", url)
	awaitRuns(t, 5, a, b, c)
	checkOnce(t, 1, a, b, c)
	a.signal(syscall.SIGTERM)
	awaitRuns(t, 2, b, c)
	checkOnce(t, 2, a, b, c)
}

// TestTheCoordinatorIsAway has two instances, whose coordinator dies and comes back five seconds later.
func TestTheCoordinatorIsAway(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"elector", "locker"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			server := servertest.Start(t, "--store", servertest.Redis(t))
			a, b := startInstance(t, role, server.URL), startInstance(t, "late-"+role, server.URL)
			awaitRuns(t, 2, a, b)
			server.Kill()
			time.Sleep(5 * time.Second)
			server.Restart()
			awaitRuns(t, 3, a, b)
			// Slots that come meanwhile are not made up for; how many these are depends on the machine.
			checkOnce(t, math.MaxInt, a, b)
		})
	}
}

// TestARollingRestart has two instances, and two coordinators that are restarted one after the other.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"elector", "locker"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			store := servertest.Redis(t)
			one, two := servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)
			urls := one.URL + "," + two.URL
			a, b := startInstance(t, "long-"+role, urls), startInstance(t, "long-late-"+role, urls)
			awaitRuns(t, 2, a, b)
			servertest.Roll(one, two)
			awaitRuns(t, 3, a, b)
			// A lock can't be tried while a session moves; how many slots that concerns depends on the machine.
			checkOnce(t, math.MaxInt, a, b)
			if role == "elector" && a.runs() > 0 && b.runs() > 0 {
				t.Error("the leadership did not outlive the restarts")
			}
		})
	}
}

// slotsOf returns the slots of an instance.
func slotsOf(i *instance) []int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.slots)
}

func TestAnIntervalRunsOnTheLeaderAlone(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a := startInstance(t, "long-interval-elector", url)
	awaitRuns(t, 1, a)
	b := startInstance(t, "long-interval-elector", url)
	awaitRuns(t, 3, a, b)
	a.signal(syscall.SIGTERM)
	awaitRuns(t, 3, b)
	former, next := slotsOf(a), slotsOf(b)
	t.Logf("the leaders ran %v and %v", former, next)
	if former[len(former)-1] > next[0] {
		t.Error("both ran the job at the same time")
	}
}

// TestAnIntervalRunsOnEachInstanceUnderALocker has two instances, whose intervals begin at different moments. Whether these are more than the
// splay apart depends on the machine.
func TestAnIntervalRunsOnEachInstanceUnderALocker(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a := startInstance(t, "long-interval-locker", url)
	awaitRuns(t, 1, a)
	time.Sleep(splay)
	b := startInstance(t, "long-interval-locker", url)
	awaitRuns(t, 7, a, b)
	of, others := slotsOf(a), slotsOf(b)
	t.Logf("the instances ran %v and %v", of, others)
	all := slices.Sorted(slices.Values(append(of, others...)))
	for i := range all[1:] {
		if apart := time.Duration(all[i+1]-all[i]) * time.Microsecond; apart < splay {
			t.Errorf("two runs began within %v of each other", apart)
		}
	}
}

func TestALongRunKeepsTheLock(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a := startInstance(t, "slow-locker", url)
	awaitRuns(t, 1, a)
	b := startInstance(t, "locker", url)
	// Slots that nobody runs leave no trace but the time.
	slots := time.Now().Add(3 * period)
	servertest.Until(t, "slots to pass", func() bool { return time.Now().After(slots) })
	if a.runs() != 1 || b.runs() != 0 {
		t.Fatalf("%d and %d runs during the first one", a.runs(), b.runs())
	}
	killed := time.Now()
	a.signal(syscall.SIGKILL)
	awaitRuns(t, 1, b)
	b.mu.Lock()
	defer b.mu.Unlock()
	if first := time.Unix(b.slots[0], 0); first.Before(killed) {
		t.Fatalf("slot %v ran again after the end of the instance that had run it", first)
	}
}

func connect(t *testing.T, url string) *leasehold.Client {
	t.Helper()
	client, err := leasehold.Connect(t.Context(), url, leasehold.WithLogger(slog.New(slog.DiscardHandler)), leasehold.WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestElectorFollowsTheElection(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	ctx := t.Context()
	a := leaseholdgocron.NewElector(connect(t, server.URL), election, leaseholdgocron.WithSplay(0), leaseholdgocron.WithValue([]byte("a")))
	defer a.Close()
	servertest.Until(t, "a leader", func() bool { return a.IsLeader(ctx) == nil })
	client := connect(t, server.URL)
	b := leaseholdgocron.NewElector(client, election, leaseholdgocron.WithSplay(0))
	defer b.Close()
	if err := b.IsLeader(ctx); !errors.Is(err, leaseholdgocron.ErrNotLeader) {
		t.Fatalf("got %v", err)
	}
	if leader, err := client.Election(election).Leader(ctx); err != nil || string(leader.Value) != "a" {
		t.Fatalf("the leader is %v, %v", leader, err)
	}
	first := a.Term().Token()
	under, cancel := a.Term().Context(ctx)
	defer cancel()
	if _, err := client.Admin().ForceRelease(ctx, election); err != nil {
		t.Fatal(err)
	}
	<-under.Done()
	if err := context.Cause(under); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("the context ended with %v", err)
	}
	if a.IsLeader(ctx) == nil && a.Term().Token() == first {
		t.Fatal("the former leader leads on")
	}
	servertest.Until(t, "the next leader", func() bool { return b.IsLeader(ctx) == nil || a.IsLeader(ctx) == nil })
	b.Close()
	if err := b.IsLeader(ctx); !errors.Is(err, leaseholdgocron.ErrNotLeader) {
		t.Fatalf("a closed elector leads: %v", err)
	}
	servertest.Until(t, "the other one to lead", func() bool { return a.IsLeader(ctx) == nil })
	if a.Term().Token() <= first {
		t.Fatal("the token did not rise")
	}
}

func TestBadSettingsRunNoJobs(t *testing.T) {
	t.Parallel()
	client := connect(t, servertest.Start(t).URL)
	quiet, backwards := leaseholdgocron.WithLogger(slog.New(slog.DiscardHandler)), leaseholdgocron.WithSplay(-1)
	for _, elector := range []*leaseholdgocron.Elector{
		leaseholdgocron.NewElector(client, "not\na name", quiet),
		leaseholdgocron.NewElector(client, election, quiet, backwards),
	} {
		servertest.Until(t, "the error", func() bool { return errors.Is(elector.IsLeader(t.Context()), leasehold.ErrInvalid) })
		if !errors.Is(elector.IsLeader(t.Context()), leaseholdgocron.ErrNotLeader) {
			t.Fatal("the error does not say that the instance does not lead")
		}
		elector.Close()
	}
	if _, err := leaseholdgocron.NewLocker(client, "cron/", backwards).Lock(t.Context(), job); !errors.Is(err, leasehold.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
}

func TestElectorEndsWithItsClient(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	client := connect(t, server.URL)
	elector := leaseholdgocron.NewElector(client, election)
	servertest.Until(t, "a leader", func() bool { return elector.IsLeader(t.Context()) == nil })
	// The wrong order. The package's check for goroutines fails if the elector campaigns on.
	client.Close()
	servertest.Until(t, "the error", func() bool { return errors.Is(elector.IsLeader(t.Context()), leasehold.ErrClosed) })
}

func TestLockerKeepsALockForTheSplay(t *testing.T) {
	t.Parallel()
	// Longer than that of the other tests: what follows comes within it.
	const splay = 4 * time.Second
	server := servertest.Start(t)
	ctx := t.Context()
	client := connect(t, server.URL)
	a := leaseholdgocron.NewLocker(client, "cron/", leaseholdgocron.WithSplay(splay))
	b := leaseholdgocron.NewLocker(connect(t, server.URL), "cron/", leaseholdgocron.WithSplay(0))
	began := time.Now()
	lock, err := a.Lock(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	if hold := a.Hold(job); hold == nil || hold.Name() != "cron/"+job || b.Hold(job) != nil {
		t.Fatalf("the hold is %v", hold)
	}
	// If this process died now, the lock would be closed for as long.
	view, err := client.Admin().GetLock(ctx, "cron/"+job)
	if err != nil || view.LockDelay != splay {
		t.Fatalf("the lock-delay is %v, %v", view.LockDelay, err)
	}
	if err := lock.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(ctx, job); !errors.Is(err, leasehold.ErrBusy) {
		t.Fatalf("within the splay: %v", err)
	}
	a.Close()
	if took := time.Since(began); took < splay {
		t.Fatalf("the lock was released after %v", took)
	}
	lock, err = b.Lock(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Admin().ForceRelease(ctx, "cron/"+job); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "the loss", func() bool { return b.Hold(job) == nil })
	if err := lock.Unlock(ctx); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("Unlock after a loss: %v", err)
	}
}

// TestAJobIsAFlow has jobs ask for the locks that they run under, which would wait for ever.
func TestAJobIsAFlow(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := connect(t, servertest.Start(t).URL)
	elector := leaseholdgocron.NewElector(client, election, leaseholdgocron.WithSplay(0))
	defer elector.Close()
	servertest.Until(t, "a leader", func() bool { return elector.IsLeader(ctx) == nil })
	asks := func(ctx context.Context, name string) {
		if _, err := client.Lock(name).Acquire(ctx); !errors.Is(err, leasehold.ErrSelfDeadlock) {
			t.Errorf("asking for %s again: %v", name, err)
		}
	}
	task := elector.Leading(func(ctx context.Context, _ *leasehold.Term) error { asks(ctx, election); return nil })
	if err := task(ctx); err != nil {
		t.Error(err)
	}
	locker := leaseholdgocron.NewLocker(client, "cron/", leaseholdgocron.WithSplay(0))
	lock, err := locker.Lock(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	under, done := locker.Hold(job).Work(ctx)
	asks(under, "cron/"+job)
	done()
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
