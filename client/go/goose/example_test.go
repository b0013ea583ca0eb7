package leaseholdgoose_test

import (
	"context"
	"database/sql"
	"io/fs"
	"log"
	"testing"

	"github.com/pressly/goose/v3"

	"leasehold.dev/go"
	leaseholdgoose "leasehold.dev/go/goose"
	"leasehold.dev/go/internal/servertest"
)

func ExampleNewSessionLocker() {
	var (
		ctx        = context.Background()
		client     *leasehold.Client
		db         *sql.DB
		migrations fs.FS
	)
	locker := leaseholdgoose.NewSessionLocker(client, "billing/migrations")
	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := locker.Context(ctx)
	defer cancel()
	results, err := provider.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("applied %d migrations", len(results))
}

func TestTheReadmeIsWhatTheExamplesDo(t *testing.T) {
	servertest.Excerpts(t, "README.md", "example_test.go")
}
