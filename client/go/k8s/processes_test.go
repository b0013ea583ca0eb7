package k8s_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/clock"
	"leasehold.dev/go/internal/servertest"
	"leasehold.dev/go/k8s"
)

// Kinds of a leader's work.
const (
	// plain heeds only the context that the elector gives it.
	plain = "plain"
	// guarded runs under Leading, and checks the hold.
	guarded = "guarded"
	// patient is guarded, with a TTL and times that end no leadership, however busy the machine is.
	patient = "patient"
)

// beCandidate is a candidate's process: it runs an elector again and again. It writes a line for each thing that it does as the leader,
// with the time before and the fencing token of its term.
func beCandidate(identity, endpoint, body string) {
	quiet := leasehold.WithLogger(slog.New(slog.DiscardHandler))
	lives := ttl
	var options []k8s.Option
	if body == patient {
		lives = time.Minute
		options = append(options, k8s.WithLockDelay(0))
	}
	client, err := leasehold.New(endpoint, quiet, leasehold.WithTTL(lives))
	if err != nil {
		panic(err)
	}
	lock := k8s.New(client, name, identity, options...)
	act := func(ctx context.Context, token int64, check func() error) {
		for {
			at := clock.Now()
			if ctx.Err() != nil || check() != nil {
				return
			}
			fmt.Println(int64(at), token)
			time.Sleep(5 * time.Millisecond)
		}
	}
	lead := lock.Leading(func(ctx context.Context, hold *leasehold.Hold) { act(ctx, hold.Token(), hold.Check) })
	if body == plain {
		lead = func(ctx context.Context) {
			if hold := lock.Hold(); hold != nil {
				act(ctx, hold.Token(), func() error { return nil })
			}
		}
	}
	set := config(lock, lead)
	if body == patient {
		set.LeaseDuration, set.RenewDeadline = time.Minute, 30*time.Second
	}
	for {
		elector, err := leaderelection.NewLeaderElector(set)
		if err != nil {
			panic(err)
		}
		elector.Run(context.Background())
	}
}

// candidate is such a process, as the test sees it.
type candidate struct {
	t       *testing.T
	process *os.Process
	mu      sync.Mutex
	acts    []act
}

// act is something that a leader did.
type act struct {
	at    clock.Moment
	token int64
}

func startCandidate(t *testing.T, identity, endpoint, body string) *candidate {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "K8S_TEST_CANDIDATE="+identity, "K8S_TEST_ENDPOINT="+endpoint, "K8S_TEST_BODY="+body)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c := &candidate{t: t, process: command.Process}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var told act
			if _, err := fmt.Sscan(lines.Text(), &told.at, &told.token); err == nil {
				c.mu.Lock()
				c.acts = append(c.acts, told)
				c.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.process.Kill()
		<-read
		_ = command.Wait()
	})
	return c
}

func (c *candidate) signal(signal syscall.Signal) {
	c.t.Helper()
	if err := c.process.Signal(signal); err != nil {
		c.t.Fatal(err)
	}
}

// all returns what it did so far.
func (c *candidate) all() []act {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.acts)
}

// awaitLead waits until it has led since a moment, and returns when it began to.
func (c *candidate) awaitLead(since clock.Moment) (began clock.Moment) {
	c.t.Helper()
	servertest.Until(c.t, "a leader", func() bool {
		for _, done := range c.all() {
			if done.at > since {
				began = done.at
				return true
			}
		}
		return false
	})
	return began
}

// checkOrder checks that nobody acted as the leader after another one, with a greater token, had begun to. Returns the number of terms.
func checkOrder(t *testing.T, candidates ...*candidate) (terms int) {
	t.Helper()
	var all []act
	for _, c := range candidates {
		all = append(all, c.all()...)
	}
	slices.SortFunc(all, func(a, b act) int { return int(a.at - b.at) })
	terms = 1
	for i := range all[1:] {
		before, after := all[i], all[i+1]
		if after.token < before.token {
			t.Fatalf("two leaders: the one of token %d acted after that of token %d", after.token, before.token)
		}
		if after.token > before.token {
			terms++
		}
	}
	t.Logf("%d acts of leaders in %d terms", len(all), terms)
	return terms
}

