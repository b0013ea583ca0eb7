package dev.leasehold.spring.boot;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Instance of an application in a process of its own. */
final class Instance implements AutoCloseable {
    /** Thing that it said, and its numbers. */
    record Said(String what, List<Long> numbers) {}

    private final Process process;
    private final LinkedBlockingQueue<Said> said = new LinkedBlockingQueue<>();

    Instance(Class<?> application, String endpoints, String... properties) throws IOException {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty("java.class.path"),
                application.getName(),
                "--leasehold.endpoints=" + endpoints,
                "--spring.main.banner-mode=off",
                "--logging.level.root=off"));
        words.addAll(List.of(properties));
        process = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Thread reader = new Thread(this::read);
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                if (words.length >= 2 && words[0].equals("says")) {
                    said.add(new Said(
                            words[1], Stream.of(words).skip(2).map(Long::parseLong).toList()));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Waits for what it says next, which must be this. Returns when it said so. */
    long says(String wanted) throws InterruptedException {
        Said next = said.poll(120, TimeUnit.SECONDS);
        if (next == null || !next.what.equals(wanted)) {
            throw new AssertionError("it should have said " + wanted + ", not " + next);
        }
        return next.numbers.get(0);
    }

    /** Returns what it says next; null if it says nothing for so long. */
    Said next(long millis) throws InterruptedException {
        return said.poll(millis, TimeUnit.MILLISECONDS);
    }

    /** Waits for what it says next, which must be these, in any order. */
    void saysAll(String... wanted) throws InterruptedException {
        Set<String> left = new HashSet<>(Set.of(wanted));
        while (!left.isEmpty()) {
            Said next = said.poll(120, TimeUnit.SECONDS);
            if (next == null || !left.remove(next.what)) {
                throw new AssertionError("it should have said " + left + ", not " + next);
            }
        }
    }

    /** Waits for its end, and returns its exit code. */
    int exit() throws InterruptedException {
        return process.waitFor();
    }

    /** Sends it a signal, such as {@code STOP}. */
    void signal(String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        process.onExit().join();
    }
}
