package dev.leasehold.processes;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Coordinator process, with its locks in memory: the program that {@code make build} makes, or the one that LEASEHOLD_SERVER names. */
public final class Coordinator implements AutoCloseable {
    private static final Pattern ADDRESS = Pattern.compile("grpc=(\\S+) admin=(\\S+)");

    private final Process process;
    private final String address;
    private final String adminAddress;

    private Coordinator(Process process, String address, String adminAddress) {
        this.process = process;
        this.address = address;
        this.adminAddress = adminAddress;
    }

    /** Starts one with these further arguments, on a free port unless they name one. */
    public static Coordinator start(String... arguments) throws IOException {
        String program = System.getenv("LEASEHOLD_SERVER");
        if (program == null) {
            throw new IllegalStateException("LEASEHOLD_SERVER does not name a coordinator");
        }
        List<String> words = new ArrayList<>(List.of(program, "--admin-listen", "127.0.0.1:0"));
        if (!List.of(arguments).contains("--listen")) {
            words.addAll(List.of("--listen", "127.0.0.1:0"));
        }
        words.addAll(List.of(arguments));
        Process process = new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = lines.readLine();
        Matcher found = ADDRESS.matcher(line == null ? "" : line);
        if (!found.find()) {
            process.destroyForcibly();
            throw new IllegalStateException("the coordinator does not say where it listens: " + line);
        }
        return new Coordinator(process, found.group(1), found.group(2));
    }

    /** Returns the address that it listens on. */
    public String address() {
        return address;
    }

    /** Returns the address that its admin port listens on. */
    public String adminAddress() {
        return adminAddress;
    }

    /** Returns its URL. */
    public String url() {
        return "http://" + address;
    }

    /** Asks it to stop, and waits until it has. */
    public void stop() {
        process.destroy();
        process.onExit().join();
    }

    /** Sends it a signal, such as STOP. */
    public void signal(String name) throws IOException, InterruptedException {
        String pid = Long.toString(process.pid());
        if (new ProcessBuilder("kill", "-" + name, pid).start().waitFor() != 0) {
            throw new IllegalStateException("the coordinator can't be sent " + name);
        }
    }

    /** Kills it. */
    @Override
    public void close() {
        process.destroyForcibly();
        process.onExit().join();
    }
}
