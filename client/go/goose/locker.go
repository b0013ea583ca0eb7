// Package leaseholdgoose has a session locker for goose, so that several instances of a program may migrate a database when they start,
// and one does. It works with every database, since the lock is not in the database.
//
//	locker := leaseholdgoose.NewSessionLocker(client, "billing/migrations")
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations, goose.WithSessionLocker(locker))
//	…
//	ctx, cancel := locker.Context(ctx)
//	defer cancel()
//	results, err := provider.Up(ctx)
//
// If the lock is lost while migrations run, Up fails with leasehold.ErrLost, and no further migration begins. With Context, the one that
// runs is interrupted too, and rolled back if it is in a transaction.
package leaseholdgoose

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pressly/goose/v3/lock"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/endings"
)

var _ lock.SessionLocker = (*SessionLocker)(nil)

// Option sets something of a SessionLocker.
type Option func(*SessionLocker)

// WithWait sets the time to wait for the lock: at most 24 h. SessionLock then fails with leasehold.ErrTimedOut. With 0 it does not wait, and
// fails with leasehold.ErrBusy if another instance migrates. Default: 5 minutes, as for goose's own locker.
func WithWait(wait time.Duration) Option {
	return func(l *SessionLocker) { l.wait = wait }
}

// WithLockDelay sets the time for which nobody migrates after an instance that lost the lock or died while it migrated, so that the
// database can end what is under way: 0 to the maximum TTL. Default: 10 s.
func WithLockDelay(delay time.Duration) Option {
	return func(l *SessionLocker) { l.delay = delay }
}

// WithSession holds the lock through this session. Default: the client's own session.
func WithSession(session *leasehold.Session) Option {
	return func(l *SessionLocker) { l.request = session.Lock }
}

// SessionLocker is a lock.SessionLocker of goose. It may be used by several providers at once. All methods may be called from any number of
// goroutines.
type SessionLocker struct {
	request func(name string) leasehold.Request
	name    string
	wait    time.Duration
	delay   time.Duration

	mu sync.Mutex
	// holds are the locks of the connections.
	holds map[*sql.Conn]held
	// contexts are those of Context.
	contexts endings.Contexts
}

// held is the lock of a connection. done ends its work, for which closing the client waits.
type held struct {
	hold *leasehold.Hold
	done func()
}

// NewSessionLocker makes a locker with the lock of this name: 1 to 512 bytes of UTF-8 without control characters. Use one name for all that
// migrates one database.
func NewSessionLocker(client *leasehold.Client, name string, opts ...Option) *SessionLocker {
	l := &SessionLocker{
		request: client.Lock,
		name:    name,
		wait:    5 * time.Minute,
		delay:   10 * time.Second,
		holds:   make(map[*sql.Conn]held),
	}
	for _, o := range opts {
		o(l)
	}
	return l
}

// SessionLock waits for the lock, in the order in which instances asked. If the lock is lost before SessionUnlock, the connection is
// closed as soon as its statement or transaction has ended, so that goose can begin nothing more on it.
func (l *SessionLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	hold, err := l.request(l.name).Wait(l.wait).LockDelay(l.delay).Acquire(ctx)
	if err != nil {
		return err
	}
	working, done := hold.Work(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[conn] = held{hold, done}
	context.AfterFunc(working, func() {
		if errors.Is(context.Cause(working), leasehold.ErrClosed) {
			l.contexts.End(leasehold.ErrClosed)
		}
	})
	untilLoss, forget := hold.Context(context.Background())
	context.AfterFunc(untilLoss, func() {
		if errors.Is(context.Cause(untilLoss), leasehold.ErrLost) {
			// Once Close has begun, the connection begins nothing more, but Close waits for what is under way. Of two calls,
			// the later one returns at once: whoever hears of the loss by a context finds the connection closing.
			closing := make(chan error, 2)
			for range 2 {
				go func() { closing <- conn.Close() }()
			}
			<-closing
			l.contexts.End(leasehold.ErrLost)
		}
		forget()
	})
	return nil
}

// SessionUnlock releases the lock. Returns a leasehold.LostError if it was lost: then another instance may have migrated at the same time.
func (l *SessionLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	l.mu.Lock()
	locked, isLocked := l.holds[conn]
	delete(l.holds, conn)
	l.mu.Unlock()
	if !isLocked {
		return fmt.Errorf("leaseholdgoose: this connection does not hold the lock %q", l.name)
	}
	defer locked.done()
	err := locked.hold.Release(ctx)
	if errors.Is(err, leasehold.ErrUnconfirmed) {
		// The migrations ran under the lock, which ends with its lease at the latest.
		return nil
	}
	return err
}

// Context returns a context that is cancelled when the lock is lost, with the cause ErrLost, and when the client is closed, with the cause
// ErrClosed: closing waits for the migrations to end. Pass it to the methods of a provider. Call cancel to free what it takes.
func (l *SessionLocker) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	return l.contexts.Context(parent)
}
