package leasehold_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// holderEndpoint is the variable by which this program becomes a holder's process; see beHolder.
const holderEndpoint = "LEASEHOLD_TEST_HOLDER"

// beHolder holds a lock, and answers each line on stdin with the state of its hold, which it looks at then.
func beHolder(endpoint string) {
	client, err := leasehold.New(endpoint, leasehold.WithTTL(time.Minute), leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	lines := bufio.NewScanner(os.Stdin)
	hold, err := client.Lock("a").Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	for {
		fmt.Println(hold.Token(), hold.State(), hold.ValidFor().Milliseconds())
		if !lines.Scan() {
			return
		}
	}
}

// wantOnlyHolder checks that the lock is held under this token, and that nobody else was granted it.
func wantOnlyHolder(t *testing.T, at *leasehold.Client, token int64, rival <-chan *leasehold.Hold) {
	t.Helper()
	select {
	case other := <-rival:
		t.Fatalf("another client has the lock, with token %d", other.Token())
	default:
	}
	view, err := at.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	if len(view.Holders) != 1 || view.Holders[0].Token != token || view.WaiterCount != 1 {
		t.Errorf("the coordinator has %v", view)
	}
}

// TestANetworkThatIsSilentForHalfTheTTLTakesNothing is silent for longer than any probe of a connection takes.
func TestANetworkThatIsSilentForHalfTheTTLTakesNothing(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	proxy := servertest.Through(t, server)
	c, other := connect(t, proxy.URL, leasehold.WithTTL(45*time.Second)), connect(t, server.URL)
	hold := acquire(t, c.Lock("a"))
	rival, _ := background(t.Context(), other.Lock("a"))
	waitForWaiters(t, other, "a", 1)
	proxy.Silence()
	for silent := time.Now(); time.Since(silent) < 25*time.Second; time.Sleep(20 * time.Millisecond) {
		wantErr(t, hold.Check(), nil)
	}
	proxy.Forward()
	// The session hears of a coordinator again, the former or another, and is renewed there.
	servertest.Until(t, "a renewal", func() bool {
		wantErr(t, hold.Check(), nil)
		return hold.ValidFor() > 30*time.Second
	})
	wantOnlyHolder(t, other, hold.Token(), rival)
	wantErr(t, hold.Release(t.Context()), nil)
	wantErr(t, await(t, "the rival's grant", rival).Release(t.Context()), nil)
}

func TestAProcessThatIsStoppedForLessThanItsTTLKeepsItsLock(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	other := connect(t, server.URL)
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderEndpoint+"="+server.URL)
	holder.Stderr = os.Stderr
	asks, err := holder.StdinPipe()
	wantErr(t, err, nil)
	answers, err := holder.StdoutPipe()
	wantErr(t, err, nil)
	wantErr(t, holder.Start(), nil)
	defer func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	}()
	lines := bufio.NewScanner(answers)
	var token int64
	hears := func() (validFor time.Duration) {
		t.Helper()
		var state string
		var told, left int64
		if !lines.Scan() {
			t.Fatal("the holder ended")
		}
		if _, err := fmt.Sscan(lines.Text(), &told, &state, &left); err != nil || state != "held" || token != 0 && told != token {
			t.Fatalf("the holder said %q; its token was %d", lines.Text(), token)
		}
		token = told
		return time.Duration(left) * time.Millisecond
	}
	hears()
	rival, _ := background(t.Context(), other.Lock("a"))
	waitForWaiters(t, other, "a", 1)
	wantErr(t, holder.Process.Signal(syscall.SIGSTOP), nil)
	time.Sleep(15 * time.Second)
	wantErr(t, holder.Process.Signal(syscall.SIGCONT), nil)
	// From its first word after the pause until it is renewed.
	servertest.Until(t, "a renewal", func() bool {
		_, err := io.WriteString(asks, "\n")
		wantErr(t, err, nil)
		return hears() > 50*time.Second
	})
	wantOnlyHolder(t, other, token, rival)
	asks.Close()
	wantErr(t, await(t, "the rival's grant", rival).Release(t.Context()), nil)
}
