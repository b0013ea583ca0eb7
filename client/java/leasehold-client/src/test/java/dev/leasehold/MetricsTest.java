package dev.leasehold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.micrometer.MicrometerMetrics;
import dev.leasehold.opentelemetry.LeaseholdOpenTelemetry;
import dev.leasehold.processes.Coordinator;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Metrics and traces of clients, against coordinators. */
@Timeout(300)
class MetricsTest {
    /** Does what all metrics are about: grants, refusals, a cancelled wait, a release and a loss. */
    private static void live(LeaseholdClient client) throws Exception {
        Hold hold = client.lock("a").acquire();
        assertTrue(client.lock("a").tryAcquire().isEmpty());
        assertTrue(client.lock("a").tryAcquire().isEmpty());
        assertThrows(AcquireException.class, () -> client.lock("a").acquire(Duration.ofMillis(500)));
        CompletableFuture<Hold> waits = client.lock("a").acquireAsync();
        waits.cancel(false);
        hold.release();
        Hold lost = client.lock("b").acquire();
        assertTrue(client.admin().forceRelease("b"));
        lost.changeFrom(HoldState.HELD).get(60, TimeUnit.SECONDS);
        client.detachedLock(LockSpec.exclusive("d")).acquire().release();
        assertThrows(AcquireException.class, () -> client.semaphore("s", 1).permits(2).acquire());
    }

