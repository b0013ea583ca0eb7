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
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One coordinator's URL.
 *
 * @param url with its scheme and port filled in
 * @param host without brackets
 * @param port the port
 * @param isEncrypted whether it is an https URL
 */
public record Endpoint(String url, String host, int port, boolean isEncrypted) {
    private static final int DEFAULT_PORT = 7420;
    private static final int LARGEST_PORT = 65535;
    private static final Pattern AUTHORITY = Pattern.compile("([A-Za-z0-9._-]+)(?::([0-9]{1,5}))?");

    /**
     * One coordinator, as far as this client can tell: one address of an endpoint.
     *
     * @param endpoint the endpoint
     * @param address the address
     */
    record Candidate(Endpoint endpoint, InetSocketAddress address) {}

    /** Parses URLs separated by commas. One without a scheme is an http URL, and the port is 7420 unless it names one. */
    public static List<Endpoint> parse(String list) {
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
        String authority = uri.getRawAuthority() == null ? "" : uri.getRawAuthority();
        if (authority.contains("@")) {
            throw new IllegalArgumentException("the URL has a user name or a password, which coordinators don't take");
        }
        // Of a name with an underscore, URI knows no host.
        Matcher named = AUTHORITY.matcher(authority);
        if (uri.getHost() == null && !named.matches()) {
            throw new IllegalArgumentException("\"" + given + "\" names no host");
        }
        if (!Set.of("", "/").contains(uri.getRawPath()) || uri.getRawQuery() != null || uri.getRawFragment() != null) {
            throw new IllegalArgumentException("\"" + given + "\" has a path: coordinators are at the root of their port; write "
                    + scheme + "://" + authority);
        }
        String host = uri.getHost() == null ? named.group(1) : uri.getHost().replace("[", "").replace("]", "");
        String number = uri.getHost() == null ? named.group(2) : uri.getPort() < 0 ? null : Integer.toString(uri.getPort());
        int port = number == null ? DEFAULT_PORT : Integer.parseInt(number);
        if (port < 1 || port > LARGEST_PORT) {
            throw new IllegalArgumentException("the port of \"" + given + "\" is not between 1 and " + LARGEST_PORT);
        }
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
                // Without its name where that has an underscore, which gRPC does not take.
                InetAddress used = host.contains("_") ? InetAddress.getByAddress(address.getAddress()) : address;
                candidates.add(new Candidate(this, new InetSocketAddress(used, port)));
            }
        } catch (UnknownHostException e) {
            failures.add(ConnectFailure.of(
                    url, Failures.connection(Origin.UNREACHED, url, "the name has no address: " + e.getMessage())));
        }
    }
}
