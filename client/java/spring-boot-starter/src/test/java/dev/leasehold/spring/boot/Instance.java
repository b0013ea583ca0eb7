package dev.leasehold.spring.boot;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Instance of {@link LeaderApplication} in a process of its own. */
final class Instance implements AutoCloseable {
    /** Thing that it said, and when. */
    record Said(String what, long at) {}

    private final Process process;
    private final LinkedBlockingQueue<Said> said = new LinkedBlockingQueue<>();

    Instance(String endpoints) throws IOException {
        process = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "-XX:+UseSerialGC",
                        "-cp",
                        System.getProperty("java.class.path"),
                        LeaderApplication.class.getName(),
                        "--leasehold.endpoints=" + endpoints,
                        "--leasehold.ttl=2s",
                        "--leasehold.leader.role=scheduler",
                        "--spring.main.banner-mode=off",
                        "--logging.level.root=off"))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        Thread reader = new Thread(this::read);
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                if (words.length == 3 && words[0].equals("says")) {
                    said.add(new Said(words[1], Long.parseLong(words[2])));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Waits for what it says next, which must be this. Returns when it said so. */
    long says(String wanted) throws InterruptedException {
        Said next = said.poll(30, TimeUnit.SECONDS);
        if (next == null || !next.what.equals(wanted)) {
            throw new AssertionError("it should have said " + wanted + ", not " + next);
        }
        return next.at;
    }

    /** Waits for what it says next, which must be these, in either order. */
    void saysBoth(String one, String other) throws InterruptedException {
        Set<String> wanted = Set.of(one, other);
        Set<String> heard = new HashSet<>();
        while (heard.size() < wanted.size()) {
            Said next = said.poll(30, TimeUnit.SECONDS);
            if (next == null || !wanted.contains(next.what) || !heard.add(next.what)) {
                throw new AssertionError("it should have said " + wanted + ", not " + next + " after " + heard);
            }
        }
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
