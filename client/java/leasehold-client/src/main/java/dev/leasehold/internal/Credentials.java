package dev.leasehold.internal;

import io.grpc.Metadata;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Credentials of a client, and the authorities that it trusts; read anew when their files change. */
public final class Credentials {
    /** Longest token, in bytes: coordinators take this much as one header, and no JWT should have more. */
    private static final int LONGEST_TOKEN = 8 << 10;

    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    /**
     * Credentials that the program asked for; null for those that it did not.
     *
     * @param ca PEM file of the authorities
     * @param certificate PEM file of the client's certificate
     * @param key PEM file of its key
     * @param serverName name in the coordinators' certificates
     * @param token bearer token
     * @param tokenFile file of the bearer token
     * @param isPlaintextAllowed whether the token may go to other machines unencrypted
     */
    public record Options(
            Path ca, Path certificate, Path key, String serverName, String token, Path tokenFile, boolean isPlaintextAllowed) {}

    private final String serverName;
    /** Null if nothing is encrypted. */
    private final FromFiles<SslContext> tls;
    /** The header of a token that is not in a file; null if there is none. */
    private final String given;
    /** Null if no token is in a file. */
    private final FromFiles<String> token;

    /** Makes the credentials of a client of these coordinators; fails with IllegalArgumentException if they can't be used. */
    public Credentials(Options options, List<Endpoint> endpoints) {
        boolean hasToken = options.token != null || options.tokenFile != null;
        for (Endpoint endpoint : endpoints) {
            if (hasToken && !options.isPlaintextAllowed && !endpoint.isEncrypted() && !endpoint.isLoopback()) {
                throw new IllegalArgumentException("the token would go to " + endpoint.url()
                        + " unencrypted: use https, or allow a plaintext token if the network encrypts by other means");
            }
        }
        if ((options.certificate == null) != (options.key == null)) {
            throw new IllegalArgumentException("a client certificate needs its key, and a key its certificate");
        }
        this.serverName = options.serverName;
        boolean isEncrypted = endpoints.stream().anyMatch(Endpoint::isEncrypted);
        if (!isEncrypted && (options.ca != null || options.certificate != null || options.serverName != null)) {
            throw new IllegalArgumentException("a CA, a certificate and a server name need https:// URLs");
        }
        List<Path> paths = new ArrayList<>();
        for (Path path : new Path[] {options.ca, options.certificate, options.key}) {
            if (path != null) {
                paths.add(path);
            }
        }
        this.tls = isEncrypted ? make("TLS files", paths, contents -> context(options, contents)) : null;
        this.token = options.tokenFile == null
                ? null
                : make(
                        "token file",
                        List.of(options.tokenFile),
                        contents -> authorization(new String(contents.get(0), StandardCharsets.UTF_8)));
        try {
            this.given = options.token == null ? null : authorization(options.token);
        } catch (IOException e) {
            throw new IllegalArgumentException("the token can't be used: " + e.getMessage(), e);
        }
    }

    private static <T> FromFiles<T> make(String what, List<Path> paths, FromFiles.Parser<T> parser) {
        try {
            return new FromFiles<>(paths, parser);
        } catch (IOException | IllegalArgumentException e) {
            throw new IllegalArgumentException("the " + what + " can't be used: " + e.getMessage(), e);
        }
    }

    private static SslContext context(Options options, List<byte[]> contents) throws IOException {
        SslContextBuilder builder = GrpcSslContexts.forClient();
        int next = 0;
        if (options.ca != null) {
            builder.trustManager(new ByteArrayInputStream(contents.get(next++)));
        }
        if (options.certificate != null) {
            builder.keyManager(
                    new ByteArrayInputStream(contents.get(next)), new ByteArrayInputStream(contents.get(next + 1)));
        }
        return builder.build();
    }

    private static String authorization(String token) throws IOException {
        String trimmed = token.trim();
        boolean isVisible = trimmed.chars().allMatch(c -> c > ' ' && c < 0x7f);
        if (trimmed.isEmpty() || trimmed.length() > LONGEST_TOKEN || !isVisible) {
            // The token itself is secret.
            throw new IOException("expected 1 to " + LONGEST_TOKEN + " visible ASCII characters in one line");
        }
        return "Bearer " + trimmed;
    }

    /** Returns the headers of a call, with the token as it is now. */
    Metadata headers() {
        Metadata headers = new Metadata();
        String header = token == null ? given : token.current().value();
        if (header != null) {
            headers.put(AUTHORIZATION, header);
        }
        return headers;
    }

    /** Returns a number that rises whenever the files have other contents. */
    long version() {
        return certificates() + (token == null ? 0 : token.current().number());
    }

    /** Returns a number that rises whenever the files of the certificates have other contents. */
    long certificates() {
        return tls == null ? 0 : tls.current().number();
    }

    /** Returns the context of TLS with the newest files. */
    SslContext context() {
        return tls.current().value();
    }

    /** Returns the name that must be in a coordinator's certificate, as the authority of its connections. */
    String authority(Endpoint endpoint) {
        boolean isOther = endpoint.isEncrypted() && serverName != null;
        return isOther ? Endpoint.authority(serverName, endpoint.port()) : endpoint.authority();
    }
}
