package leasehold

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// longestToken is the longest token, in bytes: coordinators take this much as one header, and no JWT should have more.
const longestToken = 8 << 10

// credentialOptions are the credentials that the program asked for.
type credentialOptions struct {
	ca, cert, key, serverName string
	token, tokenFile          string
	allowPlaintext            bool
}

// clientCredentials are the client's credentials, and the authorities that it trusts; read anew when their files change.
type clientCredentials struct {
	// tls is nil if nothing is encrypted.
	tls        *fromFiles[*tls.Config]
	serverName string
	// given is the authorization header of a token that is not in a file.
	given string
	// token has that of one in a file; nil if there is none.
	token *fromFiles[string]
}

func newCredentials(options credentialOptions, endpoints []endpoint, log *slog.Logger) (*clientCredentials, error) {
	c := &clientCredentials{serverName: options.serverName}
	hasToken := options.token != "" || options.tokenFile != ""
	hasTLS := options.ca != "" || options.cert != "" || options.key != "" || options.serverName != ""
	isEncrypted := false
	for _, e := range endpoints {
		isEncrypted = isEncrypted || e.isEncrypted
		if hasToken && !options.allowPlaintext && !e.isEncrypted && !e.isLoopback() {
			return nil, invalidSetting(fmt.Sprintf("the token would go to %s unencrypted: use https, or WithPlaintextToken if the network "+
				"encrypts by other means", e.url))
		}
		if hasTLS && !e.isEncrypted {
			return nil, invalidSetting(fmt.Sprintf("WithCA, WithCertificate and WithServerName need endpoints that begin with https://, "+
				"and %s is not encrypted", e.url))
		}
	}
	if (options.cert == "") != (options.key == "") {
		return nil, invalidSetting("a client certificate needs its key, and a key its certificate")
	}
	if isEncrypted {
		var err error
		var paths []string
		if options.ca != "" {
			paths = append(paths, options.ca)
		}
		if options.cert != "" {
			paths = append(paths, options.cert, options.key)
		}
		parse := func(contents [][]byte) (*tls.Config, error) { return tlsConfig(options, contents) }
		if c.tls, err = newFromFiles(log, parse, paths...); err != nil {
			return nil, &ConnectError{Cause: fmt.Errorf("the TLS files can't be used: %w", err)}
		}
	}
	switch {
	case options.tokenFile != "":
		var err error
		parse := func(contents [][]byte) (string, error) { return authorization(string(contents[0])) }
		if c.token, err = newFromFiles(log, parse, options.tokenFile); err != nil {
			return nil, &ConnectError{Cause: fmt.Errorf("the token file can't be used: %w", err)}
		}
	case options.token != "":
		var err error
		if c.given, err = authorization(options.token); err != nil {
			return nil, &ConnectError{Cause: fmt.Errorf("the token can't be used: %w", err)}
		}
	}
	return c, nil
}

// tlsConfig returns the configuration for the contents of the CA's file, if there is one, and of the certificate and its key, if there
// are any.
func tlsConfig(options credentialOptions, contents [][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if options.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("there is no certificate in PEM in %s", options.ca)
		}
		contents = contents[1:]
	}
	if options.cert != "" {
		certificate, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("%s with its key: %w", options.cert, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// authorization returns the header of a token.
func authorization(token string) (string, error) {
	token = strings.TrimSpace(token)
	isOther := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if token == "" || len(token) > longestToken || strings.ContainsFunc(token, isOther) {
		// The token itself is secret.
		return "", fmt.Errorf("expected 1 to %d visible ASCII characters in one line", longestToken)
	}
	return "Bearer " + token, nil
}

// authorize adds the token, as it is now, to the metadata of a call.
func (c *clientCredentials) authorize(ctx context.Context) context.Context {
	header := c.given
	if c.token != nil {
		header, _ = c.token.current()
	}
	if header == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", header)
}

// version returns a number that rises whenever the files have other contents.
func (c *clientCredentials) version() uint64 {
	version := c.certificates()
	if c.token != nil {
		_, token := c.token.current()
		version += token
	}
	return version
}

// certificates returns a number that rises whenever the files of the certificates have other contents.
func (c *clientCredentials) certificates() uint64 {
	if c.tls == nil {
		return 0
	}
	_, version := c.tls.current()
	return version
}

// transport returns the credentials of connections to the endpoint, each made with the files as they are at that moment. The server
// must be the one that the endpoint names, whatever its address.
func (c *clientCredentials) transport(e endpoint) credentials.TransportCredentials {
	// Without a name in its description: the authority of the calls has the port too.
	return &tlsTransport{credentials.NewTLS(&tls.Config{}), c.tls, cmp.Or(c.serverName, e.host)}
}

// tlsTransport makes TLS connections with the newest files.
type tlsTransport struct {
	credentials.TransportCredentials
	files *fromFiles[*tls.Config]
	name  string
}

func (t *tlsTransport) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, _ := t.files.current()
	// It verifies the name that it is given here, whatever the authority of the calls.
	return credentials.NewTLS(config.Clone()).ClientHandshake(ctx, t.name, conn)
}

func (t *tlsTransport) Clone() credentials.TransportCredentials {
	return &tlsTransport{t.TransportCredentials.Clone(), t.files, t.name}
}
