package dev.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;

import dev.leasehold.processes.Coordinator;
import dev.leasehold.processes.Redis;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Two instances of an application with jobs under locks of ShedLock, under a lock of the registry, and of the leader, over two coordinators of
 * one store, which are restarted one after the other, and then are both away.
 */
class ScheduledApplicationTest {
    private static final List<String> JOBS = List.of("report", "sweep", "guarded", "led");
    /** Runs of each job that are waited for, each time. */
    private static final int RUNS = 3;

    /** Time in which a job ran, or its lock was closed, in milliseconds. */
    private record Span(long from, long to) {}

    private final List<Instance> instances = new ArrayList<>();
    private final Map<String, List<Span>> runs = new HashMap<>();
    private final Map<String, List<Span>> locks = new HashMap<>();
    private int failures;
    private int losses;

    private void note(Instance.Said said) {
        if (said.what().equals("failed")) {
            failures++;
        } else if (said.what().equals("lost")) {
            losses++;
        } else {
            String[] words = said.what().split("-");
            Map<String, List<Span>> spans = words[1].equals("ran") ? runs : locks;
            spans.computeIfAbsent(words[0], none -> new ArrayList<>())
                    .add(new Span(said.numbers().get(0), said.numbers().get(1)));
        }
    }

    private void listen() throws InterruptedException {
        for (Instance instance : instances) {
            for (Instance.Said said = instance.next(10); said != null; said = instance.next(0)) {
                note(said);
            }
        }
    }

    private int count(String job) {
        return runs.getOrDefault(job, List.of()).size();
    }

    /** Waits until each job has run several times more. */
    private void awaitRuns() throws InterruptedException {
        Map<String, Integer> before = new HashMap<>();
        JOBS.forEach(job -> before.put(job, count(job)));
        while (JOBS.stream().anyMatch(job -> count(job) < before.get(job) + RUNS)) {
            listen();
        }
    }

    /** Checks that each began only when the one before had ended. */
    private static void assertApart(String what, List<Span> spans) {
        List<Span> sorted = spans.stream().sorted(Comparator.comparing(Span::from)).toList();
        for (int i = 1; i < sorted.size(); i++) {
            assertThat(sorted.get(i).from()).as("%s: %s", what, sorted).isGreaterThanOrEqualTo(sorted.get(i - 1).to());
        }
    }

    private static Instance instance(String endpoints) throws IOException {
        return new Instance(
                ScheduledApplication.class,
                endpoints,
                // For a busy machine, with which the locks of what was killed stay for as long: the sessions resume theirs.
                "--leasehold.ttl=30s",
                "--leasehold.grace=30s",
                "--leasehold.leader.role=scheduler",
                "--spring.task.scheduling.pool.size=4");
    }

    @Test
    @Timeout(300)
    void jobsRunOnceWhileCoordinatorsAreRestarted() throws Exception {
        try (Redis redis = Redis.start()) {
            Coordinator one = Coordinator.start("--store", redis.url());
            Coordinator other = Coordinator.start("--store", redis.url());
            String endpoints = one.url() + "," + other.url();
            try (Instance first = instance(endpoints);
                    Instance second = instance(endpoints)) {
                instances.addAll(List.of(first, second));
                awaitRuns();
                for (Coordinator restarted : List.of(one, other)) {
                    restarted.stop();
                    awaitRuns();
                    Coordinator again = Coordinator.start("--store", redis.url(), "--listen", restarted.address());
                    one = restarted == one ? again : one;
                    other = restarted == other ? again : other;
                    awaitRuns();
                }
                assertThat(failures).as("attempts that failed while one coordinator was there").isZero();
                assertThat(losses).as("locks lost while one coordinator was there").isZero();
                one.close();
                other.close();
                for (long end = System.nanoTime() + 5_000_000_000L; System.nanoTime() < end; ) {
                    listen();
                }
                one = Coordinator.start("--store", redis.url(), "--listen", one.address());
                other = Coordinator.start("--store", redis.url(), "--listen", other.address());
                awaitRuns();
            } finally {
                one.close();
                other.close();
            }
        }
        runs.forEach((job, spans) -> assertApart("runs of " + job, spans));
        locks.forEach((job, spans) -> assertApart("locks of " + job, spans));
    }
}
