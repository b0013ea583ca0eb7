package leasehold

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// keepAlive is the interval of probes on a quiet connection for events, and the time limit of their answers.
	keepAlive = 10 * time.Second
	// longestMessage is the longest message, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one.
	longestMessage = 16 << 20
	// unread is the most bytes of a stream of events that may lie here unread; the coordinator keeps the rest. unreadTogether is the
	// same for all such streams of a connection, where each is bounded already: with less, some that are not read would hold up
	// those that are.
	unread         = 64 << 10
	unreadTogether = 1<<31 - 1
	// unreadAnswers is the most bytes of a session's answers that may be on the way: as many as an opening with resumes takes in one
	// message. A fixed number, because gRPC would otherwise measure the connection all the time, with a ping and a window update for
	// every few answers.
	unreadAnswers = longestResume
	// alerted is how a connection fails that a server with TLS answers with an alert, which is shorter than any HTTP/2 frame.
	alerted = "server preface: unexpected EOF"
	// http1Only is added to the words of a connection that a server closed which answers in HTTP/1 alone.
	http1Only = "what answers there speaks HTTP/1 only, as the admin port of a coordinator does, which has its page (7421 by default)"
	// preface is with what a client begins HTTP/2, with an empty frame of settings.
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	// checkPort is what to do about a port that is not the right one.
	checkPort = "check that the port is a coordinator's gRPC port (7420 by default)"
)

// closedEarly are the words with which a connection fails that was closed before a byte was answered.
var closedEarly = []string{"server preface: EOF", "broken pipe", "connection reset"}

// connOptions returns the options of connections to the endpoint.
func (s *settings) connOptions(e endpoint) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if e.isEncrypted {
		creds = s.credentials.transport(e)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithAuthority(net.JoinHostPort(e.host, e.port)),
		grpc.WithUserAgent("leasehold-go/" + Version),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(longestMessage)),
		dialer(&net.Dialer{Timeout: s.connectTimeout}),
	}
}

// dialer returns the option to connect by this dialer. It also takes the place of a proxy that the environment names.
func dialer(by *net.Dialer) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return by.DialContext(ctx, "tcp", address)
	})
}

// dial makes a connection of its own to one coordinator, within the limit. Neither gRPC nor the kernel probes it: the session misses
// answers to its heartbeats, and lives as long as its TTL says.
func (s *settings) dial(ctx context.Context, to candidate, limit time.Duration) (*grpc.ClientConn, *ConnectError) {
	options := append(s.connOptions(to.endpoint),
		grpc.WithInitialWindowSize(unreadAnswers),
		grpc.WithInitialConnWindowSize(unreadAnswers),
		dialer(&net.Dialer{Timeout: s.connectTimeout, KeepAlive: -1}),
	)
	conn, err := grpc.NewClient("passthrough:///"+to.address, options...)
	if err != nil {
		return nil, &ConnectError{Endpoint: to.endpoint.url, Cause: err}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if failure := ready(limited, conn, to); failure != nil {
		conn.Close()
		if limited.Err() != nil {
			return nil, &ConnectError{Endpoint: to.endpoint.url, kind: connectTimedOut, after: limit}
		}
		return nil, connectFailed(to.endpoint.url, failure)
	}
	return conn, nil
}

// ready waits until there is a connection. Fails with the reason why there is none.
func ready(ctx context.Context, conn *grpc.ClientConn, to candidate) *Failure {
	endpoint := to.endpoint.url
	conn.Connect()
	for {
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			// A call fails at once now, and says why.
			_, err := leaseholdv1.NewAdminServiceClient(conn).GetStatus(ctx, &leaseholdv1.GetStatusRequest{})
			if err == nil {
				return nil
			}
			failure := failureFrom(endpoint, err)
			failure.transport, failure.unsent = true, true
			if !to.endpoint.isEncrypted && containsAny(failure.Message, closedEarly) && speaksHTTP1Only(ctx, to.address) {
				failure.Message = http1Only
			}
			failure.distrust = isDistrust(failure.Message)
			failure.Message = explain(failure.Message)
			return failure
		case connectivity.Idle:
			conn.Connect()
			fallthrough
		default:
			if !conn.WaitForStateChange(ctx, state) {
				failure := failureFrom(endpoint, ctx.Err())
				failure.transport, failure.unsent = true, true
				failure.Message = "no answer in time"
				return failure
			}
		}
	}
}

