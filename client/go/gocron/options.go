// Package leaseholdgocron has an elector and a locker for schedulers of gocron v2, so that a job runs once although several instances of
// a program schedule it.
//
// Use the Elector unless you need jobs spread over the instances: one instance runs all jobs, and the others take over when it ends.
//
//	elector := leaseholdgocron.NewElector(client, "billing/scheduler")
//	defer elector.Close()
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// The Locker takes a lock for each run of each job, so that any instance may run it:
//
//	locker := leaseholdgocron.NewLocker(client, "billing/jobs/")
//	defer locker.Close()
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// Close the elector or locker after the scheduler has been shut down, and before the client is closed. If the client is closed first, it
// waits for runs that hold a lock, and for tasks of Elector.Leading.
//
// Both run a slot at most once if the clocks and timers of the instances differ by less than the splay (WithSplay). Slots that come while
// no instance leads, or after the one that took the lock has died, are not made up for.
package leaseholdgocron

import (
	"cmp"
	"log/slog"
	"time"

	"leasehold.dev/go"
)

// Option sets something of an Elector or a Locker.
type Option func(*options)

type options struct {
	// on is the client or the session that holds the locks.
	on interface {
		Lock(name string) leasehold.Request
		Election(name string) leasehold.Election
	}
	splay time.Duration
	value []byte
	log   *slog.Logger
}

func newOptions(client *leasehold.Client, opts []Option) options {
	o := options{on: client, splay: 500 * time.Millisecond}
	for _, set := range opts {
		set(&o)
	}
	o.log = cmp.Or(o.log, slog.Default())
	return o
}

// WithSession holds the locks through this session. Default: the client's own session.
func WithSession(session *leasehold.Session) Option {
	return func(o *options) {
		if session != nil {
			o.on = session
		}
	}
}

// WithSplay sets the most by which the same slot may begin later at one instance than at another, because clocks differ or timers are
// late: 0 to the maximum TTL. A run's lock is kept for this long after it was taken, and a leadership for this long after the last job that
// it allowed, also if the process dies. It must be shorter than the time between two slots of a job. With a negative one no job runs:
// every attempt fails with leasehold.ErrInvalid. Default: 500 ms.
func WithSplay(splay time.Duration) Option {
	return func(o *options) { o.splay = splay }
}

// WithValue sets what observers see of the instance that leads or runs a job, for example its address: at most 4 KiB. Default: empty.
func WithValue(value []byte) Option {
	return func(o *options) { o.value = value }
}

// WithLogger sets where an Elector logs that it can't campaign. Default, also for nil: slog.Default.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) { o.log = log }
}
