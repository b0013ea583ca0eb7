package dev.leasehold.opentelemetry;

import dev.leasehold.ClientMetrics;
import dev.leasehold.LeaseholdClient;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.TextMapPropagator;
import java.time.Duration;
import java.util.Map;

/**
 * Traces and metrics of clients by OpenTelemetry: requests are a part of the trace of the thread that makes them, and the client's metrics
 * have the names and labels of {@link dev.leasehold.micrometer.MicrometerMetrics}, in seconds. It needs {@code
 * io.opentelemetry:opentelemetry-api}.
 */
public final class LeaseholdOpenTelemetry implements ClientMetrics {
    private static final AttributeKey<String> OUTCOME = AttributeKey.stringKey("outcome");
    private static final AttributeKey<String> END = AttributeKey.stringKey("end");
    private static final AttributeKey<String> REASON = AttributeKey.stringKey("reason");

    private final DoubleHistogram acquire;
    private final DoubleHistogram hold;
    private final LongCounter lost;
    private final LongCounter resumed;
    private final LongUpDownCounter holds;
    private final LongUpDownCounter sessions;

    private LeaseholdOpenTelemetry(Meter meter) {
        acquire = meter.histogramBuilder("leasehold.client.acquire")
                .setUnit("s")
                .setDescription("Time from an acquire to its end, by how it ended")
                .build();
        hold = meter.histogramBuilder("leasehold.client.hold")
                .setUnit("s")
                .setDescription("Time for which locks and leaderships were held, by how they ended")
                .build();
        lost = meter.counterBuilder("leasehold.client.lost")
                .setDescription("Locks and leaderships lost before they were released, by reason")
                .build();
        resumed = meter.counterBuilder("leasehold.client.resumed")
                .setDescription("Locks and places in queues resumed on another stream")
                .build();
        holds = meter.upDownCounterBuilder("leasehold.client.holds")
                .setDescription("Locks and leaderships that the client's sessions hold")
                .build();
        sessions = meter.upDownCounterBuilder("leasehold.client.sessions")
                .setDescription("Sessions of the client that are open at a coordinator")
                .build();
    }

    /**
     * Passes the trace context of this OpenTelemetry on with every request, in place of {@link LeaseholdClient.Builder#propagation}, and adds
     * the client's metrics. Returns the builder.
     */
    public static LeaseholdClient.Builder instrument(LeaseholdClient.Builder builder, OpenTelemetry telemetry) {
        TextMapPropagator propagator = telemetry.getPropagators().getTextMapPropagator();
        Meter meter = telemetry
                .getMeterProvider()
                .meterBuilder("dev.leasehold")
                .setInstrumentationVersion(LeaseholdClient.VERSION)
                .build();
        return builder.propagation(carrier -> propagator.inject(Context.current(), carrier, Map::put))
                .metrics(new LeaseholdOpenTelemetry(meter));
    }

    private static double seconds(Duration time) {
        return time.toNanos() / 1e9;
    }

    @Override
    public void acquireEnded(String outcome, Duration after) {
        acquire.record(seconds(after), Attributes.of(OUTCOME, outcome));
    }

    @Override
    public void holdBegan() {
        holds.add(1);
    }

    @Override
    public void holdEnded(String end, Duration held) {
        holds.add(-1);
        hold.record(seconds(held), Attributes.of(END, end));
        if (!end.equals("released")) {
            lost.add(1, Attributes.of(REASON, end));
        }
    }

    @Override
    public void resumed(int count) {
        resumed.add(count);
    }

    @Override
    public void sessionOpened() {
        sessions.add(1);
    }

    @Override
    public void sessionEnded() {
        sessions.add(-1);
    }
}
