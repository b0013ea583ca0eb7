package leasehold

import (
	"context"
	"strings"
	"sync"
)

// Version is the version of this library, in step with that of the coordinator.
const Version = "0.1.0"

// Client reaches the coordinators of one service. It has one session, made on first use and shared by everything that is asked of the
// client itself, and as many more as NewSession makes. All methods may be called from any number of goroutines. Make one for a program.
type Client struct {
	entry

	mu sync.Mutex
	// shared is the client's own session; nil before its first use.
	shared   *Session
	sessions map[*Session]struct{}
	isClosed bool
}

// New makes a client of the coordinators at these URLs, separated by commas. A name may stand for several coordinators: each address that
// it resolves to is one. A URL without a scheme is an http URL, and the port is 7420 unless it names one.
//
// New connects to nothing: the client's session is made in the background when it is first used, and again whenever it ends. Fails only
// if the URLs or the options can't be used, with a ConnectError that is ErrInvalid.
func New(endpoints string, opts ...Option) (*Client, error) {
	settings, err := newSettings(endpoints, newOptions(opts))
	if err != nil {
		return nil, err
	}
	c := &Client{sessions: make(map[*Session]struct{})}
	c.entry = entry{session: c.own, calls: newCalls(settings)}
	return c, nil
}

// Connect makes a client as New does, and opens its session. Fails with a ConnectError if no coordinator opens it: each is attempted
// once.
func Connect(ctx context.Context, endpoints string, opts ...Option) (*Client, error) {
	if err := checkContext(ctx); err != nil {
		return nil, &ConnectError{Endpoint: endpoints, Cause: err}
	}
	c, err := New(endpoints, opts...)
	if err != nil {
		return nil, err
	}
	if c.shared, err = c.NewSession(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// own returns the client's own session.
func (c *Client) own() (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, ErrClosed
	}
	if c.shared == nil || c.shared.hasEnded() {
		delete(c.sessions, c.shared)
		c.shared = newSession(c.calls, c.calls.settings.session, false)
		c.sessions[c.shared] = struct{}{}
	}
	return c.shared, nil
}

// Session returns the client's own session, which it makes if it was not used before; nil once the client is closed.
func (c *Client) Session() *Session {
	session, _ := c.own()
	return session
}

// NewSession opens a further session, on a connection of its own, with the client's options and these. Fails with a ConnectError if no
// coordinator opens it: each is attempted once. A session that has been open is made anew by itself. Close it when it is not needed any
// more.
func (c *Client) NewSession(ctx context.Context, opts ...SessionOption) (*Session, error) {
	all := c.calls.settings.session
	for _, o := range opts {
		o.applySession(&all)
	}
	if failure := all.check(); failure != nil {
		return nil, &ConnectError{Cause: failure}
	}
	if err := checkContext(ctx); err != nil {
		return nil, &ConnectError{Cause: err}
	}
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	session := newSession(c.calls, all, true)
	for other := range c.sessions {
		if other.hasEnded() {
			delete(c.sessions, other)
		}
	}
	c.sessions[session] = struct{}{}
	c.mu.Unlock()
	if err := session.waitUntilOpen(ctx); err != nil {
		session.Close()
		return nil, err
	}
	return session, nil
}

// Admin returns what looks at locks and sessions, and intervenes.
func (c *Client) Admin() *Admin {
	return &Admin{c.calls}
}

// Close closes all sessions, as Session.Close does: it tells work to stop and waits for it, at most for the time of WithCloseTimeout. Then
// it closes all connections. The client can't be used after that. Closing it again waits for the same. Call it when the process is asked
// to end.
func (c *Client) Close() {
	here := goroutine()
	c.close(func(session *Session) { session.closeInTime(here) })
}

// Shutdown does what Close does, and waits for work until the context ends; see Session.Shutdown.
func (c *Client) Shutdown(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	here := goroutine()
	var mu sync.Mutex
	var left []string
	c.close(func(session *Session) {
		running := session.close(ctx, here)
		mu.Lock()
		defer mu.Unlock()
		left = append(left, running...)
	})
	return stillRunning(ctx, left)
}

func (c *Client) hasClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isClosed
}

func (c *Client) close(end func(*Session)) {
	c.mu.Lock()
	c.isClosed = true
	c.mu.Unlock()
	var closing sync.WaitGroup
	for session := range c.sessions {
		closing.Go(func() { end(session) })
	}
	closing.Wait()
	c.calls.close()
}

// String returns the coordinators' URLs.
func (c *Client) String() string {
	return "client of " + strings.Join(each(c.calls.settings.endpoints, func(e endpoint) string { return e.url }), ",")
}

// GoString returns what String does.
func (c *Client) GoString() string { return c.String() }
