package k8s

import (
	"time"

	"leasehold.dev/go"
)

// Option sets something of a Lock.
type Option func(*options)

type options struct {
	session      *leasehold.Session
	hasLockDelay bool
	lockDelay    time.Duration
	events       func(string)
}

// WithSession holds the lock through this session, for example one with another TTL. Default: the client's own session.
func WithSession(session *leasehold.Session) Option {
	return func(o *options) { o.session = session }
}

// WithLockDelay sets the time for which nobody is elected after a term that ended uncleanly: 0 to the maximum TTL. Default: the session's
// TTL and the elector's LeaseDuration together. A shorter one hands the leadership over sooner after the death of a leader. The TTL alone
// is enough if all that the leader does stops at the loss (Leading, Context), and 0 if all of it is fenced.
func WithLockDelay(delay time.Duration) Option {
	return func(o *options) { o.hasLockDelay, o.lockDelay = true, delay }
}

// WithEvents sets a function that receives the elector's events, such as "host-1 became leader". Default: they are dropped.
func WithEvents(events func(event string)) Option {
	return func(o *options) { o.events = events }
}
