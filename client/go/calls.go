package leasehold

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"

	"leasehold.dev/go/internal/clock"
)

// callTimeout limits one call.
const callTimeout = 10 * time.Second

// deadlineSlack is how long before the end of a context a status may say that its deadline has passed.
const deadlineSlack = 100 * time.Millisecond

// channel is what generated stubs make calls on.
type channel = grpc.ClientConnInterface

// calls are the calls of a client that need no session: single calls, and streams of events. All go to one coordinator, at one address,
// until that can't be reached or its connection breaks; then to another, as sessions do.
type calls struct {
	settings *settings

	mu    sync.Mutex
	route *route
	// chosen is the candidate in use; nil before the first call, and after the connection to one has failed.
	chosen   *candidate
	made     map[connKey]*sharedConn
	isClosed bool
}

// connKey names a connection: its candidate, whether streams of events use it, and the certificates that it was made with. A connection
// keeps these for as long as it lives.
type connKey struct {
	candidate    string
	isWatching   bool
	certificates uint64
}

// sharedConn is a connection that several calls use.
type sharedConn struct {
	*grpc.ClientConn
	to    candidate
	users int
	// isOld is set when another one takes its place: it is closed after its last use.
	isOld bool
}

func newCalls(settings *settings) *calls {
	return &calls{
		settings: settings,
		route:    newRoute(len(settings.endpoints), rand.Shuffle),
		made:     make(map[connKey]*sharedConn),
	}
}

// choose returns the candidate for a call: the one in use, or the first that this call has not tried. Returns nil if there is no other, with
// the failure if that is because none is known. Reports whether there may be more.
func (c *calls) choose(ctx context.Context, tried map[string]bool) (to *candidate, mayBeMore bool, err error) {
	c.mu.Lock()
	isClosed, chosen, isSeveral := c.isClosed, c.chosen, c.route.isSeveral
	c.mu.Unlock()
	if isClosed {
		return nil, false, ErrClosed
	}
	if chosen != nil && !tried[chosen.key()] {
		return chosen, isSeveral, nil
	}
	candidates, errs := c.settings.find(ctx)
	if len(candidates) == 0 {
		return nil, false, failureIn(mostTelling(errs))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, candidate := range c.route.round(candidates, clock.Now()) {
		switch {
		case tried[candidate.key()]:
		case to == nil:
			to = &candidate
			if c.chosen == nil {
				c.chosen = to
			}
		default:
			return to, true, nil
		}
	}
	return to, false, nil
}

// use returns the connection to a candidate, and what to call after its use.
func (c *calls) use(to candidate, isWatching bool) (on *sharedConn, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, nil, ErrClosed
	}
	key := connKey{to.key(), isWatching, c.settings.credentials.certificates()}
	for other, conn := range c.made {
		// One that failed pauses before its next attempt, for longer and longer. A call that comes now is to find out now.
		if other.certificates != key.certificates || other == key && conn.GetState() == connectivity.TransientFailure {
			c.forget(other)
		}
	}
	if c.made[key] == nil {
		made, err := grpc.NewClient("passthrough:///"+to.address, c.options(to.endpoint, isWatching)...)
		if err != nil {
			return nil, nil, &ConnectError{Endpoint: to.endpoint.url, Cause: err}
		}
		c.made[key] = &sharedConn{ClientConn: made, to: to}
	}
	on = c.made[key]
	on.users++
	return on, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		on.users--
		on.closeIfUnused()
	}, nil
}

// forget makes no more calls on a connection. The mutex is taken.
func (c *calls) forget(key connKey) {
	conn := c.made[key]
	delete(c.made, key)
	conn.isOld = true
	conn.closeIfUnused()
}

func (c *calls) options(e endpoint, isWatching bool) []grpc.DialOption {
	options := c.settings.connOptions(e)
	if !isWatching {
		return options
	}
	return append(options,
		grpc.WithInitialWindowSize(unread),
		grpc.WithInitialConnWindowSize(unreadTogether),
		// Probed while there are streams, because no message comes for as long as nothing happens.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive}),
	)
}

func (s *sharedConn) closeIfUnused() {
	if s.isOld && s.users == 0 {
		s.Close()
	}
}

// failed sends later calls to another coordinator, because the connection to this one failed, or it goes away.
func (c *calls) failed(on *sharedConn, failure *Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.route.failed(on.to, clock.Now())
	for key, conn := range c.made {
		if conn == on {
			c.forget(key)
		}
	}
	if c.chosen != nil && c.chosen.key() == on.to.key() {
		c.chosen = nil
		c.settings.log.Debug("calls go to another coordinator, if there is one", "error", failure)
	}
}

// close ends all calls.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	for _, conn := range c.made {
		conn.Close()
	}
	clear(c.made)
}

// outgoing returns the context of a call, with the token and what the program's hook adds.
func (c *calls) outgoing(ctx context.Context) context.Context {
	return c.settings.credentials.authorize(c.settings.propagated(ctx))
}

// repeats is the rule for repeating a call at the next coordinator.
type repeats int

const (
	// repeatsFreely: the call changes nothing.
	repeatsFreely repeats = iota
	// repeatsUnsent: the call may be repeated only if it was not carried out.
	repeatsUnsent
)

// call makes a call within its time limit: at each address of each coordinator, one after the other, as long as the connection to one fails.
func call[T any](ctx context.Context, c *calls, rule repeats, ask func(context.Context, channel) (T, error)) (answer T, err error) {
	return callFor(ctx, c, rule, 0, ask)
}

