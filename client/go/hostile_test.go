package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

const (
	// hostileWorkers make calls at the same time.
	hostileWorkers = 4
	// hostileLimit limits one call: all of them end by their context or by themselves long before.
	hostileLimit = time.Minute
)

// longNames and longValue are longer than any message may be.
var (
	longNames = strings.Repeat("n", 3_000_000)
	longValue = make([]byte, 5_000_000)
)

// errHostile is the panic, and the error, of a program's own function.
var errHostile = errors.New("hostile")

// hostile makes random public calls with hostile arguments.
type hostile struct {
	*rand.Rand
	t *testing.T
	// client has the lock that must survive. Calls on it leave nothing behind.
	client *leasehold.Client
	url    string
	// side is a client that is closed at random.
	side *leasehold.Client
}

func pick[T any](h *hostile, from ...T) T {
	return from[h.IntN(len(from))]
}

func (h *hostile) name() string {
	return pick(h, "", "a", "b", "c", "important", "ünï", "a\xff", "\x00", "a\nb", "\u0085", longNames[:512], longNames[:513], longNames)
}

func (h *hostile) names() []string {
	names := make([]string, pick(h, 0, 1, 2, 3, 64, 65, 1_000, 1_001))
	for i := range names {
		names[i] = fmt.Sprint(i)
		if h.IntN(20) == 0 {
			names[i] = h.name()
		}
	}
	return names
}

func (h *hostile) value() []byte {
	return pick(h, nil, []byte{}, []byte("v"), longValue[:4096], longValue[:4097], longValue)
}

func (h *hostile) duration() time.Duration {
	return pick(h, math.MinInt64, -time.Second, -1, 0, 1, time.Millisecond, time.Second, 10*time.Second, 24*time.Hour, 24*time.Hour+1, math.MaxInt64)
}

func (h *hostile) count() int64 {
	return pick[int64](h, 0, 1, 2, 5, 1_000_000, 1_000_001, math.MaxUint32, math.MaxUint32+2, -1, math.MinInt64, math.MaxInt64)
}

// context returns one that ends soon, has ended, or is nil.
func (h *hostile) context() (context.Context, context.CancelFunc) {
	if h.IntN(8) == 0 {
		return nil, func() {}
	}
	return context.WithTimeout(context.Background(), pick(h, 0, time.Microsecond, time.Millisecond, 20*time.Millisecond))
}

// one returns a request with some settings.
func (h *hostile) one(c *leasehold.Client) leasehold.Request {
	request := c.Lock(h.name())
	switch h.IntN(4) {
	case 0:
		request = c.Semaphore(h.name(), h.count()).LimitRevision(h.count()).Permits(h.count())
	case 1:
		request = c.Semaphore(h.name(), h.count()).PermitsBetween(h.count(), h.count())
	}
	for range h.IntN(4) {
		request = pick(h, request.Shared, request.Reentrant,
			func() leasehold.Request { return request.Wait(h.duration()) },
			func() leasehold.Request { return request.Value(h.value()) },
			func() leasehold.Request { return request.LockDelay(pick(h, h.duration(), 0, 0, 0)) },
			func() leasehold.Request { return request.MaxHold(h.duration()) },
			func() leasehold.Request { return request.Actor(pick(h, leasehold.Actor{}, leasehold.NewActor())) })()
	}
	return request
}

// several returns a request for several locks.
func (h *hostile) several(c *leasehold.Client) leasehold.MultiRequest {
	request := c.LockAll(h.names()...)
	if h.IntN(2) == 0 {
		var specs []leasehold.LockSpec
		for _, name := range h.names() {
			specs = append(specs, pick(h, leasehold.LockSpec{}, leasehold.Exclusive(name), leasehold.Shared(name).AtLeast(h.count()),
				leasehold.Permits(name, h.count(), h.count()).AtLeast(h.count()).LimitRevision(h.count())))
		}
		request = c.LockAllOf(specs...)
	}
	return pick(h, request, request.Shared(), request.Reentrant(), request.Wait(h.duration()), request.Value(h.value()),
		request.LockDelay(h.duration()), request.MaxHold(h.duration()), request.Actor(leasehold.NewActor()))
}

// work is what a hostile program does under a lock.
func (h *hostile) work(held interface{ Check() error }, release func(context.Context) error) error {
	switch h.IntN(6) {
	case 0:
		panic(errHostile)
	case 1:
		runtime.Goexit()
	case 2:
		_ = release(nil)
	case 3:
		return errHostile
	case 4:
		ctx, cancel := h.context()
		defer cancel()
		if hold, err := h.one(h.client).Shared().Wait(0).Try(ctx); err == nil {
			_ = hold.Release(ctx)
		}
	}
	return held.Check()
}

