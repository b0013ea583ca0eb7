// Command connect calls a coordinator as a user of connect-go does: it acquires, is refused, renews, releases and watches, with each
// protocol, codec and version of HTTP. It reads the site as JSON from its standard input, and prints a line for each way that worked.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// Longest time of one way.
const limit = 20 * time.Second

// site is what the test tells.
type site struct {
	Endpoint string `json:"endpoint"`
	CA       string `json:"ca"`
	Token    string `json:"token"`
	Prefix   string `json:"prefix"`
}

// way is one of the ways to call.
type way struct {
	name    string
	http2   bool
	isGRPC  bool
	options []connect.ClientOption
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var site site
	if err := json.NewDecoder(os.Stdin).Decode(&site); err != nil {
		return fmt.Errorf("failed to read the site: %w", err)
	}
	pem, err := os.ReadFile(site.CA)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	gzip := connect.WithSendGzip()
	for _, way := range []way{
		{"connect proto HTTP/1.1", false, false, nil},
		{"connect proto HTTP/2", true, false, []connect.ClientOption{gzip}},
		{"connect json HTTP/1.1", false, false, []connect.ClientOption{connect.WithProtoJSON(), gzip}},
		{"connect json HTTP/2", true, false, []connect.ClientOption{connect.WithProtoJSON()}},
		{"grpc-web HTTP/1.1", false, true, []connect.ClientOption{connect.WithGRPCWeb()}},
		{"grpc-web HTTP/2", true, true, []connect.ClientOption{connect.WithGRPCWeb()}},
		{"grpc HTTP/2", true, true, []connect.ClientOption{connect.WithGRPC()}},
	} {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots},
			Protocols:       new(http.Protocols),
		}
		transport.Protocols.SetHTTP1(!way.http2)
		transport.Protocols.SetHTTP2(way.http2)
		caller := &caller{site: site, way: way, transport: transport, name: site.Prefix + way.name}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := caller.everything(ctx)
		cancel()
		transport.CloseIdleConnections()
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Println(way.name)
	}
	return nil
}

// caller calls in one way.
type caller struct {
	site      site
	way       way
	transport *http.Transport
	// Name of the lock.
	name string
	// Method and version of the last request.
	method, version string
}

// RoundTrip adds the token, and records how the request went.
func (c *caller) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if request.Header.Get("Authorization") == "" {
		request.Header.Set("Authorization", "Bearer "+c.site.Token)
	}
	response, err := c.transport.RoundTrip(request)
	if err == nil {
		c.method, c.version = request.Method, response.Proto
	}
	return response, err
}

func client[Request, Response any](c *caller, procedure string, more ...connect.ClientOption) *connect.Client[Request, Response] {
	options := append(more, c.way.options...)
	return connect.NewClient[Request, Response](&http.Client{Transport: c}, c.site.Endpoint+procedure, options...)
}

