package leasehold

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"time"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Option sets something of a client.
type Option interface {
	apply(*options)
}

// SessionOption sets something of a session. As an option of a client, it is the default for all its sessions.
type SessionOption interface {
	Option
	applySession(*sessionOptions)
}

// options are what the program set.
type options struct {
	session        sessionOptions
	given          credentialOptions
	connectTimeout time.Duration
	backoffMin     time.Duration
	backoffMax     time.Duration
	// wait is that of requests that set none; 0 for as long as it takes.
	wait      time.Duration
	log       *slog.Logger
	propagate func(context.Context, map[string]string)
}

// sessionOptions are what the program set for sessions.
type sessionOptions struct {
	clientName string
	ttl        time.Duration
	grace      time.Duration
	metadata   map[string]string
	// closeTimeout is how long a close waits for work.
	closeTimeout time.Duration
}

// open returns the message that opens a session.
func (o *sessionOptions) open() *leaseholdv1.SessionOpen {
	return &leaseholdv1.SessionOpen{
		ClientName: o.clientName, Metadata: o.metadata, Ttl: optionalDuration(o.ttl), DisconnectGrace: optionalDuration(o.grace),
	}
}

type option func(*options)

func (o option) apply(all *options) { o(all) }

type sessionOption func(*sessionOptions)

func (o sessionOption) apply(all *options) { o(&all.session) }

func (o sessionOption) applySession(all *sessionOptions) { o(all) }

// WithClientName sets the name that operators see: at most 256 bytes without control characters. Default: the program, host and process,
// such as billing@web-1/4711.
func WithClientName(name string) SessionOption {
	return sessionOption(func(o *sessionOptions) { o.clientName = name })
}

// WithTTL sets the time for which a lock outlives the loss of contact: 1 s to 1 h unless the coordinator is configured otherwise. A
// shorter TTL frees the locks of a dead machine sooner; a longer one survives longer interruptions. Default, also for 0: the
// coordinator's, 10 s.
func WithTTL(ttl time.Duration) SessionOption {
	return sessionOption(func(o *sessionOptions) { o.ttl = ttl })
}

// WithGrace sets the time for which locks are kept when their stream breaks, so that the session can resume them on another one: 0 to
// the TTL. Default: 0.
//
// Without a grace a lock is lost at the moment at which its stream breaks, and the coordinator hands it on as soon as it notices. With
// a grace, the lock is suspended: not held, but nobody else can have it, until the session has resumed it, here or at another
// coordinator, or the grace or the lock's validity has passed. The price is that the locks of a process that has died stay taken for
// as long.
//
// A coordinator that goes away on purpose, or that falls silent, needs no grace: the session moves to another one before the stream
// breaks, and its locks are held throughout.
func WithGrace(grace time.Duration) SessionOption {
	return sessionOption(func(o *sessionOptions) { o.grace = grace })
}

// WithSessionMetadata adds free text that operators see in the list of sessions: at most 16 entries, keys of 1 to 64 bytes, values of
// at most 256. Default: none.
func WithSessionMetadata(key, value string) SessionOption {
	return sessionOption(func(o *sessionOptions) {
		all := map[string]string{}
		maps.Copy(all, o.metadata)
		all[key] = value
		o.metadata = all
	})
}

// WithCloseTimeout sets how long closing waits for work that runs under locks (Request.Do, Election.Run) and was told to stop: 0 does not
// wait. Default: 10 s.
func WithCloseTimeout(timeout time.Duration) SessionOption {
	return sessionOption(func(o *sessionOptions) { o.closeTimeout = timeout })
}

// WithWait sets the time to wait of each request for locks that sets none (Request.Wait): at most 24 h. Elections are not bounded by it.
// Default, also for 0: as long as it takes.
func WithWait(wait time.Duration) Option {
	return option(func(o *options) { o.wait = wait })
}

// WithConnectTimeout sets how long an attempt to connect may take, and as long again until the session is open; less if a hold would
// run out meanwhile. Default: 5 s.
func WithConnectTimeout(timeout time.Duration) Option {
	return option(func(o *options) { o.connectTimeout = timeout })
}

// WithBackoff sets the pauses between attempts to reconnect, after each round of all coordinators: from about least, doubling, with
// random parts, to at most most. Default: 50 ms to 2 s.
func WithBackoff(least, most time.Duration) Option {
	return option(func(o *options) { o.backoffMin, o.backoffMax = least, most })
}