// misuse does to a hold what it can, and releases it at last.
func (h *hostile) misuse(hold *leasehold.Hold) {
	ctx, cancel := h.context()
	defer cancel()
	for range h.IntN(4) {
		pick(h,
			func() error { return hold.Keep(ctx, h.count()) },
			func() error { return hold.SetValue(ctx, h.value()) },
			func() error { return hold.Downgrade(ctx) },
			func() error { return hold.Release(ctx) },
			hold.Err,
		)()
	}
	// Twice at once.
	var releases sync.WaitGroup
	releases.Go(func() { _ = hold.Release(ctx) })
	_ = hold.Release(nil)
	releases.Wait()
}

// call makes one call. Whatever it returns is right, as long as it returns.
func (h *hostile) call() {
	c := pick(h, h.client, h.side)
	ctx, cancel := h.context()
	defer cancel()
	admin := c.Admin()
	election := c.Election(h.name()).Value(h.value())
	switch h.IntN(19) {
	case 0, 1:
		if hold, err := h.one(c).Acquire(ctx); err == nil {
			h.misuse(hold)
		}
	case 2, 3:
		if hold, err := h.one(c).Try(ctx); err == nil {
			h.misuse(hold)
		}
	case 4:
		if holds, err := h.several(c).Acquire(ctx); err == nil {
			_ = holds.Release(ctx)
			h.misuse(holds[0])
		}
	case 5, 6:
		_ = h.one(c).Do(ctx, func(_ context.Context, hold *leasehold.Hold) error { return h.work(hold, hold.Release) })
	case 7:
		_ = h.several(c).Do(ctx, func(_ context.Context, holds leasehold.Holds) error { return h.work(holds, holds.Release) })
	case 8:
		if term, err := election.Wait(h.duration()).MaxHold(h.duration()).Campaign(ctx); err == nil {
			_ = term.Proclaim(ctx, h.value())
			_ = term.Resign(ctx)
			_ = term.Resign(nil)
		}
	case 9:
		_ = election.Run(ctx, func(_ context.Context, term *leasehold.Term) error { return h.work(term, term.Resign) })
	case 10:
		_, _ = election.Leader(ctx)
		for range election.Observe(ctx) {
		}
	case 11:
		for range admin.Watch(ctx, h.name()) {
		}
		for range admin.ListLocks(ctx, h.name()) {
		}
	case 12:
		_, _ = admin.GetLock(ctx, h.name())
		_, _ = admin.ForceReleaseHolder(ctx, h.name(), pick[int64](h, math.MinInt64, -1, 0, 1, math.MaxInt64))
		_, _ = admin.ForceReleaseWaiter(ctx, h.name(), pick[uint64](h, 0, math.MaxUint64))
		_, _ = admin.RequestReleaseHolder(ctx, h.name(), pick[int64](h, -1, 0, 1), h.name(), h.duration())
		_, _, _ = admin.CheckToken(ctx, h.name(), pick[int64](h, math.MinInt64, 0, math.MaxInt64))
		_, _ = admin.EndSession(ctx, h.name())
	case 13:
		set := []leasehold.SessionOption{leasehold.WithTTL(h.duration()), leasehold.WithGrace(h.duration())}
		set = append(set, leasehold.WithClientName(h.name()), leasehold.WithSessionMetadata(h.name(), h.name()))
		if session, err := c.NewSession(ctx, set[h.IntN(3):]...); err == nil {
			_, _ = session.Lock(h.name()).Try(ctx)
			go session.Close()
			session.Close()
			_, _ = session.Lock("a").Acquire(ctx)
		}
	case 14:
		go h.side.Close()
		h.side.Close()
		h.renewSide()
	case 15:
		endpoint := pick(h, h.url, h.url+"/path", h.url+"x", "", ",", "http://", "https://"+strings.TrimPrefix(h.url, "http://"), "\xff", h.name())
		quiet := leasehold.WithLogger(slog.New(slog.DiscardHandler))
		option := func() leasehold.Option {
			return pick[leasehold.Option](h, quiet, leasehold.WithCA(h.name()), leasehold.WithToken(h.name()), leasehold.WithServerName(h.name()),
				leasehold.WithConnectTimeout(h.duration()), leasehold.WithBackoff(h.duration(), h.duration()), leasehold.WithTTL(h.duration()))
		}
		if made, err := leasehold.New(endpoint, quiet, option(), option()); err == nil {
			_, _ = made.Lock(h.name()).Try(ctx)
			made.Close()
		}
		if made, err := leasehold.Connect(ctx, endpoint, quiet, option()); err == nil {
			_, _ = made.Lock(h.name()).Try(ctx)
			made.Close()
		}
	case 16:
		_, _ = h.one(c).TryDo(ctx, func(_ context.Context, hold *leasehold.Hold) error { return h.work(hold, hold.Release) })
		_, _ = h.several(c).TryDo(ctx, nil)
	case 17:
		detached := c.DetachedLock(h.name()).TTL(h.duration()).Value(h.value()).LockDelay(h.duration())
		detached = pick(h, detached, detached.Shared(), detached.Permits(h.count(), h.count()), detached.Key(h.name()), detached.Wait(h.duration()))
		if lock, err := detached.Acquire(ctx); err == nil {
			_ = lock.RenewFor(ctx, h.duration())
			_ = lock.Release(nil)
			_ = lock.Release(context.Background())
		}
		if lock, err := c.AttachDetachedLock(h.name(), h.count(), h.value()); err == nil {
			_ = lock.Renew(ctx)
		}
	case 18:
		// Work that closes its client, with its own context or without.
		side := h.side
		_ = side.Lock(h.name()).Wait(time.Second).Do(context.Background(), func(ctx context.Context, _ *leasehold.Hold) error {
			if h.IntN(2) == 0 {
				return side.Shutdown(ctx)
			}
			side.Close()
			return nil
		})
		side.Close()
		h.renewSide()
	}
}

