package dev.leasehold.processes;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;

/** Redis server, the store of several coordinators. */
public final class Redis implements AutoCloseable {
    private final Process process;
    private final int port;

    private Redis(Process process, int port) {
        this.process = process;
        this.port = port;
    }

    /** Starts one on a free port, which saves nothing. */
    public static Redis start() throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        Path folder = Files.createTempDirectory("leasehold-redis");
        Process process = new ProcessBuilder(
                        "redis-server", "--port", Integer.toString(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder.toString())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        BufferedReader lines = process.inputReader();
        for (String line = lines.readLine(); line == null || !line.contains("eady to accept"); line = lines.readLine()) {
            if (line == null) {
                throw new IllegalStateException("redis-server does not start");
            }
        }
        Files.delete(folder);
        return new Redis(process, port);
    }

    /** Returns its URL, for coordinators. */
    public String url() {
        return "redis://127.0.0.1:" + port;
    }

    /** Kills it. */
    @Override
    public void close() {
        process.destroyForcibly();
        process.onExit().join();
    }
}
