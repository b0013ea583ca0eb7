package leasehold_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold.dev/go"
	"leasehold.dev/go/internal/servertest"
)

// authority is a CA that signs certificates for tests.
type authority struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", nil)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// sign makes NAME.pem and NAME.key; a CA if there is none yet. Files that were there are replaced.
func (a *authority) sign(name string, hosts []string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(a.serial),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		DNSNames:              append([]string{name}, hosts...),
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		template.ExtKeyUsage = nil
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.replace(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	a.replace(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key
}

// replace writes a file as programs that replace one should: by renaming another one over it.
func (a *authority) replace(name string, content []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name+".new"), content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(a.path(name+".new"), a.path(name)); err != nil {
		a.t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("locks.example", []string{"localhost"})
	ca.sign("billing", nil)
	ca.replace("config", []byte("[[permission]]\nidentities = [\"cert:*\"]\nlocks = [\"\"]\nallow = [\"acquire\", \"inspect\"]\n"))
	server := servertest.Start(t, "--tls-cert", ca.path("locks.example.pem"), "--tls-key", ca.path("locks.example.key"),
		"--tls-client-ca", ca.path("ca.pem"), "--config", ca.path("config"))
	_, port, _ := strings.Cut(server.Address, ":")
	identity := leasehold.WithCertificate(ca.path("billing.pem"), ca.path("billing.key"))
	trust := leasehold.WithCA(ca.path("ca.pem"))

	for name, test := range map[string]struct {
		endpoint string
		options  []leasehold.Option
		says     string
	}{
		"another name":   {server.URL, []leasehold.Option{trust, identity}, "127.0.0.1"},
		"unknown CA":     {"https://localhost:" + port, []leasehold.Option{identity}, "unknown authority"},
		"no certificate": {"https://localhost:" + port, []leasehold.Option{trust}, "certificate"},
		"plain text":     {"http://localhost:" + port, nil, "use https://"},
	} {
		_, err := leasehold.Connect(t.Context(), test.endpoint, test.options...)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		var failed *leasehold.ConnectError
		if !errors.As(err, &failed) || failed.Retryable() {
			t.Errorf("%s: another attempt can't mend it", name)
		}
	}

	named := connect(t, server.URL, trust, identity, leasehold.WithServerName("locks.example"))
	wantErr(t, acquire(t, named.Lock("a")).Release(t.Context()), nil)

	// The name in the URL counts, not the address that it resolved to.
	c := connect(t, "https://localhost:"+port, trust, identity)
	hold := acquire(t, c.Lock("a"))
	before := sessionID(c)
	_, err := c.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	for session, err := range c.Admin().ListSessions(t.Context()) {
		wantErr(t, err, nil)
		if session.ID == before && session.Identity != "cert:billing" {
			t.Errorf("the identity is %q", session.Identity)
		}
	}
	// A newer certificate is moved to with all that is held.
	ca.sign("billing", nil)
	untilMoved(t, c, hold, before)
	_, err = c.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	wantErr(t, hold.Release(t.Context()), nil)
}

// newToken returns a token for a name, and its line for the coordinator's file.
func newToken(t *testing.T, name string) (token, line string) {
	t.Helper()
	output, err := exec.Command(servertest.Program(t), "new-token", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[0], lines[1] + "\n"
}

func TestTokens(t *testing.T) {
	t.Parallel()
	files := &authority{t: t, dir: t.TempDir()}
	first, firstLine := newToken(t, "ci")
	second, secondLine := newToken(t, "ci")
	files.replace("tokens", []byte(firstLine+secondLine))
	files.replace("token", []byte(first+"\n"))
	files.replace("config", []byte("[[permission]]\nidentities = [\"token:ci\"]\nlocks = [\"jobs/\"]\nallow = [\"acquire\", \"inspect\"]\n"))
	server := servertest.Start(t, "--token-file", files.path("tokens"), "--config", files.path("config"))

	_, err := leasehold.Connect(t.Context(), server.URL)
	wantErr(t, err, leasehold.ErrUnauthenticated)
	_, err = leasehold.Connect(t.Context(), server.URL, leasehold.WithToken("wrong"))
	wantErr(t, err, leasehold.ErrUnauthenticated)
	_, err = leasehold.Connect(t.Context(), server.URL, leasehold.WithTokenFile(files.path("missing")))
	if err == nil {
		t.Error("a missing file was accepted")
	}
	given := connect(t, server.URL, leasehold.WithToken(second))
	wantErr(t, acquire(t, given.Lock("jobs/b")).Release(t.Context()), nil)

	c := connect(t, server.URL, leasehold.WithTokenFile(files.path("token")))
	hold := acquire(t, c.Lock("jobs/a"))
	_, err = c.Lock("other").Acquire(t.Context())
	wantErr(t, err, leasehold.ErrPermissionDenied)
	_, err = c.Admin().ForceRelease(t.Context(), "jobs/a")
	wantErr(t, err, leasehold.ErrPermissionDenied)
	// A newer token is moved to, before the former one is removed.
	before := sessionID(c)
	files.replace("token", []byte(second+"\n"))
	untilMoved(t, c, hold, before)
	// The identity is removed: what is held is suspended, and held again with a newer token.
	third, thirdLine := newToken(t, "ci")
	states := make(chan leasehold.State, 1)
	go func() { states <- hold.Changed(t.Context(), leasehold.StateHeld) }()
	files.replace("tokens", []byte(thirdLine))
	if state := await(t, "the suspension", states); state != leasehold.StateSuspended {
		t.Fatalf("the lock is %v: %v", state, hold.Err())
	}
	files.replace("token", []byte(third+"\n"))
	if state := hold.Changed(t.Context(), leasehold.StateSuspended); state != leasehold.StateHeld {
		t.Fatalf("the lock is %v: %v", state, hold.Err())
	}
	wantErr(t, hold.Release(t.Context()), nil)
}

func TestPropagation(t *testing.T) {
	t.Parallel()
	type key struct{}
	seen := make(chan any, 16)
	c := connect(t, servertest.Start(t).URL, leasehold.WithPropagation(func(ctx context.Context, carrier map[string]string) {
		seen <- ctx.Value(key{})
		carrier["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	}))
	ctx := context.WithValue(t.Context(), key{}, "mine")
	hold, err := c.Lock("a").Acquire(ctx)
	wantErr(t, err, nil)
	wantErr(t, hold.SetValue(ctx, []byte("x")), nil)
	wantErr(t, hold.Release(ctx), nil)
	_, err = c.Admin().GetLock(ctx, "a")
	wantErr(t, err, nil)
	for range 4 {
		if value := await(t, "the hook", seen); value != "mine" {
			t.Errorf("the hook got the context of %v", value)
		}
	}
}

// TestHostilePropagation has a hook put into the carrier what is no trace context.
func TestHostilePropagation(t *testing.T) {
	t.Parallel()
	c := connect(t, servertest.Start(t).URL, leasehold.WithPropagation(func(ctx context.Context, carrier map[string]string) {
		for key, value := range map[string]string{
			"traceparent": "a\xff", "bad key": "v", "": "v", ":path": "/", "grpc-timeout": "1n", "te": "x", "Baggage": "a\nb", "huge": strings.Repeat("v", 1<<20),
			"authorization": "Bearer other", "x-bin": "\x00",
		} {
			carrier[key] = value
		}
	}))
	hold, err := c.Lock("a").Try(t.Context())
	wantErr(t, err, nil)
	_, err = c.Admin().GetLock(t.Context(), "a")
	wantErr(t, err, nil)
	for event, err := range c.Admin().Watch(t.Context(), "") {
		wantErr(t, err, nil)
		if event.Ready {
			break
		}
	}
	wantErr(t, hold.Check(), nil)
	wantErr(t, hold.Release(t.Context()), nil)
}
