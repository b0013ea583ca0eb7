package leasehold

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
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

// calls are the calls of a client that need no session: single calls, and streams of events. All go to one coordinator, until that can't
// be reached or its connection breaks; then to the next.
type calls struct {
	settings *settings

	mu sync.Mutex
	// moved is the number of times that the calls have moved on; modulo the number of endpoints, the one in use.
	moved    int
	made     map[connKey]*sharedConn
	isClosed bool
}

// connKey names a connection: its endpoint, whether streams of events use it, and the certificates that it was made with. A connection
// keeps these for as long as it lives.
type connKey struct {
	endpoint     int
	isWatching   bool
	certificates uint64
}

// sharedConn is a connection that several calls use.
type sharedConn struct {
	*grpc.ClientConn
	users int
	// isOld is set when another one takes its place: it is closed after its last use.
	isOld bool
}

func newCalls(settings *settings) *calls {
	// Each client begins at a random one, so that many clients spread over all coordinators.
	return &calls{settings: settings, moved: rand.IntN(len(settings.endpoints)), made: make(map[connKey]*sharedConn)}
}

// use returns the connection to the coordinator in use, for moveOn how often the calls had moved on, and what to call after its use.
func (c *calls) use(isWatching bool) (on *sharedConn, url string, moved int, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, "", 0, nil, ErrClosed
	}
	key := connKey{c.moved % len(c.settings.endpoints), isWatching, c.settings.credentials.certificates()}
	for other, conn := range c.made {
		if other.certificates != key.certificates {
			delete(c.made, other)
			conn.isOld = true
			conn.closeIfUnused()
		}
	}
	if former := c.made[key]; former != nil && former.GetState() == connectivity.TransientFailure {
		// It pauses before its next attempt, for longer and longer. A call that comes now is to find out now.
		delete(c.made, key)
		former.isOld = true
		former.closeIfUnused()
	}
	e := c.settings.endpoints[key.endpoint]
	if c.made[key] == nil {
		made, err := grpc.NewClient("dns:///"+net.JoinHostPort(e.host, e.port), c.options(e, isWatching)...)
		if err != nil {
			return nil, "", 0, nil, &ConnectError{Endpoint: e.url, Cause: err}
		}
		c.made[key] = &sharedConn{ClientConn: made}
	}
	on = c.made[key]
	on.users++
	return on, e.url, c.moved, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		on.users--
		on.closeIfUnused()
	}, nil
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

// moveOn sends later calls to the next coordinator, because the connection of one failed that began when they had moved on so often.
func (c *calls) moveOn(moved int, failure *Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Another call may have moved them on already.
	if c.moved == moved && len(c.settings.endpoints) > 1 {
		c.moved++
		c.settings.log.Debug("calls go to the next coordinator", "error", failure)
	}
}

// close ends all calls.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	for key, conn := range c.made {
		delete(c.made, key)
		conn.Close()
	}
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

// call makes a call, at the next coordinator if the connection to one fails.
func call[T any](ctx context.Context, c *calls, rule repeats, ask func(context.Context, channel) (T, error)) (answer T, err error) {
	for left := len(c.settings.endpoints); ; left-- {
		var failure *Failure
		answer, failure, err = callOnce(ctx, c, ask)
		if failure == nil {
			return answer, err
		}
		if cause := context.Cause(ctx); cause != nil {
			return answer, cause
		}
		mayRepeat := rule == repeatsFreely || failure.unsent || failure.isDraining()
		if left <= 1 || !mayRepeat || !failure.transport && !failure.isDraining() {
			return answer, failure
		}
	}
}

func callOnce[T any](ctx context.Context, c *calls, ask func(context.Context, channel) (T, error)) (answer T, failed *Failure, err error) {
	on, url, moved, done, err := c.use(false)
	if err != nil {
		return answer, nil, err
	}
	defer done()
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	failed = ready(limited, on.ClientConn, url)
	if failed == nil {
		if answer, err = ask(c.outgoing(limited), on); err == nil {
			return answer, nil, nil
		}
		failed = failureFrom(url, err)
	}
	if !isCallers(ctx, failed) && (failed.transport || failed.isDraining()) {
		c.moveOn(moved, failed)
	}
	return answer, failed, nil
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
		if !sleep(ctx, pauses.pauseAsAsked(clock.Now(), failure.RetryAfter)) {
			return context.Cause(ctx)
		}
	}
}

// feedOnce reads one stream. Returns why it ended; nil if heard ended it.
func feedOnce[M any](ctx context.Context, c *calls, pauses *pauses, open func(context.Context, channel) (grpc.ServerStreamingClient[M], error),
	heard func(*M) bool,
) (failed *Failure, wasHeard bool, err error) {
	on, url, moved, done, err := c.use(true)
	if err != nil {
		return nil, false, err
	}
	defer done()
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	limited, stop := context.WithTimeout(streaming, callTimeout)
	failed = ready(limited, on.ClientConn, url)
	stop()
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
		c.moveOn(moved, failed)
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
