package dev.leasehold.internal;

import dev.leasehold.Failure.Origin;
import dev.leasehold.internal.machine.ConnectFailure;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * One coordinator's URL.
 *
 * @param url with its scheme and port filled in
 * @param host without brackets
 * @param port the port
 * @param isEncrypted whether it is an https URL
 */
record Endpoint(String url, String host, int port, boolean isEncrypted) {
    private static final int DEFAULT_PORT = 7420;

    /**
     * One coordinator, as far as this client can tell: one address of an endpoint.
     *
     * @param endpoint the endpoint
     * @param address the address
     */
    record Candidate(Endpoint endpoint, InetSocketAddress address) {}

    /** Parses URLs separated by commas. One without a scheme is an http URL, and the port is 7420 unless it names one. */
    static List<Endpoint> parse(String list) {
        List<Endpoint> endpoints = new ArrayList<>();
        for (String given : list.split(",", -1)) {
            endpoints.add(parseOne(given.trim()));
        }
        return endpoints;
    }

    private static Endpoint parseOne(String given) {
        URI uri;
        try {
            uri = new URI(given.contains("://") ? given : "http://" + given);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException("\"" + given + "\" is not a URL", e);
        }
        String scheme = uri.getScheme().toLowerCase(Locale.ROOT);
        if (!scheme.equals("http") && !scheme.equals("https")) {
            throw new IllegalArgumentException("the scheme of \"" + given + "\" is neither http nor https");
        }
        if (uri.getRawUserInfo() != null) {
            throw new IllegalArgumentException("the URL has a user name or a password, which coordinators don't take");
        }
        if (uri.getHost() == null) {
            throw new IllegalArgumentException("\"" + given + "\" names no host");
        }
        int port = uri.getPort() < 0 ? DEFAULT_PORT : uri.getPort();
        String host = uri.getHost().replace("[", "").replace("]", "");
        return new Endpoint(scheme + "://" + authority(host, port), host, port, scheme.equals("https"));
    }

    /** Returns the host and port. */
    String authority() {
        return authority(host, port);
    }

    /** Returns a host and a port as an authority. */
    static String authority(String host, int port) {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** Returns whether messages to there stay on this machine. It does not look names up, because the answer could be a lie. */
    boolean isLoopback() {
        boolean isAddress = host.contains(":") || host.matches("[0-9.]+");
        try {
            return host.equals("localhost") || isAddress && InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            return false;
        }
    }

    /** Looks up the addresses that it stands for at present, and adds them, or why there are none. */
    void resolve(List<Candidate> candidates, List<ConnectFailure> failures) {
        try {
            for (InetAddress address : InetAddress.getAllByName(host)) {
                candidates.add(new Candidate(this, new InetSocketAddress(address, port)));
            }
        } catch (UnknownHostException e) {
            failures.add(ConnectFailure.of(
                    url, Failures.connection(Origin.UNREACHED, url, "the name has no address: " + e.getMessage())));
        }
    }
}
