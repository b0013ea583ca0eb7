package dev.leasehold;

import java.time.Duration;

/**
 * Receiver of what a client does, for metrics; see {@link LeaseholdClient.Builder#metrics}. Each method does nothing unless it is
 * implemented. The methods are called by threads of the library and of the program, also at the same time, and must be quick.
 *
 * <p>For Micrometer there is {@link dev.leasehold.micrometer.MicrometerMetrics}, for OpenTelemetry {@link
 * dev.leasehold.opentelemetry.LeaseholdOpenTelemetry}.
 */
public interface ClientMetrics {
    /**
     * An acquire ended.
     *
     * @param outcome {@code granted}, {@code cancelled} (its caller waits no longer), or the {@link ErrorKind} in lower case, for example
     *     {@code busy} or {@code timed_out}
     * @param after time since it was asked for
     */
    default void acquireEnded(String outcome, Duration after) {}

    /** A lock or a leadership of a session was granted. */
    default void holdBegan() {}

    /**
     * A lock or a leadership of a session ended.
     *
     * @param end {@code released}, or the {@link LostReason} of its loss in lower case, for example {@code expired} or {@code forced}
     * @param held time since it was granted
     */
    default void holdEnded(String end, Duration held) {}

    /**
     * A session opened on another stream, and resumed locks and places in queues there.
     *
     * @param count number of them: 1 or more
     */
    default void resumed(int count) {}

    /** A session is open at a coordinator; it was not open before. */
    default void sessionOpened() {}

    /** A session is not open any more: its stream ended, or it was closed. It may open again. */
    default void sessionEnded() {}
}
