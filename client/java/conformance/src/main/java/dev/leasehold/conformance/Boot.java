package dev.leasehold.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The driver's own reading of CLOCK_BOOTTIME: nanoTime, and its distance from that clock when the program began. */
final class Boot {
    private static final long DISTANCE = measure();

    private Boot() {}

    static String now() {
        return Long.toString(System.nanoTime() + DISTANCE);
    }

    /** Waits for the file's next hundredth of a second, which begins at the moment that it says. */
    private static long measure() {
        long first = hundredths();
        while (true) {
            long next = hundredths();
            if (next != first) {
                return next * 10_000_000 - System.nanoTime();
            }
        }
    }

    private static long hundredths() {
        try {
            String text = Files.readString(Path.of("/proc/uptime"));
            return Long.parseLong(text.substring(0, text.indexOf(' ')).replace(".", ""));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
