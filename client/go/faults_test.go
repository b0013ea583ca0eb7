package leasehold_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// pair starts two coordinators on one Redis server.
func pair(t *testing.T) (servers []*servertest.Server, urls string) {
	t.Helper()
	store := servertest.Redis(t)
	servers = []*servertest.Server{servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)}
	return servers, servers[0].URL + "," + servers[1].URL
}

// serving returns the coordinator that has the client's own session, and the other one.
func serving(t *testing.T, c *leasehold.Client, servers []*servertest.Server) (has, other *servertest.Server) {
	t.Helper()
	info, _ := c.Session().Info()
	for i, server := range servers {
		status, err := connect(t, server.URL).Admin().Status(t.Context())
		wantErr(t, err, nil)
		if status.Coordinator == info.Coordinator {
			return server, servers[1-i]
		}
	}
	t.Fatalf("no server is %q", info.Coordinator)
	return nil, nil
}

// untilMoved waits until the session is at another coordinator, and checks all the while that the lock is held.
func untilMoved(t *testing.T, c *leasehold.Client, hold *leasehold.Hold, from string) {
	t.Helper()
	servertest.Until(t, "the session to move", func() bool {
		wantErr(t, hold.Check(), nil)
		info, isOpen := c.Session().Info()
		return isOpen && info.SessionID != from
	})
	wantErr(t, hold.Check(), nil)
}

func sessionID(c *leasehold.Client) string {
	info, _ := c.Session().Info()
	return info.SessionID
}

func TestAKillWithoutAGraceLosesTheLock(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL)
	hold := acquire(t, c.Lock("a"))
	blocked, _ := background(t.Context(), c.Lock("a"))
	waitForWaiters(t, c, "a", 1)
	server.Kill()
	await(t, "the loss", hold.Lost())
	if reason := lostReason(t, hold.Err()); reason != leasehold.LostSessionEnded {
		t.Errorf("lost because %v", reason)
	}
	wantErr(t, hold.Release(t.Context()), leasehold.ErrLost)
	_, err := c.Lock("b").Try(t.Context())
	wantErr(t, err, leasehold.ErrUnavailable)
	// The session is made anew, and who waits goes on waiting.
	server.Restart()
	wantErr(t, await(t, "the waiter's grant", blocked).Release(t.Context()), nil)
}

func TestAKillWithAGraceSuspendsTheLockUntilItIsResumed(t *testing.T) {
	t.Parallel()
	servers, urls := pair(t)
	c := connect(t, urls, leasehold.WithGrace(10*time.Second))
	has, other := serving(t, c, servers)
	observer := connect(t, other.URL)
	hold := acquire(t, c.Lock("a"))
	blocked, _ := background(t.Context(), c.Lock("a"))
	waitForWaiters(t, observer, "a", 1)
	token := hold.Token()
	ctx, cancel := hold.Context(t.Context())
	defer cancel()
	states := make(chan leasehold.State, 1)
	go func() { states <- hold.Changed(t.Context(), leasehold.StateHeld) }()
	// The goroutine must see the suspension, which may be short: the signal makes it long enough.
	other.Stop()
	has.Kill()
	if state := await(t, "the suspension", states); state != leasehold.StateSuspended {
		t.Fatalf("the lock is %v", state)
	}
	wantErr(t, hold.Check(), leasehold.ErrSuspended)
	wantErr(t, hold.Err(), nil)
	if hold.ValidFor() != 0 || hold.LostIn() == 0 {
		t.Errorf("valid for %v, lost in %v", hold.ValidFor(), hold.LostIn())
	}
	other.Continue()
	if state := hold.Changed(t.Context(), leasehold.StateSuspended); state != leasehold.StateHeld {
		t.Fatalf("the lock is %v: %v", state, hold.Err())
	}
	if hold.Token() != token || ctx.Err() != nil {
		t.Errorf("the token is %d, was %d; the context's error is %v", hold.Token(), token, ctx.Err())
	}
	wantErr(t, hold.Release(t.Context()), nil)
	wantErr(t, await(t, "the waiter's grant", blocked).Release(t.Context()), nil)
}

func TestAStoppedCoordinatorLosesTheLockAtItsDeadline(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL, leasehold.WithTTL(time.Second))
	hold := acquire(t, c.Lock("a"))
	server.Stop()
	defer server.Continue()
	ctx, cancel := hold.Context(t.Context())
	defer cancel()
	// Nobody asks for it: its work is told by itself.
	await(t, "the end of the work", ctx.Done())
	if reason := lostReason(t, hold.Err()); reason != leasehold.LostExpired || hold.LostIn() != 0 {
		t.Errorf("lost because %v, in %v", reason, hold.LostIn())
	}
	wantErr(t, context.Cause(ctx), leasehold.ErrLost)
}

func TestASilentCoordinatorIsLeft(t *testing.T) {
	t.Parallel()
	servers, urls := pair(t)
	c := connect(t, urls, leasehold.WithTTL(8*time.Second))
	hold := acquire(t, c.Lock("a"))
	before := sessionID(c)
	has, _ := serving(t, c, servers)
	has.Stop()
	defer has.Continue()
	untilMoved(t, c, hold, before)
	wantErr(t, hold.Release(t.Context()), nil)
}