// TestARollingRestart has two candidates, and two coordinators that are restarted one after the other.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	one, two := servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)
	urls := one.URL + "," + two.URL
	a := startCandidate(t, "a", urls, patient)
	a.awaitLead(0)
	b := startCandidate(t, "b", urls, patient)
	servertest.Roll(one, two)
	a.awaitLead(clock.Now().After(10 * retryPeriod))
	if terms := checkOrder(t, a, b); terms != 1 || len(b.all()) > 0 {
		t.Errorf("the leadership did not outlive the restarts: %d terms", terms)
	}
	// The other one has looked meanwhile, and still does.
	killed := clock.Now()
	a.signal(syscall.SIGTERM)
	b.awaitLead(killed)
	checkOrder(t, a, b)
}

// handOver has one candidate lead, does something to it, and checks that the other one leads within the bounds. Returns both.
func handOver(t *testing.T, body, endpointOfFirst, endpoint string, disturb func(*candidate), bound time.Duration) (a, b *candidate) {
	t.Helper()
	a = startCandidate(t, "a", endpointOfFirst, body)
	a.awaitLead(0)
	b = startCandidate(t, "b", endpoint, body)
	// It has looked at least once when the elector of the leader has renewed a few times.
	since := clock.Now()
	a.awaitLead(since.After(3 * retryPeriod))
	disturbed := clock.Now()
	disturb(a)
	took := b.awaitLead(disturbed).Since(disturbed)
	t.Logf("handed over within %v", took)
	if took > bound+slack {
		t.Fatalf("the hand-over took %v; the bound is %v", took, bound)
	}
	// The first one has the time to do what it must not.
	b.awaitLead(clock.Now().After(renewDeadline))
	checkOrder(t, a, b)
	return a, b
}

// candidates look every retryPeriod, with as much jitter as client-go has, and need a moment each.
const look = retryPeriod * 5 / 2

func TestTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	handOver(t, plain, url, url, func(a *candidate) { a.signal(syscall.SIGKILL) }, lockDelay+look)
}

func TestTheLeaderIsStopped(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	a, b := handOver(t, guarded, url, url, func(a *candidate) { a.signal(syscall.SIGSTOP) }, ttl+lockDelay+look)
	// It wakes up as a former leader.
	a.signal(syscall.SIGCONT)
	b.awaitLead(clock.Now().After(renewDeadline))
	checkOrder(t, a, b)
	// It is a candidate again.
	killed := clock.Now()
	b.signal(syscall.SIGKILL)
	a.awaitLead(killed)
	checkOrder(t, a, b)
}

func TestTheLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	proxy := servertest.Through(t, server)
	handOver(t, plain, proxy.URL, server.URL, func(*candidate) { proxy.Silence() }, ttl+lockDelay+look)
}

func TestTheLeaderIsDisconnected(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	proxy := servertest.Through(t, server)
	// The coordinator takes the end of the connection for that of the leader, which learns nothing of it and leads on for a while.
	handOver(t, plain, proxy.URL, server.URL, func(*candidate) { proxy.Disconnect() }, lockDelay+look)
}

// TestTheCoordinatorIsAway has two candidates, whose coordinator dies and comes back five seconds later.
func TestTheCoordinatorIsAway(t *testing.T) {
	t.Parallel()
	for _, body := range []string{plain, guarded} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			server := servertest.Start(t, "--store", servertest.Redis(t))
			a := startCandidate(t, "a", server.URL, body)
			a.awaitLead(0)
			b := startCandidate(t, "b", server.URL, body)
			server.Kill()
			time.Sleep(5 * time.Second)
			server.Restart()
			restarted := clock.Now()
			servertest.Until(t, "a leader", func() bool {
				return slices.ContainsFunc(append(a.all(), b.all()...), func(done act) bool { return done.at > restarted })
			})
			checkOrder(t, a, b)
		})
	}
}