func (c *caller) everything(ctx context.Context) error {
	acquire := client[leaseholdv1.AcquireRequest, leaseholdv1.AcquireResponse](c, "/leasehold.v1.LockService/Acquire")
	renew := client[leaseholdv1.RenewRequest, leaseholdv1.RenewResponse](c, "/leasehold.v1.LockService/Renew")
	release := client[leaseholdv1.ReleaseRequest, leaseholdv1.ReleaseResponse](c, "/leasehold.v1.LockService/Release")
	getLock := client[leaseholdv1.GetLockRequest, leaseholdv1.GetLockResponse](c, "/leasehold.v1.AdminService/GetLock",
		connect.WithIdempotency(connect.IdempotencyNoSideEffects), connect.WithHTTPGet())
	watch := client[leaseholdv1.WatchLocksRequest, leaseholdv1.WatchLocksResponse](c, "/leasehold.v1.AdminService/WatchLocks")
	wanted := &leaseholdv1.AcquireRequest{Name: c.name, ClientName: "connect-go"}

	// It is refused without a token, and what it has no permission for.
	stranger := connect.NewRequest(wanted)
	stranger.Header().Set("Authorization", "Bearer none")
	_, err := acquire.CallUnary(ctx, stranger)
	if err := refused(err, connect.CodeUnauthenticated, "UNAUTHENTICATED"); err != nil {
		return err
	}
	_, err = acquire.CallUnary(ctx, connect.NewRequest(&leaseholdv1.AcquireRequest{Name: "not/" + c.name}))
	if err := refused(err, connect.CodePermissionDenied, "PERMISSION_DENIED"); err != nil {
		return err
	}

	watching, stop := context.WithCancel(ctx)
	defer stop()
	events, err := watch.CallServerStream(watching, connect.NewRequest(&leaseholdv1.WatchLocksRequest{Prefix: c.name}))
	if err != nil {
		return fmt.Errorf("failed to watch: %w", err)
	}
	if !events.Receive() || events.Msg().GetReady() == nil {
		return fmt.Errorf("the watcher received %v, expected ready: %v", events.Msg(), events.Err())
	}

	granted, err := acquire.CallUnary(ctx, connect.NewRequest(wanted))
	if err != nil {
		return fmt.Errorf("failed to acquire: %w", err)
	}
	if outcome := granted.Msg.GetOutcome(); outcome != leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_GRANTED {
		return fmt.Errorf("acquire: %v", outcome)
	}
	if err := happened(events, leaseholdv1.LockEventKind_LOCK_EVENT_KIND_GRANTED); err != nil {
		return err
	}
	busy, err := acquire.CallUnary(ctx, connect.NewRequest(wanted))
	if err != nil {
		return fmt.Errorf("failed to acquire again: %w", err)
	}
	if outcome := busy.Msg.GetOutcome(); outcome != leaseholdv1.AcquireOutcome_ACQUIRE_OUTCOME_BUSY {
		return fmt.Errorf("acquire of a held lock: %v", outcome)
	}

	shown, err := getLock.CallUnary(ctx, connect.NewRequest(&leaseholdv1.GetLockRequest{Name: c.name}))
	if err != nil {
		return fmt.Errorf("failed to get the lock: %w", err)
	}
	if holders := shown.Msg.GetLock().GetHolders(); len(holders) != 1 || holders[0].GetClientName() != "connect-go" {
		return fmt.Errorf("the lock is shown with holders %v", holders)
	}
	expected := "GET"
	if c.way.isGRPC {
		expected = "POST"
	}
	if c.method != expected || (c.version == "HTTP/2.0") != c.way.http2 {
		return fmt.Errorf("the lock was got by %s with %s", c.method, c.version)
	}

	owner := granted.Msg.GetOwnerId()
	renewed, err := renew.CallUnary(ctx, connect.NewRequest(&leaseholdv1.RenewRequest{Name: c.name, OwnerId: owner}))
	if err != nil {
		return fmt.Errorf("failed to renew: %w", err)
	}
	if !renewed.Msg.GetRenewed() {
		return errors.New("the lock was not renewed")
	}
	for _, expected := range []bool{true, false} {
		released, err := release.CallUnary(ctx, connect.NewRequest(&leaseholdv1.ReleaseRequest{Name: c.name, OwnerId: owner}))
		if err != nil {
			return fmt.Errorf("failed to release: %w", err)
		}
		if released.Msg.GetReleased() != expected {
			return fmt.Errorf("released: %v, expected %v", !expected, expected)
		}
	}
	if err := happened(events, leaseholdv1.LockEventKind_LOCK_EVENT_KIND_RELEASED); err != nil {
		return err
	}
	stop()
	if events.Receive() || connect.CodeOf(events.Err()) != connect.CodeCanceled {
		return fmt.Errorf("the cancelled watch ended with: %v", events.Err())
	}
	return nil
}

// happened waits for the next event.
func happened(events *connect.ServerStreamForClient[leaseholdv1.WatchLocksResponse], kind leaseholdv1.LockEventKind) error {
	if !events.Receive() {
		return fmt.Errorf("the watch ended before %v: %w", kind, events.Err())
	}
	if event := events.Msg().GetEvent(); event.GetKind() != kind {
		return fmt.Errorf("the watcher received %v, expected %v", events.Msg(), kind)
	}
	return nil
}

// refused checks the code and the reason of an error.
func refused(err error, code connect.Code, reason string) error {
	var refusal *connect.Error
	if !errors.As(err, &refusal) || refusal.Code() != code {
		return fmt.Errorf("expected %v, got: %w", code, err)
	}
	for _, detail := range refusal.Details() {
		if value, err := detail.Value(); err == nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok && info.GetReason() == reason && info.GetDomain() == "leasehold" {
				return nil
			}
		}
	}
	return fmt.Errorf("expected the reason %s in the details of: %w", reason, err)
}
