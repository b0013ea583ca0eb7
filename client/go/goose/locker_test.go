package leaseholdgoose_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"leasehold.dev/go"
	leaseholdgoose "leasehold.dev/go/goose"
	"leasehold.dev/go/internal/servertest"
)

const name = "billing/migrations"

// migrations has the second of two; the first is a function of each test.
var migrations = fstest.MapFS{"00002_second.sql": {Data: []byte("-- +goose Up\nCREATE TABLE second (id INTEGER);\n")}}

func TestMain(m *testing.M) {
	if servertest.WorkerEndpoint() != "" {
		beWorker()
		return
	}
	if role := os.Getenv("GOOSE_TEST_ROLE"); role != "" {
		beInstance(role, os.Getenv("GOOSE_TEST_ENDPOINT"), os.Getenv("GOOSE_TEST_FILE"))
		return
	}
	goleak.VerifyTestMain(m)
}

func connect(t *testing.T, url string) *leasehold.Client {
	t.Helper()
	client, err := leasehold.Connect(t.Context(), url, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// open opens a database file.
func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// newProvider returns a provider with two migrations: the first calls a function, the second makes the table "second".
func newProvider(t *testing.T, db *sql.DB, locker *leaseholdgoose.SessionLocker, first func(context.Context, *sql.Tx) error) *goose.Provider {
	t.Helper()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: first}, nil)),
	)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// hasTable reports whether the database has a table.
func hasTable(t *testing.T, db *sql.DB, table string) bool {
	t.Helper()
	var count int
	row := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", table)
	if err := row.Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count == 1
}

func TestOneOfSeveralInstancesMigrates(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	file := filepath.Join(t.TempDir(), "db")
	watcher := connect(t, url)
	const instances = 4
	var ran atomic.Int32
	var applied atomic.Int32
	var migrating sync.WaitGroup
	for range instances {
		locker := leaseholdgoose.NewSessionLocker(connect(t, url), name)
		db := open(t, file)
		provider := newProvider(t, db, locker, func(ctx context.Context, tx *sql.Tx) error {
			ran.Add(1)
			// All others have asked for the lock by then.
			servertest.Until(t, "the other instances", func() bool {
				view, err := watcher.Admin().GetLock(ctx, name)
				return err == nil && view.WaiterCount == instances-1
			})
			return nil
		})
		migrating.Go(func() {
			results, err := provider.Up(t.Context())
			if err != nil {
				t.Errorf("Up: %v", err)
			}
			applied.Add(int32(len(results)))
		})
	}
	migrating.Wait()
	if ran.Load() != 1 || applied.Load() != 2 {
		t.Fatalf("the first migration ran %d times, and %d were applied", ran.Load(), applied.Load())
	}
	view, err := watcher.Admin().GetLock(t.Context(), name)
	if err != nil || len(view.Holders) > 0 || view.IsClosed {
		t.Fatalf("the lock was not released: %v, %v", view, err)
	}
}

func TestALossEndsTheMigrations(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	db := open(t, filepath.Join(t.TempDir(), "db"))
	locker := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithLockDelay(0))
	ctx, cancel := locker.Context(t.Context())
	defer cancel()
	provider := newProvider(t, db, locker, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE first (id INTEGER)"); err != nil {
			return err
		}
		if _, err := client.Admin().ForceRelease(ctx, name); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if _, err := provider.Up(ctx); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("Up returned %v", err)
	}
	if hasTable(t, db, "first") || hasTable(t, db, "second") {
		t.Fatal("a migration was not rolled back, or another one began after the loss")
	}
	// The next attempt, with a new lock.
	again, cancelAgain := locker.Context(t.Context())
	defer cancelAgain()
	fixed := newProvider(t, db, locker, func(context.Context, *sql.Tx) error { return nil })
	if results, err := fixed.Up(again); err != nil || len(results) != 2 {
		t.Fatalf("Up returned %v, %v", results, err)
	}
}

func TestALossWithoutAContextBeginsNoOtherMigration(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	db := open(t, filepath.Join(t.TempDir(), "db"))
	locker := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithLockDelay(0))
	lost, cancel := locker.Context(t.Context())
	defer cancel()
	provider := newProvider(t, db, locker, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := client.Admin().ForceRelease(ctx, name); err != nil {
			return err
		}
		<-lost.Done()
		return nil
	})
	if _, err := provider.Up(t.Context()); !errors.Is(err, leasehold.ErrLost) {
		t.Fatalf("Up returned %v", err)
	}
	if hasTable(t, db, "second") {
		t.Fatal("a migration began after the loss")
	}
}

func TestSessionLockWaitsForTheLock(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	ctx := t.Context()
	client := connect(t, url)
	db := open(t, filepath.Join(t.TempDir(), "db"))
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hold, err := client.Lock(name).Try(ctx)
	if err != nil {
		t.Fatal(err)
	}
	impatient := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithWait(50*time.Millisecond))
	if err := impatient.SessionLock(ctx, conn); !errors.Is(err, leasehold.ErrTimedOut) {
		t.Fatalf("got %v", err)
	}
	if err := impatient.SessionUnlock(ctx, conn); err == nil {
		t.Fatal("a connection unlocked what it had not locked")
	}

	session, err := client.NewSession(ctx, leasehold.WithClientName("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	patient := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithSession(session))
	locked := make(chan error, 1)
	go func() { locked <- patient.SessionLock(ctx, conn) }()
	servertest.Until(t, "the waiter", func() bool {
		view, err := client.Admin().GetLock(ctx, name)
		return err == nil && view.WaiterCount == 1
	})
	if err := hold.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	view, err := client.Admin().GetLock(ctx, name)
	if err != nil || view.LockDelay != 10*time.Second || view.Holders[0].ClientName != "migrations" {
		t.Fatalf("got %v, %v", view, err)
	}
	if err := patient.SessionUnlock(ctx, conn); err != nil {
		t.Fatal(err)
	}
}

func TestClosingTheClientInTheMiddleOfMigrationsLetsNobodyElseIn(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	db := open(t, filepath.Join(t.TempDir(), "db"))
	var inside, twice atomic.Int32
	working := make(chan *leasehold.Client, 1)
	var all sync.WaitGroup
	start := func() {
		client := connect(t, url)
		locker := leaseholdgoose.NewSessionLocker(client, name)
		all.Go(func() {
			ctx, cancel := locker.Context(t.Context())
			defer cancel()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if err := locker.SessionLock(t.Context(), conn); err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) > 1 {
				twice.Add(1)
			}
			working <- client
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, leasehold.ErrClosed) {
				t.Errorf("the context ended with %v", err)
			}
			time.Sleep(5 * time.Millisecond)
			inside.Add(-1)
			if err := locker.SessionUnlock(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
	}
	start()
	for range servertest.Rounds(20) {
		start()
		client := <-working
		client.Close()
	}
	client := <-working
	client.Close()
	all.Wait()
	if twice.Load() > 0 {
		t.Errorf("two migrated at once %d times", twice.Load())
	}
}

func TestABusyInstanceIsSkipped(t *testing.T) {
	t.Parallel()
	url := servertest.Start(t).URL
	client := connect(t, url)
	if _, err := client.Lock(name).Try(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open(t, filepath.Join(t.TempDir(), "db"))
	locker := leaseholdgoose.NewSessionLocker(client, name, leaseholdgoose.WithWait(0))
	provider := newProvider(t, db, locker, func(context.Context, *sql.Tx) error { return errors.New("it migrated") })
	if _, err := provider.Up(t.Context()); !errors.Is(err, leasehold.ErrBusy) {
		t.Fatalf("Up returned %v", err)
	}
}
