package leasehold

import (
	"context"
	"time"

	"google.golang.org/grpc"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// conn is one connection of a session, with one lease stream on it. One goroutine sends, one receives.
type conn struct {
	session   *Session
	candidate candidate
	// credentials is the version of those that it was made with, or an earlier one.
	credentials uint64
	// number is the machine's number of the stream; 0 while the machine does not know it. The session's mutex guards it.
	number uint64
	// isStarted is set when there is a stream, and what is queued is sent from then on. The session's mutex guards it.
	isStarted bool
	// isLeaving is set when the session is open elsewhere. The session's mutex guards it.
	isLeaving bool

	out    *outbound
	grpc   *grpc.ClientConn
	stream grpc.BidiStreamingClient[leaseholdv1.SessionRequest, leaseholdv1.SessionResponse]
	ctx    context.Context
	// cut ends the stream. The receiver then closes the connection.
	cut context.CancelFunc
	// decided receives whether the session opened on it: nil, or the reason why not.
	decided chan *ConnectError
}

func newConn(s *Session, to candidate, credentials uint64, on *grpc.ClientConn) *conn {
	// Not the session's context: a stream that is left outlives it by the time of its goodbye.
	ctx, cut := context.WithCancel(s.settings.credentials.authorize(context.Background()))
	out := newOutbound()
	context.AfterFunc(ctx, out.end)
	return &conn{
		session:     s,
		candidate:   to,
		credentials: credentials,
		out:         out,
		grpc:        on,
		ctx:         ctx,
		cut:         cut,
		decided:     make(chan *ConnectError, 1),
	}
}

// start asks for the stream. With a limit it also waits until the coordinator serves it.
func (c *conn) start(limit time.Duration) *ConnectError {
	if limit > 0 {
		defer time.AfterFunc(limit, c.cut).Stop()
	}
	url := c.candidate.endpoint.url
	stream, err := leaseholdv1.NewLockServiceClient(c.grpc).Session(c.ctx)
	if err != nil {
		return connectFailed(url, failureFrom(url, err))
	}
	c.stream = stream
	if limit == 0 {
		return nil
	}
	header, err := stream.Header()
	if err == nil && header == nil {
		// The stream ended before its head; its status says why.
		_, err = stream.Recv()
	}
	switch {
	case c.ctx.Err() != nil:
		return &ConnectError{Endpoint: url, kind: connectTimedOut, after: limit}
	case err != nil:
		return connectFailed(url, failureFrom(url, err))
	default:
		return nil
	}
}

// decide says whether the session opened on it. Only the first word counts.
func (c *conn) decide(err *ConnectError) {
	select {
	case c.decided <- err:
	default:
	}
}

// send sends what is queued until the stream ends.
func (c *conn) send() {
	defer c.session.goroutines.Done()
	for {
		request := c.out.next()
		if request == nil || c.stream.Send(request) != nil {
			// The receiver learns why.
			return
		}
	}
}

// receive hands on what comes until the stream ends, and closes the connection.
func (c *conn) receive() {
	defer c.session.goroutines.Done()
	for {
		message, err := c.stream.Recv()
		if err != nil {
			c.session.streamEnded(c, err)
			c.cut()
			c.grpc.Close()
			return
		}
		c.session.received(c, message)
	}
}

// leave lets it say goodbye for a while.
func (c *conn) leave() {
	c.isLeaving = true
	timer := time.AfterFunc(closeTimeout, c.cut)
	context.AfterFunc(c.ctx, func() { timer.Stop() })
}