// WithCA sets a PEM file with the certificates of the CAs that the client trusts, for https endpoints. The client reads a changed file
// again for each new connection. Default: the CAs that the system trusts. All endpoints must be https.
func WithCA(file string) Option {
	return option(func(o *options) { o.given.ca = file })
}

// WithCertificate sets PEM files with the certificate that the client shows to coordinators (with any intermediate certificates), and
// its private key, for https endpoints. The client reads changed files again: new connections use the new certificate, and sessions
// move to such a connection, with all that they hold. Default: none. All endpoints must be https.
func WithCertificate(certFile, keyFile string) Option {
	return option(func(o *options) { o.given.cert, o.given.key = certFile, keyFile })
}

// WithServerName sets the name or address that must be in the coordinators' certificates, if it differs from that of their URLs.
// Default: the host of the endpoint, at whatever address. All endpoints must be https.
func WithServerName(name string) Option {
	return option(func(o *options) { o.given.serverName = name })
}

// WithToken sets the bearer token that the client shows with every call and session. Over http the client sends it to this machine
// only, unless WithPlaintextToken allows more. Default: none.
func WithToken(token string) Option {
	return option(func(o *options) { o.given.token = token })
}

// WithTokenFile sets a file with the bearer token in its only line, in place of WithToken. The client reads a changed file again, so
// that a token can be replaced before it expires: calls use the new one, and sessions move to a connection that does, with all that
// they hold. If the file can't be read then, the last token stays in use.
func WithTokenFile(file string) Option {
	return option(func(o *options) { o.given.tokenFile = file })
}

// WithPlaintextToken sends the bearer token over http to other machines too, where anybody on the way can read and use it. Only for
// networks that encrypt by other means, such as a mesh.
func WithPlaintextToken() Option {
	return option(func(o *options) { o.given.allowPlaintext = true })
}

// WithLogger sets where the client logs. Default: slog.Default.
func WithLogger(log *slog.Logger) Option {
	return option(func(o *options) { o.log = log })
}

// WithPropagation sets a hook that adds the trace context of the caller's context to a request. It is called in the caller's goroutine,
// so it must be quick. Requests on a session take traceparent from it; single calls send everything as metadata that can be sent as a
// header. With OpenTelemetry:
//
//	leasehold.WithPropagation(func(ctx context.Context, carrier map[string]string) {
//		otel.GetTextMapPropagator().Inject(ctx, propagation.MapCarrier(carrier))
//	})
func WithPropagation(inject func(ctx context.Context, carrier map[string]string)) Option {
	return option(func(o *options) { o.propagate = inject })
}

// settings are what all sessions and calls of a client share.
type settings struct {
	options
	endpoints   []endpoint
	credentials *clientCredentials
	// lookup returns the addresses of a host: as the system knows them, or a test.
	lookup func(ctx context.Context, host string) ([]string, error)
}

func newSettings(endpoints string, all options) (*settings, error) {
	parsed, err := parseEndpoints(endpoints)
	if err != nil {
		return nil, err
	}
	switch {
	case all.connectTimeout <= 0 || all.backoffMin <= 0 || all.backoffMax <= 0:
		return nil, invalidSetting("time-outs and pauses must be positive")
	case all.wait < 0 || all.wait > longestWait:
		return nil, invalidSetting(fmt.Sprintf("WithWait must be 0 to 24 h, got %v", all.wait))
	case all.backoffMin > all.backoffMax:
		return nil, invalidSetting("the least pause is greater than the longest")
	}
	if failure := all.session.check(); failure != nil {
		return nil, &ConnectError{Cause: failure}
	}
	all.log = cmp.Or(all.log, slog.Default())
	credentials, err := newCredentials(all.given, parsed, all.log)
	if err != nil {
		return nil, err
	}
	return &settings{options: all, endpoints: parsed, credentials: credentials, lookup: net.DefaultResolver.LookupHost}, nil
}

func newOptions(opts []Option) options {
	all := options{
		session:        sessionOptions{clientName: defaultClientName(), closeTimeout: 10 * time.Second},
		connectTimeout: 5 * time.Second,
		backoffMin:     50 * time.Millisecond,
		backoffMax:     2 * time.Second,
	}
	for _, o := range opts {
		o.apply(&all)
	}
	return all
}
