package dev.leasehold.internal;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Clock by which a client judges its own leases: monotonic, and counting the time for which the machine was suspended.
 *
 * <p>{@link System#nanoTime()} does not count suspension on Linux: a laptop that slept through the TTL would wake up believing that it
 * still holds its locks. {@code /proc/uptime} counts it, in steps of 10 ms. So this clock is {@code nanoTime} plus what is known of their
 * difference. A reading of {@code /proc/uptime} is never later than {@code nanoTime} read after it, so that each shows the least that the
 * difference can be, and the largest seen is kept: the clock can only run ahead of its own earlier stamps, by less than a step, which
 * ends a lease too early and never too late. When the difference grows by more than a step, the machine was suspended, and the step is
 * added, because earlier stamps may have been exact. The first use waits for a step, so that it is exact from the start.
 */
public final class BootClock {
    /** Resolution of {@code /proc/uptime}. */
    private static final long STEP = 10_000_000;

    private static final AtomicLong SKEW = new AtomicLong();
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final RandomAccessFile UPTIME = open();
    private static final byte[] BUFFER = new byte[64];
    private static long difference = UPTIME == null ? 0 : measure();

    private BootClock() {}

    /** Reads the clock, in nanoseconds. */
    public static long now() {
        return read() + SKEW.get();
    }

    /** Makes the clock read more by this much from now on, as after a suspension of the machine. For tests. */
    public static void skew(long nanos) {
        SKEW.addAndGet(nanos);
    }

    private static RandomAccessFile open() {
        try {
            return new RandomAccessFile("/proc/uptime", "r");
        } catch (IOException | SecurityException e) {
            // Another system, whose nanoTime is the best there is.
            return null;
        }
    }

    private static long read() {
        if (UPTIME == null) {
            return System.nanoTime();
        }
        LOCK.lock();
        try {
            long uptime = uptime();
            long monotonic = System.nanoTime();
            long seen = uptime - monotonic;
            if (seen > difference + STEP) {
                difference = seen + STEP;
            } else if (seen > difference) {
                difference = seen;
            }
            return monotonic + difference;
        } catch (IOException e) {
            // It could be read before. What is known of the difference stays true.
            return System.nanoTime() + difference;
        } finally {
            LOCK.unlock();
        }
    }

    /** Returns the most that the difference is known to be after a step. */
    private static long measure() {
        try {
            long first = uptime();
            long most = Long.MIN_VALUE;
            long uptime;
            do {
                uptime = uptime();
                most = Math.max(most, uptime - System.nanoTime());
            } while (uptime == first);
            return most;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static long uptime() throws IOException {
        // Not a channel: an interrupt would close it, and losses interrupt threads.
        UPTIME.seek(0);
        int length = UPTIME.read(BUFFER, 0, BUFFER.length);
        long hundredths = 0;
        for (int i = 0; i < length; i++) {
            byte digit = BUFFER[i];
            if (digit == ' ') {
                return hundredths * STEP;
            }
            if (digit != '.') {
                hundredths = hundredths * 10 + (digit - '0');
            }
        }
        throw new IOException("unexpected text in /proc/uptime: " + new String(BUFFER, 0, Math.max(0, length), StandardCharsets.US_ASCII));
    }
}
