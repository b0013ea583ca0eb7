package leaseholdgoose_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"leasehold.dev/go"
	leaseholdgoose "leasehold.dev/go/goose"
	"leasehold.dev/go/internal/servertest"
)

// beInstance is an instance of a program that migrates its database when it starts, in two steps. The first one of a "slow" instance ends
// with its context only, that of a "long" one when there is a file beside the database; its TTL outlasts a busy machine. It writes a line
// for each thing that happens to it.
func beInstance(role, endpoint, file string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ttl := 2 * time.Second
	if role == "long" {
		ttl = time.Minute
	}
	client, err := leasehold.New(endpoint, leasehold.WithTTL(ttl), leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	check(err)
	defer client.Close()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	check(err)
	defer db.Close()
	locker := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithLockDelay(time.Second))
	first := func(ctx context.Context, tx *sql.Tx) error {
		fmt.Println("began")
		if _, err := tx.ExecContext(ctx, "CREATE TABLE first (id INTEGER)"); err != nil {
			return err
		}
		switch role {
		case "slow":
			<-ctx.Done()
			return context.Cause(ctx)
		case "long":
			for ctx.Err() == nil {
				if _, err := os.Stat(file + mayEnd); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			return context.Cause(ctx)
		}
		return nil
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: first}, nil)),
	)
	check(err)
	ctx, cancel := locker.Context(context.Background())
	defer cancel()
	results, err := provider.Up(ctx)
	switch {
	case errors.Is(err, leasehold.ErrLost):
		fmt.Println("lost")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("applied", len(results))
	}
}

// mayEnd is the suffix of the file that ends the first step of a "long" instance.
const mayEnd = ".end"

// startInstance starts such a process, and returns what it writes; closed when it has ended.
func startInstance(t *testing.T, role, endpoint, file string) (lines <-chan string) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "GOOSE_TEST_ROLE="+role, "GOOSE_TEST_ENDPOINT="+endpoint, "GOOSE_TEST_FILE="+file)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	told, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(told)
		for read := bufio.NewScanner(stdout); read.Scan(); {
			told <- read.Text()
		}
		_ = command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	return told
}

func wantLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case line, isOpen := <-lines:
		if !isOpen || line != want {
			t.Fatalf("the instance said %q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the instance did not say %q", want)
	}
}

// awaitWaiter waits until an instance waits for the lock.
func awaitWaiter(t *testing.T, url string) {
	t.Helper()
	watcher := connect(t, url)
	servertest.Until(t, "the other instance to wait", func() bool {
		view, err := watcher.Admin().GetLock(t.Context(), name)
		return err == nil && view.WaiterCount == 1
	})
}

// wantSilence checks that an instance has said nothing.
func wantSilence(t *testing.T, lines <-chan string) {
	t.Helper()
	select {
	case line := <-lines:
		t.Fatalf("the instance said %q", line)
	default:
	}
}

// TestARollingRestart has two instances, and two coordinators that are restarted one after the other while one migrates and the other waits.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	store := servertest.Redis(t)
	one, two := servertest.Start(t, "--store", store), servertest.Start(t, "--store", store)
	urls := one.URL + "," + two.URL
	file := filepath.Join(t.TempDir(), "db")
	a := startInstance(t, "long", urls, file)
	wantLine(t, a, "began")
	b := startInstance(t, "quick", urls, file)
	awaitWaiter(t, urls)
	servertest.Roll(one, two)
	awaitWaiter(t, urls)
	wantSilence(t, a)
	wantSilence(t, b)
	if err := os.WriteFile(file+mayEnd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLine(t, a, "applied 2")
	wantLine(t, b, "applied 0")
}

// TestTheCoordinatorIsAway has two instances. Their coordinator dies while one migrates and the other waits, and comes back five seconds
// later.
func TestTheCoordinatorIsAway(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, "--store", servertest.Redis(t))
	file := filepath.Join(t.TempDir(), "db")
	a := startInstance(t, "slow", server.URL, file)
	wantLine(t, a, "began")
	b := startInstance(t, "quick", server.URL, file)
	awaitWaiter(t, server.URL)
	server.Kill()
	// The migration ends, and is rolled back: the lock can't be renewed.
	wantLine(t, a, "lost")
	time.Sleep(5 * time.Second)
	wantSilence(t, b)
	server.Restart()
	wantLine(t, b, "began")
	wantLine(t, b, "applied 2")
	db := open(t, file)
	if !hasTable(t, db, "first") || !hasTable(t, db, "second") {
		t.Fatal("a migration is missing")
	}
}

// beWorker migrates until SIGTERM, and closes its client then.
func beWorker() {
	file := os.Getenv("GOOSE_TEST_FILE")
	client, err := leasehold.New(servertest.WorkerEndpoint(), leasehold.WithLogger(slog.New(slog.DiscardHandler)), leasehold.WithTTL(time.Minute))
	if err != nil {
		panic(err)
	}
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	locker := leaseholdgoose.NewSessionLocker(client, name)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
			return errors.Join(servertest.Work(ctx), context.Cause(ctx))
		}}, nil)),
	)
	if err != nil {
		panic(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	up := make(chan error, 1)
	go func() {
		ctx, cancel := locker.Context(context.Background())
		defer cancel()
		_, err := provider.Up(ctx)
		up <- err
	}()
	<-ended
	client.Close()
	if err := <-up; !errors.Is(err, leasehold.ErrClosed) {
		panic(err)
	}
}

// TestAProcessThatIsAskedToEndInTheMiddleOfMigrationsNeverLetsAnotherIn ends processes by SIGTERM, each while it migrates and another one
// waits. The migration is rolled back each time.
func TestAProcessThatIsAskedToEndInTheMiddleOfMigrationsNeverLetsAnotherIn(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t)
	waits := func() { awaitWaiter(t, server.URL) }
	file := filepath.Join(t.TempDir(), "db")
	servertest.TerminateWorkers(t, servertest.Rounds(5), server, waits, "GOOSE_TEST_FILE="+file)
}