func (h *hostile) renewSide() {
	side, err := leasehold.New(h.url, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	h.side = side
}

// guarded makes a call in a goroutine of its own, so that it may end that, and reports panics that are not the program's own.
func (h *hostile) guarded() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if reason := recover(); reason != nil && reason != errHostile {
				h.t.Errorf("%v\n%s", reason, debug.Stack())
			}
		}()
		h.call()
	}()
	select {
	case <-done:
	case <-time.After(hostileLimit):
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("a call did not return:\n%s", stacks[:runtime.Stack(stacks, true)]))
	}
}

// TestHostileCallsCostNothingButThemselves makes calls from HOSTILE_SEED for HOSTILE_SECONDS beside one lock, which must survive.
func TestHostileCallsCostNothingButThemselves(t *testing.T) {
	t.Parallel()
	number := func(variable string, otherwise uint64) uint64 {
		if given := os.Getenv(variable); given != "" {
			number, err := strconv.ParseUint(given, 10, 64)
			wantErr(t, err, nil)
			return number
		}
		return otherwise
	}
	seed, seconds := number("HOSTILE_SEED", 1), number("HOSTILE_SECONDS", 3)
	t.Logf("HOSTILE_SEED=%d", seed)
	server := servertest.Start(t)
	// Longer than a busy machine keeps a process waiting: the lock must be lost by what a call does, and not by the clock.
	c, observer := connect(t, server.URL, leasehold.WithTTL(2*time.Minute)), connect(t, server.URL)
	important := acquire(t, c.Lock("important"))
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var workers sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for worker := range uint64(hostileWorkers) {
		workers.Go(func() {
			h := &hostile{Rand: rand.New(rand.NewPCG(seed, worker)), t: t, client: c, url: server.URL}
			h.renewSide()
			calls := 0
			for ; time.Now().Before(end) && !t.Failed(); calls++ {
				h.guarded()
				if err := important.Check(); err != nil {
					t.Errorf("after call %d of worker %d: %v", calls, worker, err)
				}
			}
			h.side.Close()
			mu.Lock()
			total += calls
			mu.Unlock()
		})
	}
	workers.Wait()
	t.Logf("%d calls", total)
	// Nothing is left but what was there before.
	var left *leasehold.LockView
	defer func() {
		if left != nil {
			t.Logf("held in session %s, ours is %s: %v", left.Holders[0].SessionID, sessionID(c), left)
		}
	}()
	servertest.Until(t, "all other locks to be free", func() bool {
		for lock, err := range observer.Admin().ListLocks(t.Context(), "") {
			wantErr(t, err, nil)
			if lock.Name != "important" && len(lock.Holders) > 0 {
				left = lock
				return false
			}
		}
		left = nil
		return true
	})
	servertest.Until(t, "all other sessions to end", func() bool {
		sessions := 0
		for _, err := range observer.Admin().ListSessions(t.Context()) {
			wantErr(t, err, nil)
			sessions++
		}
		return sessions == 2
	})
	view, err := observer.Admin().GetLock(t.Context(), "important")
	wantErr(t, err, nil)
	if len(view.Holders) != 1 || view.Holders[0].Token != important.Token() {
		t.Errorf("the lock became %v", view)
	}
	wantErr(t, important.Release(t.Context()), nil)
}
