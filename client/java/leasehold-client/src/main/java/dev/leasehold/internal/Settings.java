package dev.leasehold.internal;

import dev.leasehold.internal.machine.Moments;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/**
 * Settings that all sessions and calls of a client share. Times are nanoseconds.
 *
 * @param endpoints coordinators
 * @param credentials credentials
 * @param connectTimeout limit of an attempt to connect
 * @param backoffMin shortest pause between attempts
 * @param backoffMax longest pause between attempts
 * @param longestWait wait of acquires that give none; {@link Moments#NEVER} for no bound
 * @param closeTimeout longest time for which a close waits for work under locks
 * @param executor executor of the program's callbacks and of asynchronous results
 * @param propagation hook that adds the trace context to a request
 * @param measures receivers of metrics
 */
public record Settings(
        List<Endpoint> endpoints,
        Credentials credentials,
        long connectTimeout,
        long backoffMin,
        long backoffMax,
        long longestWait,
        long closeTimeout,
        Tasks executor,
        Consumer<Map<String, String>> propagation,
        Measures measures) {
    private static final System.Logger LOG = System.getLogger("dev.leasehold");
    /** Headers that a hook may add. */
    private static final Pattern HEADER = Pattern.compile("(?i)(?!grpc-|authorization$)[a-z][a-z0-9_.-]{0,127}(?<!-bin)");

    private static final Pattern HEADER_VALUE = Pattern.compile("[\\x20-\\x7e]{0,4096}");
    /** Longest trace context of a request on a session, in bytes. */
    private static final int LONGEST_TRACEPARENT = 256;

    /** Returns what the program's hook adds to a request. */
    Map<String, String> propagated() {
        if (propagation == null) {
            return Map.of();
        }
        Map<String, String> carrier = new HashMap<>();
        try {
            propagation.accept(carrier);
        } catch (RuntimeException e) {
            // A trace is not worth a release that is never sent.
            LOG.log(System.Logger.Level.DEBUG, "the hook for traces failed", e);
            return Map.of();
        }
        // What can't be a header would fail the request, and a large one the whole stream.
        carrier.entrySet().removeIf(entry -> entry.getKey() == null
                || entry.getValue() == null
                || !HEADER.matcher(entry.getKey()).matches()
                || !HEADER_VALUE.matcher(entry.getValue()).matches());
        return carrier;
    }

    /** Returns the trace context of a request on a session; empty for none. */
    public String traceparent() {
        String traceparent = propagated().getOrDefault("traceparent", "");
        return traceparent.length() <= LONGEST_TRACEPARENT ? traceparent : "";
    }
}
