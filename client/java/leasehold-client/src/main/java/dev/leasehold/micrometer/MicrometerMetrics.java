package dev.leasehold.micrometer;

import dev.leasehold.ClientMetrics;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Metrics of clients in a registry of Micrometer, for {@link dev.leasehold.LeaseholdClient.Builder#metrics}. One may be used for several
 * clients, whose counts it then adds up. It needs {@code io.micrometer:micrometer-core}.
 */
public final class MicrometerMetrics implements ClientMetrics {
    private final MeterRegistry registry;
    private final Tags tags;
    private final AtomicInteger holds = new AtomicInteger();
    private final AtomicInteger sessions = new AtomicInteger();
    private final Counter resumed;

    /** Makes the metrics of a registry. */
    public MicrometerMetrics(MeterRegistry registry) {
        this(registry, List.of());
    }

    /** Makes the metrics of a registry, all of which have these tags too. */
    public MicrometerMetrics(MeterRegistry registry, Iterable<Tag> tags) {
        this.registry = registry;
        this.tags = Tags.of(tags);
        Gauge.builder("leasehold.client.holds", holds, AtomicInteger::get)
                .description("Locks and leaderships that the client's sessions hold")
                .tags(tags)
                .strongReference(true)
                .register(registry);
        Gauge.builder("leasehold.client.sessions", sessions, AtomicInteger::get)
                .description("Sessions of the client that are open at a coordinator")
                .tags(tags)
                .strongReference(true)
                .register(registry);
        resumed = Counter.builder("leasehold.client.resumed")
                .description("Locks and places in queues resumed on another stream")
                .tags(tags)
                .register(registry);
    }

    @Override
    public void acquireEnded(String outcome, Duration after) {
        Timer.builder("leasehold.client.acquire")
                .description("Time from an acquire to its end, by how it ended")
                .tags(tags)
                .tag("outcome", outcome)
                .register(registry)
                .record(after);
    }

    @Override
    public void holdBegan() {
        holds.incrementAndGet();
    }

    @Override
    public void holdEnded(String end, Duration held) {
        holds.decrementAndGet();
        Timer.builder("leasehold.client.hold")
                .description("Time for which locks and leaderships were held, by how they ended")
                .tags(tags)
                .tag("end", end)
                .register(registry)
                .record(held);
        if (!end.equals("released")) {
            Counter.builder("leasehold.client.lost")
                    .description("Locks and leaderships lost before they were released, by reason")
                    .tags(tags)
                    .tag("reason", end)
                    .register(registry)
                    .increment();
        }
    }

    @Override
    public void resumed(int count) {
        resumed.increment(count);
    }

    @Override
    public void sessionOpened() {
        sessions.incrementAndGet();
    }

    @Override
    public void sessionEnded() {
        sessions.decrementAndGet();
    }
}
