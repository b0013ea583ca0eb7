package dev.leasehold.internal.machine;

import com.google.protobuf.Duration;

/** Arithmetic of moments, which are points on the clock that judges leases, in nanoseconds, and of durations on the wire. */
public final class Moments {
    /** Later than every other moment. It stands for a time that is not set. */
    public static final long NEVER = Long.MAX_VALUE;

    /** A millisecond, in nanoseconds. */
    public static final long MILLIS = 1_000_000;
    /** A second, in nanoseconds. */
    public static final long SECONDS = 1_000_000_000;

    private Moments() {}

    /** Returns the moment that is later by this much, or {@link #NEVER} if that is later still. A negative duration counts as none. */
    public static long after(long moment, long nanos) {
        if (nanos <= 0) {
            return moment;
        }
        return moment > NEVER - nanos ? NEVER : moment + nanos;
    }

    /** Returns the time from earlier to this moment; zero if it is not earlier. */
    public static long since(long moment, long earlier) {
        return moment <= earlier ? 0 : moment - earlier;
    }

    /** Returns a duration of the wire in nanoseconds: 0 if it is negative, and the longest one if it is longer than that. */
    public static long nanos(Duration wire) {
        long seconds = wire.getSeconds();
        if (seconds < 0 || seconds == 0 && wire.getNanos() < 0) {
            return 0;
        }
        if (seconds >= Long.MAX_VALUE / SECONDS) {
            return Long.MAX_VALUE;
        }
        return Math.max(0, seconds * SECONDS + wire.getNanos());
    }

    /** Returns a duration for the wire; negative ones count as 0. */
    public static Duration wire(long nanos) {
        long positive = Math.max(0, nanos);
        return Duration.newBuilder()
                .setSeconds(positive / SECONDS)
                .setNanos((int) (positive % SECONDS))
                .build();
    }

    /** Returns a duration in nanoseconds, or the longest one if it is longer than that. */
    public static long nanos(java.time.Duration duration) {
        try {
            return duration.toNanos();
        } catch (ArithmeticException e) {
            return duration.isNegative() ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
    }
}