func TestADrainMovesTheSessionWithAllThatItHasAndAwaits(t *testing.T) {
	t.Parallel()
	servers, urls := pair(t)
	c := connect(t, urls)
	has, other := serving(t, c, servers)
	hold := acquire(t, c.Lock("a"))
	token, before := hold.Token(), sessionID(c)
	blocked, _ := background(t.Context(), c.Lock("a"))
	observer := connect(t, other.URL)
	waitForWaiters(t, observer, "a", 1)
	err := hold.SetValue(t.Context(), []byte("moving"))
	wantErr(t, err, nil)
	has.Terminate()
	untilMoved(t, c, hold, before)
	view, err := observer.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	if view.Holders[0].Token != token || hold.Token() != token || view.WaiterCount != 1 {
		t.Errorf("token %d became %v", token, view)
	}
	wantErr(t, hold.SetValue(t.Context(), []byte("moved")), nil)
	wantErr(t, hold.Release(t.Context()), nil)
	wantErr(t, await(t, "the waiter's grant", blocked).Release(t.Context()), nil)
}

// TestASessionThatIsAskedToMoveGoesOnUntilItCan has a coordinator that asks for a move after 64 KiB of requests, and a proxy that lets no
// other connection through.
func TestASessionThatIsAskedToMoveGoesOnUntilItCan(t *testing.T) {
	t.Parallel()
	proxy := servertest.Through(t, servertest.Start(t, "--max-stream-size", "65536"))
	c := connect(t, proxy.URL)
	hold := acquire(t, c.Lock("held"))
	before := sessionID(c)
	proxy.Refuse()
	value := make([]byte, 4096)
	takes := func() {
		t.Helper()
		// The limit tells an acquire that waits for a stream from one on a busy machine.
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		taken, err := c.Lock("busy").Value(value).Acquire(ctx)
		wantErr(t, err, nil)
		wantErr(t, taken.Release(ctx), nil)
		wantErr(t, hold.Check(), nil)
	}
	// It is asked several times.
	for range 100 {
		takes()
	}
	if now := sessionID(c); now != before {
		t.Errorf("the session was %s, and is %s", before, now)
	}
	if in, drains := c.Session().DrainsIn(); drains {
		t.Errorf("it says that the coordinator goes away in %v", in)
	}
	proxy.Forward()
	servertest.Until(t, "the session to move", func() bool {
		takes()
		info, isOpen := c.Session().Info()
		return isOpen && info.SessionID != before
	})
	takes()
	wantErr(t, hold.Release(t.Context()), nil)
}

func TestARestartOfTheOnlyCoordinatorLosesNothing(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, "--store", servertest.Redis(t), "--drain-timeout", "500ms")
	c := connect(t, server.URL)
	hold := acquire(t, c.Lock("a"))
	blocked, _ := background(t.Context(), c.Lock("a"))
	waitForWaiters(t, c, "a", 1)
	token, before := hold.Token(), sessionID(c)
	server.Terminate()
	server.Restart()
	untilMoved(t, c, hold, before)
	if hold.Token() != token {
		t.Errorf("the token is %d, was %d", hold.Token(), token)
	}
	wantErr(t, hold.Release(t.Context()), nil)
	wantErr(t, await(t, "the waiter's grant", blocked).Release(t.Context()), nil)
}

func TestAnOperatorEndsTheSession(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL, leasehold.WithGrace(10*time.Second))
	hold := acquire(t, c.Lock("a"))
	_, errs := background(t.Context(), c.Lock("a"))
	waitForWaiters(t, c, "a", 1)
	before := sessionID(c)
	ended, err := c.Admin().EndSession(t.Context(), before)
	if err != nil || !ended.Ended || ended.HoldCount != 1 {
		t.Fatal(ended, err)
	}
	await(t, "the loss", hold.Lost())
	if reason := lostReason(t, hold.Err()); reason != leasehold.LostForced {
		t.Errorf("lost because %v", reason)
	}
	wantErr(t, await(t, "the end of the wait", errs), leasehold.ErrForceReleased)
	// Another one begins with nothing.
	wantErr(t, acquire(t, c.Lock("a")).Release(t.Context()), nil)
	if sessionID(c) == before {
		t.Error("the session is still the same")
	}
}

