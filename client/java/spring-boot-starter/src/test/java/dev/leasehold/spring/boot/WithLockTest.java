package dev.leasehold.spring.boot;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.leasehold.AcquireException;
import dev.leasehold.ErrorKind;
import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.processes.Coordinator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockProvider;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** Methods under locks, by annotation. */
@Timeout(300)
class WithLockTest {
    private static Coordinator coordinator;
    private static LeaseholdClient other;

    private final ApplicationContextRunner context = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class))
            .withPropertyValues("leasehold.endpoints=" + coordinator.url());

    @BeforeAll
    static void start() throws Exception {
        coordinator = Coordinator.start();
        other = LeaseholdClient.connect(coordinator.url());
    }

    @AfterAll
    static void stop() {
        other.close();
        coordinator.close();
    }

    static class Jobs {
        @WithLock("jobs/#{#p0}")
        public String job(String id) {
            Hold held = WithLockPostProcessor.heldLock();
            held.check();
            return held.name();
        }

        @WithLock("jobs/#{#nothing}")
        public void unnamed() {}

        @WithLock(value = "busy", skipIfBusy = true)
        public String skipped() {
            return "ran";
        }

        @WithLock(value = "busy", waitAtMost = "20ms")
        public String impatient() {
            return "ran";
        }

        @WithLock("future")
        public CompletableFuture<String> future() {
            return CompletableFuture.completedFuture("ran");
        }
    }

    @Test
    void aMethodRunsUnderItsLock() {
        context.withBean(Jobs.class).run(made -> {
            Jobs jobs = made.getBean(Jobs.class);
            assertThat(jobs.job("1")).isEqualTo("jobs/1");
            assertThatThrownBy(WithLockPostProcessor::heldLock).isInstanceOf(IllegalStateException.class);
            assertThat(jobs.skipped()).isEqualTo("ran");
            try (Hold busy = other.lock("busy").acquire()) {
                assertThat(jobs.skipped()).isNull();
                assertThatThrownBy(jobs::impatient)
                        .isInstanceOfSatisfying(AcquireException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.TIMED_OUT));
            }
            assertThatThrownBy(jobs::unnamed).isInstanceOf(IllegalStateException.class).hasMessageContaining("#nothing");
            assertThatThrownBy(jobs::future).isInstanceOf(IllegalStateException.class);
        });
    }

    @Configuration(proxyBeanMethods = false)
    @EnableScheduling
    @Import(LeaseholdAutoConfiguration.class)
    static class Scheduler {
        static volatile CountDownLatch begun;
        static volatile boolean isClosing;
        static volatile Path inside;

        @Bean
        LeaseholdBuilderCustomizer closes() {
            return builder -> builder.closeTimeout(Duration.ofMinutes(1)).connectTimeout(Duration.ofMinutes(1));
        }

        @Scheduled(fixedDelay = 60_000)
        @WithLock("scheduled")
        public void job() throws Exception {
            Files.createFile(inside);
            begun.countDown();
            while (!isClosing) {
                Thread.onSpinWait();
            }
            // The scheduler and the client interrupt it.
            for (long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(5); System.nanoTime() < until; ) {
                Thread.onSpinWait();
            }
            Files.delete(inside);
        }
    }

    @Test
    void aHundredEndsOfContextsWaitForScheduledMethods(@TempDir Path folder) throws Exception {
        Scheduler.inside = folder.resolve("inside");
        System.setProperty("leasehold.endpoints", coordinator.url());
        for (int round = 0; round < 100; round++) {
            Scheduler.begun = new CountDownLatch(1);
            Scheduler.isClosing = false;
            AnnotationConfigApplicationContext application = new AnnotationConfigApplicationContext(Scheduler.class);
            Scheduler.begun.await();
            CompletableFuture<Hold> next = other.lock("scheduled").acquireAsync();
            while (other.admin().getLock("scheduled").waiterCount() == 0) {
                Thread.sleep(1);
            }
            Scheduler.isClosing = true;
            application.close();
            Hold hold = next.get(60, TimeUnit.SECONDS);
            assertThat(Scheduler.inside).doesNotExist();
            hold.release();
        }
        System.clearProperty("leasehold.endpoints");
    }

    static class Caller {
        private final Inner inner;

        Caller(Inner inner) {
            this.inner = inner;
        }

        @WithLock("nested")
        public String call() {
            return inner.call();
        }
    }

    static class Inner {
        @WithLock("nested")
        public String call() {
            return "ran";
        }
    }

    @Test
    void aMethodThatNeedsItsCallersLockFailsAtOnce() {
        context.withBean(Caller.class).withBean(Inner.class).run(made -> {
            assertThatThrownBy(made.getBean(Caller.class)::call)
                    .isInstanceOfSatisfying(AcquireException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.SELF_DEADLOCK));
            assertThat(made.getBean(Inner.class).call()).isEqualTo("ran");
        });
    }

    @Test
    void aLockProviderIsThereIfShedLockIs() {
        context.run(made -> assertThat(made).hasSingleBean(LockProvider.class));
        context.withPropertyValues("leasehold.shedlock.session=true", "leasehold.shedlock.prefix=jobs/").run(made -> {
            assertThat(made.getBean(LockProvider.class).getClass().getSimpleName()).isEqualTo("LeaseholdSessionLockProvider");
        });
        context.withClassLoader(new FilteredClassLoader("net.javacrumbs.shedlock"))
                .run(made -> assertThat(made).hasSingleBean(LeaseholdClient.class).doesNotHaveBean("leaseholdLockProvider"));
    }

    @Test
    void aWrongPropertyIsNamed() {
        context.withPropertyValues("leasehold.key=key.pem")
                .run(made -> assertThat(made).getFailure().rootCause().hasMessage("certificate must not be null"));
        context.withPropertyValues("leasehold.ttl=-1s").run(made -> assertThat(made).getFailure().rootCause().hasMessageContaining("ttl"));
    }

    @Test
    void thePropertiesAreDescribedToEditors() throws Exception {
        try (var file = LeaseholdProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            String described = new String(file.readAllBytes());
            assertThat(described).contains("\"leasehold.shedlock.session\"", "URLs of coordinators, with commas in between");
        }
    }
}
