package leasehold

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// defaultPort is the port of a coordinator, where an endpoint names none.
const defaultPort = "7420"

// endpoint is one coordinator's URL.
type endpoint struct {
	// url has its scheme and port filled in.
	url string
	// host is without brackets.
	host, port string
	// isEncrypted is set for https.
	isEncrypted bool
}

// parseEndpoints parses URLs separated by commas. One without a scheme is an http URL, and the port is 7420 unless it names one.
func parseEndpoints(list string) ([]endpoint, error) {
	var endpoints []endpoint
	for given := range strings.SplitSeq(list, ",") {
		parsed, err := parseEndpoint(strings.TrimSpace(given))
		if err != nil {
			return nil, &ConnectError{Endpoint: strings.TrimSpace(given), Cause: err}
		}
		endpoints = append(endpoints, parsed)
	}
	return endpoints, nil
}

func parseEndpoint(given string) (endpoint, error) {
	text := given
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("%q is not a URL", given)
	}
	scheme, host, port := strings.ToLower(parsed.Scheme), parsed.Hostname(), parsed.Port()
	switch {
	case scheme != "http" && scheme != "https":
		return endpoint{}, fmt.Errorf("the scheme of %q is neither http nor https", given)
	case host == "":
		return endpoint{}, fmt.Errorf("%q names no host", given)
	case strings.TrimSuffix(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return endpoint{}, fmt.Errorf("%q has a path: coordinators are at the root of their port; write %s://%s", given, scheme, parsed.Host)
	case parsed.User != nil:
		return endpoint{}, fmt.Errorf("the URL has a user name or a password, which coordinators don't take")
	}
	if port == "" {
		port = defaultPort
	} else if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return endpoint{}, fmt.Errorf("the port of %q is not between 1 and 65535", given)
	}
	return endpoint{
		url:         scheme + "://" + net.JoinHostPort(host, port),
		host:        host,
		port:        port,
		isEncrypted: scheme == "https",
	}, nil
}

// isLoopback reports whether messages to there stay on this machine. It does not look names up, because the answer could be a lie.
func (e endpoint) isLoopback() bool {
	if address := net.ParseIP(e.host); address != nil {
		return address.IsLoopback()
	}
	return e.host == "localhost"
}

// candidate is one coordinator, as far as this client can tell: one address of an endpoint.
type candidate struct {
	endpoint endpoint
	// address is an IP address with a port.
	address string
}

func (c candidate) key() string {
	return c.endpoint.url + " " + c.address
}

// find looks up the addresses of all endpoints at once.
func (s *settings) find(ctx context.Context) (candidates []candidate, errs []*ConnectError) {
	type found struct {
		candidates []candidate
		err        *ConnectError
	}
	all := make([]found, len(s.endpoints))
	var lookups sync.WaitGroup
	for i, endpoint := range s.endpoints {
		lookups.Go(func() {
			all[i].candidates, all[i].err = s.resolve(ctx, endpoint)
		})
	}
	lookups.Wait()
	for _, found := range all {
		candidates = append(candidates, found.candidates...)
		if found.err != nil {
			errs = append(errs, found.err)
		}
	}
	return candidates, errs
}

// resolve looks up the addresses that an endpoint stands for at present.
func (s *settings) resolve(ctx context.Context, e endpoint) ([]candidate, *ConnectError) {
	ctx, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	addresses, err := s.lookup(ctx, e.host)
	if err != nil {
		failure := failureFrom(e.url, fmt.Errorf("the name has no address: %w", err))
		failure.transport, failure.unsent = true, true
		return nil, &ConnectError{Endpoint: e.url, Cause: failure, kind: connectUnreachable}
	}
	return each(addresses, func(address string) candidate {
		return candidate{endpoint: e, address: net.JoinHostPort(address, e.port)}
	}), nil
}