    private static void until(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            assertFalse(Thread.interrupted(), "it did not become so");
            Thread.yield();
        }
    }

    private static long acquires(MeterRegistry registry, String outcome) {
        return registry.get("leasehold.client.acquire").tag("outcome", outcome).timer().count();
    }

    @Test
    void micrometerHasTheOutcomesTheTimesAndTheLosses() throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url())
                        .metrics(new MicrometerMetrics(registry, Tags.of("client", "one")))
                        .connect()) {
            until(() -> registry.get("leasehold.client.sessions").gauge().value() == 1);
            long before = System.nanoTime();
            live(client);
            until(() -> registry.find("leasehold.client.lost").tag("reason", "forced").counter() != null);
            Hold held = client.lock("held").acquire();
            until(() -> registry.get("leasehold.client.holds").gauge().value() == 1);
            assertEquals(4, acquires(registry, "granted"));
            assertEquals(2, acquires(registry, "busy"));
            assertEquals(1, acquires(registry, "timed_out"));
            assertEquals(1, acquires(registry, "cancelled"));
            assertEquals(1, acquires(registry, "invalid"));
            var released = registry.get("leasehold.client.hold").tag("end", "released").tag("client", "one").timer();
            assertEquals(1, released.count());
            assertTrue(released.totalTime(TimeUnit.NANOSECONDS) <= System.nanoTime() - before + 20_000_000);
            assertEquals(1, registry.get("leasehold.client.hold").tag("end", "forced").timer().count());
            assertEquals(1, registry.get("leasehold.client.lost").tag("reason", "forced").counter().count());
            assertEquals(0, registry.get("leasehold.client.resumed").counter().count());
            held.release();
        }
        until(() -> registry.get("leasehold.client.sessions").gauge().value() == 0);
        until(() -> registry.get("leasehold.client.holds").gauge().value() == 0);
    }

    @Test
    void threadsThatShareASessionCountNothingTwice() throws Exception {
        AtomicInteger holds = new AtomicInteger();
        AtomicInteger begun = new AtomicInteger();
        ClientMetrics metrics = new ClientMetrics() {
            @Override
            public void holdBegan() {
                begun.incrementAndGet();
                holds.incrementAndGet();
            }

            @Override
            public void holdEnded(String end, Duration held) {
                holds.decrementAndGet();
            }
        };
        int threads = 8;
        int rounds = 200;
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(coordinator.url()).metrics(metrics).connect()) {
            List<CompletableFuture<Void>> all = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                LockRequest lock = client.lock("t" + i);
                all.add(CompletableFuture.runAsync(() -> {
                    try {
                        for (int round = 0; round < rounds; round++) {
                            lock.run(hold -> {});
                        }
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                }, task -> new Thread(task).start()));
            }
            CompletableFuture.allOf(all.toArray(new CompletableFuture[0])).get(60, TimeUnit.SECONDS);
        }
        until(() -> holds.get() == 0 && begun.get() == threads * rounds);
    }

    @Test
    void resumesAreCounted() throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        ClientMetrics metrics = new ClientMetrics() {
            @Override
            public void resumed(int count) {
                told.add("resumed " + count);
            }

            @Override
            public void sessionEnded() {
                told.add("ended");
            }

            @Override
            public void sessionOpened() {
                told.add("opened");
            }

            @Override
            public void holdEnded(String end, Duration held) {
                told.add(end);
            }
        };
        ClientMetrics broken = new ClientMetrics() {
            @Override
            public void sessionOpened() {
                throw new IllegalStateException("as a test");
            }
        };
        try (Relay relay = new Relay();
                Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdClient.builder(relay.to(coordinator.address()))
                        .grace(Duration.ofSeconds(5))
                        .metrics(broken)
                        .metrics(metrics)
                        .connect()) {
            assertEquals("opened", told.poll(60, TimeUnit.SECONDS));
            Hold hold = client.lock("a").acquire();
            client.lock("b").acquire();
            relay.cut();
            assertEquals(List.of("ended", "opened", "resumed 2"), next(3, told));
            hold.check();
            hold.release();
            assertEquals("released", told.poll(60, TimeUnit.SECONDS));
        }
        assertEquals(List.of("ended", "session_closed"), next(2, told));
    }

    /** Returns what is told next, sorted: several threads tell it. */
    private static List<String> next(int count, BlockingQueue<String> told) throws InterruptedException {
        List<String> next = new ArrayList<>();
        while (next.size() < count) {
            next.add(Objects.requireNonNull(told.poll(60, TimeUnit.SECONDS), "nothing is told after " + next));
        }
        return next.stream().sorted().toList();
    }

    private static double sum(MetricData metric, String key, String value) {
        Function<io.opentelemetry.sdk.metrics.data.PointData, Boolean> fits = point ->
                value.equals(point.getAttributes().get(AttributeKey.stringKey(key)));
        return switch (metric.getType()) {
            case HISTOGRAM -> metric.getHistogramData().getPoints().stream()
                    .filter(fits::apply)
                    .mapToLong(point -> point.getCount())
                    .sum();
            default -> metric.getLongSumData().getPoints().stream()
                    .filter(point -> key.isEmpty() || fits.apply(point))
                    .mapToLong(point -> point.getValue())
                    .sum();
        };
    }

    @Test
    void openTelemetryHasTheSame() throws Exception {
        InMemoryMetricReader reader = InMemoryMetricReader.create();
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder()
                .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build())
                .build();
        try (Coordinator coordinator = Coordinator.start();
                LeaseholdClient client = LeaseholdOpenTelemetry.instrument(
                                LeaseholdClient.builder(coordinator.url()), telemetry)
                        .connect()) {
            live(client);
            Map<String, MetricData> metrics;
            do {
                assertFalse(Thread.interrupted(), "no loss is counted");
                metrics = reader.collectAllMetrics().stream().collect(Collectors.toMap(MetricData::getName, one -> one));
            } while (!metrics.containsKey("leasehold.client.lost"));
            assertEquals(3, sum(metrics.get("leasehold.client.acquire"), "outcome", "granted"));
            assertEquals(2, sum(metrics.get("leasehold.client.acquire"), "outcome", "busy"));
            assertEquals(1, sum(metrics.get("leasehold.client.acquire"), "outcome", "cancelled"));
            assertEquals(1, sum(metrics.get("leasehold.client.hold"), "end", "released"));
            assertEquals(1, sum(metrics.get("leasehold.client.lost"), "reason", "forced"));
            assertEquals(0, sum(metrics.get("leasehold.client.holds"), "", ""));
            assertEquals(1, sum(metrics.get("leasehold.client.sessions"), "", ""));
            assertEquals("s", metrics.get("leasehold.client.acquire").getUnit());
        }
    }

    @Test
    void openTelemetrysContextGoesWithRequests() throws Exception {
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder()
                .setTracerProvider(SdkTracerProvider.builder().build())
                .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
                .build();
        LeaseholdClient.Builder builder = LeaseholdOpenTelemetry.instrument(LeaseholdClient.builder("http://127.0.0.1:1"), telemetry);
        Span span = telemetry.getTracer("test").spanBuilder("work").startSpan();
        try (LeaseholdClient client = builder.build();
                Scope scope = span.makeCurrent()) {
            String sent = client.calls.settings().traceparent();
            SpanContext of = span.getSpanContext();
            assertEquals(List.of("00", of.getTraceId(), of.getSpanId(), of.getTraceFlags().asHex()), List.of(sent.split("-")));
        }
        span.end();
    }
}
