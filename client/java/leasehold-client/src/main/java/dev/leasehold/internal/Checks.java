package dev.leasehold.internal;

import dev.leasehold.Failure;
import dev.leasehold.LockSpec;
import dev.leasehold.internal.machine.AcquireSpec;
import dev.leasehold.internal.machine.Moments;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Checks of what programs pass, by the bounds of the protocol, before anything is noted or sent. A message that can't be read would end the
 * whole stream, and 0 is the default on the wire. They return what a coordinator would answer; null if nothing is wrong.
 */
public final class Checks {
    private static final int LONGEST_NAME = 512;
    private static final int LONGEST_TEXT = 256;
    private static final int LONGEST_VALUE = 4096;
    private static final int LARGEST_LIMIT = 1_000_000;
    private static final int MOST_LOCKS = 1000;
    /** Longest wait that a request may have. */
    public static final Duration LONGEST_WAIT_TIME = Duration.ofHours(24);

    private static final long LONGEST_WAIT = LONGEST_WAIT_TIME.toNanos();
    private static final long LONGEST_HOLD = TimeUnit.DAYS.toNanos(365);

    private Checks() {}

    /** Returns an argument, unless it is null. */
    public static <T> T given(T argument, String what) {
        if (argument == null) {
            throw new IllegalArgumentException(what + " must not be null");
        }
        return argument;
    }

    /** Returns the length in UTF-8; -1 if it can't be encoded. */
    private static int size(String text) {
        // A larger one is out of bounds anyway.
        if (text.length() > LONGEST_NAME) {
            return text.length();
        }
        try {
            return StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)).remaining();
        } catch (CharacterCodingException e) {
            return -1;
        }
    }

    private static boolean isText(String text, int least, int most) {
        int size = size(text);
        return size >= least && size <= most && text.chars().noneMatch(Character::isISOControl);
    }

    private static Failure unless(boolean isGood, String field, String what) {
        return isGood ? null : Failures.invalidField(field, "must be " + what);
    }

    private static Failure first(Failure... failures) {
        for (Failure failure : failures) {
            if (failure != null) {
                return failure;
            }
        }
        return null;
    }

    /** Checks the name of a lock, an election or a session. */
    public static Failure name(String name) {
        return unless(isText(name, 1, LONGEST_NAME), "name", "1 to 512 bytes of UTF-8 without control characters");
    }

    /** Checks the beginning of names. */
    public static Failure prefix(String prefix) {
        int size = size(prefix);
        return unless(size >= 0 && size <= LONGEST_NAME, "prefix", "at most 512 bytes of UTF-8");
    }

    /** Checks whether a text can be encoded. */
    public static Failure encodable(String text, String field) {
        return unless(size(text) >= 0, field, "text that UTF-8 can encode");
    }

    /** Checks a text for people. */
    public static Failure text(String text, String field) {
        return unless(isText(text, 0, LONGEST_TEXT), field, "at most 256 bytes of UTF-8 without control characters");
    }

    /** Checks free text: keys and what they stand for. */
    public static Failure metadata(Map<String, String> metadata) {
        boolean isGood = metadata.size() <= 16
                && metadata.entrySet().stream().allMatch(entry -> isText(entry.getKey(), 1, 64) && isText(entry.getValue(), 0, LONGEST_TEXT));
        return unless(isGood, "metadata", "at most 16 entries with keys of 1 to 64 bytes and values of at most 256");
    }

    /** Checks the size of a value, in bytes. */
    public static Failure value(int size) {
        return unless(size <= LONGEST_VALUE, "value", "at most 4096 bytes");
    }

    /** Checks a fencing token, or the number of a waiter. */
    public static Failure token(long token, String field) {
        return unless(token >= 0, field, "0 or more");
    }

    /** Checks the time, in nanoseconds, that holders are given; 0 for none. */
    public static Failure within(long nanos) {
        return unless(nanos == 0 || nanos >= Moments.SECONDS && nanos <= LONGEST_WAIT, "within", "1 s to 24 h, or zero");
    }

    /** Checks a time in nanoseconds that must not be negative. */
    public static Failure time(long nanos, String field) {
        return unless(nanos >= 0, field, "0 or more");
    }

    /** Checks a time in nanoseconds that must be positive. */
    public static Failure positive(long nanos, String field) {
        return unless(nanos > 0, field, "more than 0");
    }

    /** Checks a wait in nanoseconds. */
    public static Failure longestWait(long nanos) {
        return unless(nanos >= 0 && nanos <= LONGEST_WAIT, "wait", "0 to 24 h");
    }

    /** Checks one lock of a request. */
    public static Failure lock(LockSpec lock) {
        Failure wrong = name(lock.name());
        if (wrong != null || lock.mode() != LockSpec.Mode.SEMAPHORE) {
            return wrong;
        }
        return first(
                lock.invalidField().isEmpty() ? null : Failures.invalidField(lock.invalidField(), "must be at least 1"),
                unless(lock.limit() <= LARGEST_LIMIT, "limit", "1 to 1000000"),
                unless(lock.limitRevision() >= 0, "limit_revision", "0 or more"));
    }

    /** Checks a request on a session. */
    public static Failure acquire(AcquireSpec spec) {
        if (spec.locks().isEmpty() || spec.locks().size() > MOST_LOCKS) {
            return Failures.invalidField("locks", "must be 1 to 1000 locks");
        }
        Set<String> names = new HashSet<>();
        for (LockSpec lock : spec.locks()) {
            Failure wrong = lock(lock);
            if (wrong != null) {
                return wrong;
            }
            names.add(lock.name());
        }
        boolean hasBound = spec.maxHold() != 0;
        return first(
                unless(names.size() == spec.locks().size(), "locks", "locks of different names"),
                spec.longestWait() == Moments.NEVER ? null : longestWait(spec.longestWait()),
                value(spec.value().size()),
                time(spec.lockDelay(), "lock_delay"),
                unless(!hasBound || spec.maxHold() >= Moments.SECONDS && spec.maxHold() <= LONGEST_HOLD, "max_hold", "1 s to 365 days"));
    }

    /** Returns a name for messages to people: not all of one that is out of bounds. */
    public static String shown(String name) {
        return name.length() <= LONGEST_NAME ? name : name.substring(0, LONGEST_NAME) + "…";
    }
}
