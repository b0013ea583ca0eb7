package leasehold

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// keepAlive is the interval of probes on a quiet connection, and the time limit of their answers. Together longer than what is
	// common for a TTL: a lease must end by its own deadline, not because a probe was late.
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
)

// connOptions returns the options that all connections to the endpoint have.
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
		// Also takes the place of a proxy that the environment names.
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{Timeout: s.connectTimeout}).DialContext(ctx, "tcp", address)
		}),
	}
}

// dial makes a connection of its own to one coordinator, within the limit.
func (s *settings) dial(ctx context.Context, to candidate, limit time.Duration) (*grpc.ClientConn, *ConnectError) {
	options := append(s.connOptions(to.endpoint),
		grpc.WithInitialWindowSize(unreadAnswers),
		grpc.WithInitialConnWindowSize(unreadAnswers),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive, PermitWithoutStream: true}),
	)
	conn, err := grpc.NewClient("passthrough:///"+to.address, options...)
	if err != nil {
		return nil, &ConnectError{Endpoint: to.endpoint.url, Cause: err}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if failure := ready(limited, conn, to.endpoint.url); failure != nil {
		conn.Close()
		if limited.Err() != nil {
			return nil, &ConnectError{Endpoint: to.endpoint.url, kind: connectTimedOut, after: limit}
		}
		return nil, connectFailed(to.endpoint.url, failure)
	}
	return conn, nil
}

// ready waits until there is a connection. Fails with the reason why there is none.
func ready(ctx context.Context, conn *grpc.ClientConn, endpoint string) *Failure {
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
	for _, sign := range []string{"tls: ", "x509: ", "http2: frame", "HTTP/1", "missing selected ALPN", alerted} {
		if strings.Contains(message, sign) {
			return true
		}
	}
	return false
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
	case strings.Contains(message, "http2: frame"), strings.Contains(message, "HTTP/1"), strings.Contains(message, alerted):
		message += ": what answers there is no coordinator's gRPC port, or speaks TLS; use https:// there"
	}
	return message
}

// propagated adds to the metadata of a call what the program's hook adds.
func (s *settings) propagated(ctx context.Context) context.Context {
	if s.propagate == nil {
		return ctx
	}
	carrier := make(map[string]string)
	s.propagate(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(key), value)
	}
	return ctx
}

// traceparent returns the trace context of a request on a session.
func (s *settings) traceparent(ctx context.Context) string {
	if s.propagate == nil {
		return ""
	}
	carrier := make(map[string]string)
	s.propagate(ctx, carrier)
	return carrier["traceparent"]
}
