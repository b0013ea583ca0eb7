package dev.leasehold.conformance;

import com.google.gson.Gson;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.Map;

/** File of the torture client's history. Each line is written with one system call before the caller goes on. */
final class History {
    /** Time between two looks for stalls, in milliseconds. */
    private static final long NAP = 20;
    /** A look for stalls that comes later by this much is recorded, in microseconds. */
    private static final long LATE = 100_000;

    private static final Gson GSON = new Gson();

    private final FileChannel file;

    /** Makes the file. */
    History(Path path) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
    }

    /** Returns the time in microseconds on the clock that all processes of the machine share. */
    static long now() {
        return System.nanoTime() / 1000;
    }

    /**
     * Records the times in which this process got no processor, so that a busy machine is not mistaken for a broken promise, in a file
     * beside its history.
     */
    static void watchStalls(String name, Path path) throws IOException {
        History stalls = new History(path.resolveSibling(path.getFileName().toString().replace(".jsonl", ".stalls.jsonl")));
        Thread thread = new Thread(() -> {
            long since = now();
            while (true) {
                try {
                    Thread.sleep(NAP);
                } catch (InterruptedException e) {
                    return;
                }
                long at = now();
                if (at - since > LATE) {
                    stalls.line("stalled", "process", name, "since", since);
                }
                since = at;
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Writes a line about this moment. */
    void line(String kind, Object... fields) {
        write(kind, object(fields));
    }

    /** Returns an object of JSON with these names and values, in turn. */
    static Map<String, Object> object(Object... fields) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < fields.length; i += 2) {
            object.put((String) fields[i], fields[i + 1]);
        }
        return object;
    }

    private synchronized void write(String kind, Map<String, Object> line) {
        line.put("at", now());
        line.put("kind", kind);
        try {
            file.write(ByteBuffer.wrap((GSON.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the part about an acquire and the hold that comes of it. */
    Ask ask(String client, long number) {
        return new Ask(client, number);
    }

    /** Part about an acquire and its hold. */
    final class Ask {
        private final String client;
        private final long number;

        private Ask(String client, long number) {
            this.client = client;
            this.number = number;
        }

        /** Writes a line about this moment. */
        void line(String kind, Map<String, Object> fields) {
            Map<String, Object> line = new LinkedHashMap<>(fields);
            line.put("client", client);
            line.put("ask", number);
            write(kind, line);
        }

        /** Writes a line about this moment. */
        void line(String kind, Object... fields) {
            line(kind, object(fields));
        }
    }
}
