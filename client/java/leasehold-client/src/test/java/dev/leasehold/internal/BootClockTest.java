package dev.leasehold.internal;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;

/** The clock by which leases are judged, which all tests of the process share. */
@Isolated("it changes the clock of the process")
class BootClockTest {
    @Test
    void itNeverGoesBackAndKeepsStepWithNanoTime() {
        long began = System.nanoTime();
        long first = BootClock.now();
        long last = first;
        for (int i = 0; i < 20_000; i++) {
            long now = BootClock.now();
            assertTrue(now >= last, "it went back by " + (last - now) + " ns");
            last = now;
        }
        long passed = System.nanoTime() - began;
        // The step of the file on which it is based.
        assertTrue(last - first <= passed + 20_000_000, "it ran ahead");
    }

    @Test
    void aSuspensionCountsAtOnce() {
        long before = BootClock.now();
        BootClock.skew(60_000_000_000L);
        try {
            assertTrue(BootClock.now() - before >= 60_000_000_000L);
        } finally {
            BootClock.skew(-60_000_000_000L);
        }
    }

    @Test
    void anInterruptedThreadReadsItAndStaysInterrupted() {
        Thread.currentThread().interrupt();
        long one = BootClock.now();
        assertTrue(Thread.interrupted());
        assertTrue(BootClock.now() >= one);
    }
}
