package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// TestABadArgumentCostsOneCall makes each bad call beside a lock, which must survive under the same token.
func TestABadArgumentCostsOneCall(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	c := connect(t, server.URL)
	important := acquire(t, c.Lock("important"))
	hold := acquire(t, c.Lock("a"))
	permits := acquire(t, c.Semaphore("pool", 5).Permits(3))
	term, err := c.Election("leader").Campaign(t.Context())
	wantErr(t, err, nil)
	session := sessionID(c)

	long, huge := strings.Repeat("n", 513), make([]byte, 5_000_000)
	many := make([]string, 1_001)
	for i := range many {
		many[i] = fmt.Sprint("name", i)
	}
	free := c.Lock("free")
	calls := map[string]func(context.Context) error{
		"Acquire, reentrant, no actor": func(ctx context.Context) error { _, err := free.Reentrant().Acquire(ctx); return err },
		"Keep 0":                       func(ctx context.Context) error { return permits.Keep(ctx, 0) },
		"Keep too many":                func(ctx context.Context) error { return permits.Keep(ctx, 1_000_001) },
		"SetValue too long":            func(ctx context.Context) error { return hold.SetValue(ctx, huge) },
		"Proclaim too long":            func(ctx context.Context) error { return term.Proclaim(ctx, huge[:4097]) },
		"SetValue, nil context":        func(context.Context) error { return hold.SetValue(nil, nil) },
		"Downgrade, nil context":       func(context.Context) error { return hold.Downgrade(nil) },
		"Do without work":              func(ctx context.Context) error { return free.Do(ctx, nil) },
		"DoAll without work":           func(ctx context.Context) error { return c.LockAll("free").Do(ctx, nil) },
		"Run without work":             func(ctx context.Context) error { return c.Election("free").Run(ctx, nil) },
		"Run, bad name": func(ctx context.Context) error {
			return c.Election("a\xff").Run(ctx, func(context.Context, *leasehold.Term) error { return nil })
		},
		"Run, nil context": func(context.Context) error {
			return c.Election("free").Run(nil, func(context.Context, *leasehold.Term) error { return nil })
		},
		"Campaign, nil context": func(context.Context) error { _, err := c.Election("free").Campaign(nil); return err },
		"Leader, bad name":      func(ctx context.Context) error { _, err := c.Election("a\xff").Leader(ctx); return err },
		"Leader, nil context":   func(context.Context) error { _, err := c.Election("free").Leader(nil); return err },
		"GetLock, bad name":     func(ctx context.Context) error { _, err := c.Admin().GetLock(ctx, "a\xff"); return err },
		"GetLock, nil context":  func(context.Context) error { _, err := c.Admin().GetLock(nil, "a"); return err },
		"RequestRelease, -1":    func(ctx context.Context) error { _, err := c.Admin().RequestRelease(ctx, "a", "", -1); return err },
		"RequestReleaseHolder, 0": func(ctx context.Context) error {
			_, err := c.Admin().RequestReleaseHolder(ctx, "a", 0, "", 0)
			return err
		},
		"NewSession, TTL":         func(ctx context.Context) error { _, err := c.NewSession(ctx, leasehold.WithTTL(-1)); return err },
		"NewSession, grace":       func(ctx context.Context) error { _, err := c.NewSession(ctx, leasehold.WithGrace(-1)); return err },
		"NewSession, nil context": func(context.Context) error { _, err := c.NewSession(nil); return err },
		"Watch, bad prefix": func(ctx context.Context) (err error) {
			for _, err = range c.Admin().Watch(ctx, "a\xff") {
			}
			return err
		},
		"Watch, nil context": func(ctx context.Context) (err error) {
			for _, err = range c.Admin().Watch(nil, "a") {
			}
			return err
		},
		"Observe, bad name": func(ctx context.Context) (err error) {
			for _, err = range c.Election("a\xff").Observe(ctx) {
			}
			return err
		},
		"a request that no client made": func(ctx context.Context) error { _, err := leasehold.Request{}.Acquire(ctx); return err },
		"an election of no client":      func(ctx context.Context) error { _, err := leasehold.Election{}.Campaign(ctx); return err },
	}
	for name, request := range map[string]leasehold.Request{
		"empty name":           c.Lock(""),
		"long name":            c.Lock(long),
		"huge name":            c.Lock(string(huge)),
		"no UTF-8":             c.Lock("a\xff"),
		"control characters":   c.Lock("a\nb"),
		"C1 control character": c.Lock("a\u0085b"),
		"huge value":           free.Value(huge),
		"long value":           free.Value(huge[:4097]),
		"wait -1":              free.Wait(-1),
		"wait too long":        free.Wait(24*time.Hour + 1),
		"lock-delay -1":        free.LockDelay(-1),
		"max-hold -1":          free.MaxHold(-1),
		"max-hold 0":           free.MaxHold(0),
		"max-hold too short":   free.MaxHold(time.Second - 1),
		"max-hold too long":    free.MaxHold(366 * 24 * time.Hour),
		"no permits":           c.Semaphore("s", 5).Permits(0),
		"too many permits":     c.Semaphore("s", 5).Permits(6),
		"no limit":             c.Semaphore("s", 0).Permits(0),
		"too high a limit":     c.Semaphore("s", 1_000_001).Permits(1),
		"a range from 0":       c.Semaphore("s", 5).PermitsBetween(0, 2),
		"a range backwards":    c.Semaphore("s", 5).PermitsBetween(3, 2),
		"shared permits":       c.Semaphore("s", 5).Permits(1).Shared(),
		"shared zero":          c.Semaphore("s", 0).Permits(0).Shared(),
		"a huge limit":         c.Semaphore("s", 1<<32+5).Permits(1),
		"many permits":         c.Semaphore("s", 5).Permits(1<<32 + 1),
		"negative permits":     c.Semaphore("s", 5).Permits(-1),
		"a negative least":     c.Semaphore("s", 5).PermitsBetween(-1, 2),
		"a negative revision":  c.Semaphore("s", 5).LimitRevision(-1).Permits(1),
		"a huge revision":      c.Semaphore("s", 5).LimitRevision(1 << 32).Permits(1),
	} {
		calls["Acquire, "+name] = func(ctx context.Context) error { _, err := request.Acquire(ctx); return err }
		// A try ignores the wait.
		if !strings.HasPrefix(name, "wait") {
			calls["Try, "+name] = func(ctx context.Context) error { _, err := request.Try(ctx); return err }
		}
		calls["Do, "+name] = func(ctx context.Context) error {
			return request.Do(ctx, func(context.Context, *leasehold.Hold) error { return errors.New("it ran") })
		}
	}
	for name, request := range map[string]leasehold.MultiRequest{
		"no names":                  c.LockAll(),
		"too many names":            c.LockAll(many...),
		"a name twice":              c.LockAll("b", "b"),
		"one of them bad":           c.LockAll("b", "a\xff"),
		"permits shared":            c.LockAllOf(leasehold.Permits("s", 1, 5)).Shared(),
		"permits of a plain lock":   c.LockAllOf(leasehold.Exclusive("b").AtLeast(1)),
		"revision of a plain lock":  c.LockAllOf(leasehold.Shared("b").LimitRevision(1)),
		"no mode":                   c.LockAllOf(leasehold.LockSpec{}),
		"among several, no permits": c.LockAllOf(leasehold.Exclusive("b"), leasehold.Permits("s", 0, 5)),
	} {
		calls["AcquireAll, "+name] = func(ctx context.Context) error { _, err := request.Acquire(ctx); return err }
		calls["TryAll, "+name] = func(ctx context.Context) error { _, err := request.Try(ctx); return err }
	}
	calls["Acquire, nil context"] = func(context.Context) error { _, err := free.Acquire(nil); return err }
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := call(ctx)
			wantErr(t, err, leasehold.ErrInvalid)
			if len(err.Error()) > 4_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			wantErr(t, important.Check(), nil)
		})
	}
	for _, held := range []interface{ Check() error }{important, hold, permits, term} {
		wantErr(t, held.Check(), nil)
	}
	if sessionID(c) != session {
		t.Error("the session was made anew")
	}
	// As many as another coordinator might take.
	_, err = c.LockAll(many[:65]...).Acquire(t.Context())
	wantErr(t, err, leasehold.ErrLimitReached)
	view, err := c.Admin().GetLock(t.Context(), "important")
	wantErr(t, err, nil)
	if view.Holders[0].Token != important.Token() {
		t.Errorf("the lock became %v", view)
	}
	wantErr(t, acquire(t, free).Release(t.Context()), nil)
}

func TestBadSettingsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/pem"
	wantErr(t, os.WriteFile(file, []byte("nothing"), 0o600), nil)
	for name, test := range map[string]struct {
		endpoints string
		option    leasehold.Option
		says      string
	}{
		"TTL":                {"a", leasehold.WithTTL(-1), "ttl"},
		"grace":              {"a", leasehold.WithGrace(-time.Second), "disconnect_grace"},
		"client name":        {"a", leasehold.WithClientName("a\nb"), "client_name"},
		"long client name":   {"a", leasehold.WithClientName(strings.Repeat("n", 257)), "client_name"},
		"client name, UTF-8": {"a", leasehold.WithClientName("a\xff"), "client_name"},
		"metadata key":       {"a", leasehold.WithSessionMetadata("", "v"), "metadata"},
		"long key":           {"a", leasehold.WithSessionMetadata(strings.Repeat("k", 65), "v"), "metadata"},
		"metadata, UTF-8":    {"a", leasehold.WithSessionMetadata("k", "\xff"), "metadata"},
		"long metadata":      {"a", leasehold.WithSessionMetadata("k", strings.Repeat("v", 257)), "metadata"},
		"wait":               {"a", leasehold.WithWait(-1), "WithWait"},
		"long wait":          {"a", leasehold.WithWait(25 * time.Hour), "WithWait"},
		"close time-out":     {"a", leasehold.WithCloseTimeout(-1), "WithCloseTimeout"},
		"connect time-out":   {"a", leasehold.WithConnectTimeout(0), "positive"},
		"pauses":             {"a", leasehold.WithBackoff(-1, time.Second), "positive"},
		"pauses backwards":   {"a", leasehold.WithBackoff(2*time.Second, time.Second), "longest"},
		"CA over http":       {"http://a", leasehold.WithCA(file), "https://"},
		"CA, no scheme":      {"a", leasehold.WithCA(file), "https://"},
		"CA, one is http":    {"https://a,b", leasehold.WithCA(file), "https://"},
		"certificate":        {"a", leasehold.WithCertificate(file, file), "https://"},
		"server name":        {"a", leasehold.WithServerName("b"), "https://"},
		"no PEM":             {"https://a", leasehold.WithCA(file), "no certificate"},
		"no file":            {"https://a", leasehold.WithCA(file + "x"), "no such file"},
		"half a pair":        {"https://a", leasehold.WithCertificate(file, ""), "key"},
		"token":              {"https://a", leasehold.WithToken("a b"), "visible"},
		"token over http":    {"a", leasehold.WithToken("a"), "unencrypted"},
		"path":               {"http://a/locks", nil, "path"},
		"query":              {"http://a?b=c", nil, "path"},
		"fragment":           {"http://a#b", nil, "path"},
		"port":               {"http://a:65536", nil, "port"},
		"port 0":             {"http://a:0", nil, "port"},
		"nothing":            {"", nil, "no host"},
		"a comma too many":   {"a,", nil, "no host"},
	} {
		t.Run(name, func(t *testing.T) {
			options := []leasehold.Option{leasehold.WithLogger(slog.New(slog.DiscardHandler))}
			if test.option != nil {
				options = append(options, test.option)
			}
			c, err := leasehold.New(test.endpoints, options...)
			if err == nil {
				c.Close()
			}
			wantErr(t, err, leasehold.ErrInvalid)
			var failed *leasehold.ConnectError
			if !errors.As(err, &failed) || failed.Retryable() || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
	var metadata []leasehold.Option
	for i := range 17 {
		metadata = append(metadata, leasehold.WithSessionMetadata(fmt.Sprint(i), ""))
	}
	_, err := leasehold.New("a", metadata...)
	wantErr(t, err, leasehold.ErrInvalid)
	_, err = leasehold.Connect(nil, "a")
	wantErr(t, err, leasehold.ErrInvalid)
}