// callFor makes a call to which a coordinator may answer only after a wait, for which the time limit is longer.
func callFor[T any](ctx context.Context, c *calls, rule repeats, wait time.Duration, ask func(context.Context, channel) (T, error)) (answer T, err error) {
	if err := checkContext(ctx); err != nil {
		return answer, err
	}
	waitsUntil := time.Now().Add(wait)
	limited, cancel := context.WithDeadline(ctx, waitsUntil.Add(callTimeout))
	defer cancel()
	tried := make(map[string]bool)
	for {
		to, mayBeMore, failure := c.choose(limited, tried)
		if failure != nil && err == nil {
			err = failure
		}
		if cause := context.Cause(ctx); cause != nil {
			return answer, cause
		}
		if to == nil {
			return answer, err
		}
		tried[to.key()] = true
		mayRepeat := false
		if answer, mayRepeat, err = callOnce(ctx, limited, c, *to, mayBeMore, rule, waitsUntil, ask); err == nil {
			return answer, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return answer, cause
		}
		if !mayRepeat || limited.Err() != nil {
			return answer, err
		}
	}
}

// callOnce makes a call at one address, in what is left of its limit. Reports whether it may be made at another one.
func callOnce[T any](ctx, limited context.Context, c *calls, to candidate, mayBeMore bool, rule repeats, waitsUntil time.Time,
	ask func(context.Context, channel) (T, error),
) (answer T, mayRepeat bool, err error) {
	on, done, err := c.use(to, false)
	if err != nil {
		return answer, false, err
	}
	defer done()
	// What does not answer must leave time for the others.
	share, connecting := limited, limited
	if deadline, isSet := limited.Deadline(); mayBeMore && isSet {
		wait := max(0, min(time.Until(waitsUntil), time.Until(deadline)))
		half := (time.Until(deadline) - wait) / 2
		var stop context.CancelFunc
		share, stop = context.WithTimeout(limited, wait+half)
		defer stop()
		connecting, stop = context.WithTimeout(limited, half)
		defer stop()
	}
	failed := ready(connecting, on.ClientConn, to)
	if failed == nil {
		if rule == repeatsUnsent {
			share = limited
		}
		if answer, err = ask(c.outgoing(share), on); err == nil {
			return answer, false, nil
		}
		failed = failureFrom(to.endpoint.url, err)
	}
	goesOn := failed.transport || failed.isDraining()
	if goesOn && !isCallers(ctx, failed) {
		c.failed(on, failed)
	}
	return answer, goesOn && (rule == repeatsFreely || failed.unsent || failed.isDraining()), failed
}

// isCallers reports whether a call or a stream failed because the caller's context ended, so that the failure says nothing about the
// coordinator. gRPC compares the deadline with the clock itself, a moment before the context's timer fires: isCallers then waits for it,
// since only a context that has ended has a cause.
func isCallers(ctx context.Context, failed *Failure) bool {
	deadline, isSet := ctx.Deadline()
	if isSet && failed.transport && failed.Code == codes.DeadlineExceeded && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// feed reads a stream of events that outlives its connections and the coordinators that serve it: it is opened again whenever it ends. It
// calls heard with each message and broken after each break, and ends with nil when one of them reports false; with the cause when the
// context ends; and with the failure when a coordinator refuses the stream for good.
func feed[M any](ctx context.Context, c *calls, open func(context.Context, channel) (grpc.ServerStreamingClient[M], error),
	heard func(*M) bool, broken func(*Failure) bool,
) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	pauses := newPauses(c.settings.backoffMin, c.settings.backoffMax)
	for {
		failure, wasHeard, err := feedOnce(ctx, c, pauses, open, heard)
		if err != nil || failure == nil {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		// A client that received messages was known, and may be again with a token that was replaced meanwhile.
		mayBeKnown := failure.isUnauthenticated() && wasHeard
		if isPermanent(failure) && !mayBeKnown {
			return failure
		}
		c.settings.log.Debug("a stream of events broke", "error", failure)
		if !broken(failure) {
			return nil
		}
		if !sleep(ctx, pauses.pauseAsAsked(clock.Now(), failure.RetryAfter), nil) {
			return context.Cause(ctx)
		}
	}
}

// feedOnce reads one stream. Returns why it ended; nil if heard ended it.
func feedOnce[M any](ctx context.Context, c *calls, pauses *pauses, open func(context.Context, channel) (grpc.ServerStreamingClient[M], error),
	heard func(*M) bool,
) (failed *Failure, wasHeard bool, err error) {
	limited, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	to, _, err := c.choose(limited, nil)
	if errors.As(err, &failed) {
		return failed, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	on, done, err := c.use(*to, true)
	if err != nil {
		return nil, false, err
	}
	defer done()
	url := to.endpoint.url
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	failed = ready(limited, on.ClientConn, *to)
	if failed == nil {
		stream, err := open(c.outgoing(streaming), on)
		for err == nil {
			var message *M
			if message, err = stream.Recv(); err != nil {
				break
			}
			if !wasHeard {
				pauses.opened(clock.Now())
			}
			wasHeard = true
			if !heard(message) {
				return nil, true, nil
			}
		}
		failed = failureFrom(url, err)
		failed.transport = failed.transport || errors.Is(err, io.EOF)
	}
	if !isCallers(ctx, failed) {
		// Another coordinator may serve this stream too.
		c.failed(on, failed)
	}
	return failed, wasHeard, nil
}

// isPermanent reports whether asking again would be answered in the same way. What a broken transport says is none of these, and neither
// is anything that a coordinator says while it, or its store, is in trouble.
func isPermanent(failure *Failure) bool {
	if failure.transport {
		return failure.distrust
	}
	switch failure.Code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	default:
		return false
	}
}