// isDistrust reports whether a connection failed because one side does not trust the other's certificate, or because what answers is
// no coordinator: nothing that passes by itself. gRPC keeps nothing of the cause but its words.
func isDistrust(message string) bool {
	return containsAny(message, []string{"tls: ", "x509: ", "http2: frame", "HTTP/1", "missing selected ALPN", alerted})
}

func containsAny(text string, signs []string) bool {
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
}

// speaksHTTP1Only reports whether what answers at an address closes connections of HTTP/2, and serves HTTP/1. A coordinator that just stops
// closes them too, and serves neither then; one that was started meanwhile serves both.
func speaksHTTP1Only(ctx context.Context, address string) bool {
	return strings.HasPrefix(firstBytes(ctx, address, "GET / HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n"), "HTTP/1") &&
		firstBytes(ctx, address, preface) == "" && ctx.Err() == nil
}

// firstBytes returns the first bytes of what answers there to the words; none if it closes the connection instead, or does not answer.
func firstBytes(ctx context.Context, address, words string) string {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	first := make([]byte, len("HTTP/1"))
	if _, err := io.WriteString(conn, words); err != nil {
		return ""
	}
	n, _ := io.ReadFull(conn, first)
	return string(first[:n])
}

// explain returns the words of a failed connection, with what to do where the cause is known.
func explain(message string) string {
	_, cause, isWrapped := strings.Cut(message, `desc = "`)
	if isWrapped {
		message = strings.TrimSuffix(cause, `"`)
	}
	message = strings.ReplaceAll(message, `\"`, `"`)
	message = strings.TrimPrefix(strings.TrimPrefix(message, "transport: "), "Error while dialing: ")
	switch {
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		message += ": what answers there does not speak TLS; use http:// or the coordinator's TLS port"
	case message == http1Only:
		message += "; " + checkPort
	case strings.Contains(message, "http2: frame"), strings.Contains(message, "HTTP/1"), strings.Contains(message, alerted):
		message += ": what answers there is no coordinator's gRPC port, or speaks TLS; use https:// there"
	case containsAny(message, closedEarly):
		message += ": closed before it answered; " + checkPort + ", and that a coordinator is behind it"
	}
	return message
}

// carried returns what the program's hook adds to a request.
func (s *settings) carried(ctx context.Context) map[string]string {
	if s.propagate == nil {
		return nil
	}
	carrier := make(map[string]string)
	s.propagate(ctx, carrier)
	return carrier
}

// propagated adds to the metadata of a call what the program's hook adds.
func (s *settings) propagated(ctx context.Context) context.Context {
	for key, value := range s.carried(ctx) {
		if key = strings.ToLower(key); isTraceHeader(key, value) {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
	}
	return ctx
}

// isTraceHeader reports whether an entry of a carrier can be sent. No call fails because of its trace context.
func isTraceHeader(key, value string) bool {
	isOtherInKey := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	isOtherInValue := func(r rune) bool { return r < ' ' || r > '~' }
	return key != "" && key != "authorization" && !strings.ContainsFunc(key, isOtherInKey) &&
		len(value) <= longestHeader && !strings.ContainsFunc(value, isOtherInValue)
}

// traceparent returns the trace context of a request on a session.
func (s *settings) traceparent(ctx context.Context) string {
	trace := s.carried(ctx)["traceparent"]
	if len(trace) > longestTrace || !utf8.ValidString(trace) {
		// It would end the stream; one that is malformed counts as empty.
		return ""
	}
	return trace
}