func TestClosingReleasesEverythingAndEndsAllWaits(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c, other := connect(t, server.URL), connect(t, server.URL)
	session, err := c.NewSession(t.Context(), leasehold.WithClientName("second"), leasehold.WithTTL(30*time.Second))
	wantErr(t, err, nil)
	if info, _ := session.Info(); info.TTL != 30*time.Second {
		t.Errorf("the TTL is %v", info.TTL)
	}
	hold := acquire(t, session.Lock("a"))
	held := acquire(t, other.Lock("b"))
	_, errs := background(t.Context(), session.Lock("b"))
	waitForWaiters(t, other, "b", 1)
	session.Close()
	session.Close()
	if reason := lostReason(t, hold.Check()); reason != leasehold.LostSessionClosed {
		t.Errorf("lost because %v", reason)
	}
	wantErr(t, await(t, "the end of the wait", errs), leasehold.ErrClosed)
	_, err = session.Lock("a").Acquire(t.Context())
	wantErr(t, err, leasehold.ErrClosed)
	// The coordinator has confirmed it.
	taken, err := other.Lock("a").Try(t.Context())
	wantErr(t, err, nil)
	waitForWaiters(t, other, "b", 0)
	wantErr(t, leasehold.Holds{taken, held}.Release(t.Context()), nil)
	// The client has a session of its own, which it makes anew if somebody has closed it.
	wantErr(t, acquire(t, c.Lock("a")).Release(t.Context()), nil)
	c.Session().Close()
	wantErr(t, acquire(t, c.Lock("a")).Release(t.Context()), nil)
	c.Close()
	_, err = c.Lock("a").Acquire(t.Context())
	wantErr(t, err, leasehold.ErrClosed)
	_, err = c.NewSession(t.Context())
	wantErr(t, err, leasehold.ErrClosed)
	_, err = c.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, leasehold.ErrClosed)
}

func TestALostSessionIsMadeInTheBackground(t *testing.T) {
	t.Parallel()
	address := servertest.FreeAddress(t)
	c, err := leasehold.New(address)
	wantErr(t, err, nil)
	t.Cleanup(c.Close)
	// Nobody listens yet.
	blocked, _ := background(t.Context(), c.Lock("a"))
	_, err = c.Lock("a").Wait(50 * time.Millisecond).Acquire(t.Context())
	wantErr(t, err, leasehold.ErrUnavailable)
	// Single calls fail at once, and find the coordinator as soon as it is there, however often they have failed.
	for range 5 {
		_, err = c.Admin().GetLock(t.Context(), "a")
		wantErr(t, err, leasehold.ErrUnavailable)
	}
	servertest.StartAt(t, address)
	_, err = c.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	wantErr(t, await(t, "the grant", blocked).Release(t.Context()), nil)
}

func TestConnectSaysWhyNot(t *testing.T) {
	t.Parallel()
	plain := servertest.Start(t)
	for name, test := range map[string]struct {
		endpoints string
		options   []leasehold.Option
		is        error
		says      string
		retryable bool
	}{
		"nobody listens":  {servertest.FreeAddress(t), nil, leasehold.ErrUnavailable, "connection refused", true},
		"no TLS there":    {"https://" + plain.Address, nil, leasehold.ErrUnavailable, "does not speak TLS", false},
		"a refusal":       {plain.URL, []leasehold.Option{leasehold.WithClientName("\n")}, leasehold.ErrInvalid, "client_name", false},
		"a scheme":        {"ftp://127.0.0.1", nil, leasehold.ErrInvalid, "neither http nor https", false},
		"no host":         {"", nil, leasehold.ErrInvalid, "names no host", false},
		"an unknown name": {"http://nobody.invalid", nil, leasehold.ErrUnavailable, "nobody.invalid", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := leasehold.Connect(t.Context(), test.endpoints, test.options...)
			wantErr(t, err, test.is)
			var failed *leasehold.ConnectError
			if !errors.As(err, &failed) || failed.Retryable() != test.retryable || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := leasehold.Connect(t.Context(), "http://locks.example", leasehold.WithToken("secret")); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a token over plaintext: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := leasehold.Connect(ended, plain.URL)
	wantErr(t, err, context.Canceled)
}

func TestAWaitOutlivesAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	store, process := servertest.RedisProcess(t)
	server := servertest.Start(t, "--store", store, "--store-timeout", "200ms")
	warnings := make(logged, 100)
	c := connect(t, server.URL, leasehold.WithLogger(slog.New(warnings)))
	wantErr(t, process.Signal(syscall.SIGSTOP), nil)
	defer process.Signal(syscall.SIGCONT)
	holds, errs := background(t.Context(), c.Lock("a"))
	for !strings.Contains(await(t, "a warning", warnings), "could not be served") {
	}
	_, err := c.Lock("b").Try(t.Context())
	wantErr(t, err, leasehold.ErrUnavailable)
	if !strings.Contains(err.Error(), "STORE_") {
		t.Errorf("got %v", err)
	}
	_, err = c.Lock("b").Wait(300 * time.Millisecond).Acquire(t.Context())
	wantErr(t, err, leasehold.ErrUnavailable)
	select {
	case err := <-errs:
		t.Fatalf("the wait ended: %v", err)
	default:
	}
	wantErr(t, process.Signal(syscall.SIGCONT), nil)
	wantErr(t, await(t, "the grant", holds).Release(t.Context()), nil)
}

// logged hands on the messages of warnings.
type logged chan string

func (l logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l logged) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l logged) WithGroup(string) slog.Handler                    { return l }
func (l logged) Handle(_ context.Context, record slog.Record) error {
	select {
	case l <- record.Message:
	default:
	}
	return nil
}
