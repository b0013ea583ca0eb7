package leasehold_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// listens starts a server that does this with each connection, and returns its address.
func listens(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	wantErr(t, err, nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// answers returns a server that says so first, and then nothing.
func answers(first string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, first)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// resetsHTTP2 answers to HTTP/1, and resets other connections.
func resetsHTTP2(conn net.Conn) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err == nil && first[0] == 'G' {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	} else if tcp, isTCP := conn.(*net.TCPConn); isTCP {
		_ = tcp.SetLinger(0)
	}
}

// TestWrongPortsAreToldApartAndNotRetried asks what is no coordinator's gRPC port, or one with another scheme.
func TestWrongPortsAreToldApartAndNotRetried(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("locks.example", []string{"127.0.0.1"})
	plain := servertest.Start(t)
	encrypted := servertest.Start(t, "--tls-cert", ca.path("locks.example.pem"), "--tls-key", ca.path("locks.example.key"))
	web, secureWeb := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	t.Cleanup(secureWeb.Close)
	var http2 http.Protocols
	http2.SetUnencryptedHTTP2(true)
	newWeb := httptest.NewUnstartedServer(http.NotFoundHandler())
	newWeb.Config.Protocols = &http2
	newWeb.Start()
	t.Cleanup(newWeb.Close)
	as := func(scheme, url string) string { return scheme + url[strings.Index(url, "://"):] }
	for name, test := range map[string]struct {
		url  string
		is   error
		says string
	}{
		"the admin port":            {plain.AdminURL, leasehold.ErrUnavailable, "its page (7421 by default); check that the port is a coordinator's gRPC port (7420 by default)"},
		"the admin port, https":     {as("https", plain.AdminURL), leasehold.ErrUnavailable, "does not speak TLS"},
		"https to http":             {as("https", plain.URL), leasehold.ErrUnavailable, "use http://"},
		"http to https":             {as("http", encrypted.URL), leasehold.ErrUnavailable, "use https://"},
		"a web server":              {web.URL, leasehold.ErrUnavailable, "no coordinator"},
		"a web server with TLS":     {as("http", secureWeb.URL), leasehold.ErrUnavailable, "7420"},
		"a web server of HTTP/2":    {newWeb.URL, leasehold.ErrRefused, "404"},
		"a CA that is not trusted":  {encrypted.URL, leasehold.ErrUnavailable, "x509"},
		"a server that resets":      {"http://" + listens(t, resetsHTTP2), leasehold.ErrUnavailable, "its page (7421 by default)"},
		"a server that speaks SSH":  {"http://" + listens(t, answers("SSH-2.0-OpenSSH_9.2\r\n")), leasehold.ErrUnavailable, "no coordinator"},
		"a server that speaks RESP": {"http://" + listens(t, answers("-ERR unknown command 'PRI'\r\n")), leasehold.ErrUnavailable, "no coordinator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := leasehold.Connect(t.Context(), test.url)
			wantErr(t, err, test.is)
			var failed *leasehold.ConnectError
			if !errors.As(err, &failed) || failed.Retryable() || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			c, err := leasehold.New(test.url, leasehold.WithLogger(slog.New(slog.DiscardHandler)))
			wantErr(t, err, nil)
			defer c.Close()
			// None of these waits for it to become a coordinator.
			_, errs := background(t.Context(), c.Lock("a"))
			if err := await(t, "the acquire", errs); !strings.Contains(err.Error(), test.says) {
				t.Errorf("Acquire: %v", err)
			}
			_, err = c.Admin().GetLock(t.Context(), "a")
			wantErr(t, err, test.is)
			ended := make(chan error, 1)
			go func() {
				for _, err := range c.Admin().Watch(t.Context(), "") {
					ended <- err
				}
			}()
			wantErr(t, await(t, "the end of the watch", ended), test.is)
		})
	}
}

// TestWhatMayBecomeACoordinatorIsRetried asks ports that look alike, behind which a coordinator may come.
func TestWhatMayBecomeACoordinatorIsRetried(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"nothing":                     servertest.FreeAddress(t),
		"a proxy without a backend":   listens(t, func(net.Conn) {}),
		"a server that does not talk": listens(t, answers("")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := leasehold.Connect(t.Context(), address, leasehold.WithConnectTimeout(500*time.Millisecond))
			wantErr(t, err, leasehold.ErrUnavailable)
			var failed *leasehold.ConnectError
			if !errors.As(err, &failed) || !failed.Retryable() {
				t.Errorf("got %v", err)
			}
		})
	}
}
