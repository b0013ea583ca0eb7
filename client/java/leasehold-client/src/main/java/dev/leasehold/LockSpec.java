package dev.leasehold;

import dev.leasehold.internal.Checks;

/** Lock of several that a request asks for together, with its mode. */
public final class LockSpec {
    /** Mode of a hold. */
    public enum Mode {
        /** Held by one alone. */
        EXCLUSIVE,
        /** Held together with other shared holders. */
        SHARED,
        /** Held by permits, up to a limit. */
        SEMAPHORE
    }

    private final String name;
    private final Mode mode;
    private final int permits;
    private final int atLeast;
    private final boolean isRange;
    private final int limit;
    private final int revision;

    private LockSpec(String name, Mode mode, int permits, int atLeast, boolean isRange, int limit, int revision) {
        this.name = name;
        this.mode = mode;
        this.permits = permits;
        this.atLeast = atLeast;
        this.isRange = isRange;
        this.limit = limit;
        this.revision = revision;
    }

    /** Returns an exclusive hold of the lock of this name. */
    public static LockSpec exclusive(String name) {
        return new LockSpec(Checks.given(name, "name"), Mode.EXCLUSIVE, 0, 0, false, 0, 0);
    }

    /** Returns a shared hold of the lock of this name: together with other shared holders, and never with an exclusive one. */
    public static LockSpec shared(String name) {
        return new LockSpec(Checks.given(name, "name"), Mode.SHARED, 0, 0, false, 0, 0);
    }

    /** Returns one permit of the semaphore of this name with limit permits: 1 to 1000000. */
    public static LockSpec semaphore(String name, int limit) {
        return new LockSpec(Checks.given(name, "name"), Mode.SEMAPHORE, 1, 0, false, limit, 0);
    }

    /** Asks for this many permits of a semaphore: 1 to the limit. It changes nothing in other modes. */
    public LockSpec permits(int number) {
        return mode == Mode.SEMAPHORE ? new LockSpec(name, mode, number, atLeast, isRange, limit, revision) : this;
    }

    /** Accepts fewer permits, at least this many. It changes nothing in other modes. */
    public LockSpec atLeast(int fewest) {
        return mode == Mode.SEMAPHORE ? new LockSpec(name, mode, permits, fewest, true, limit, revision) : this;
    }

    /** Sets the revision of the decision for a semaphore's limit; see {@link Semaphore#limitRevision}. It changes nothing in other modes. */
    public LockSpec limitRevision(int decision) {
        return mode == Mode.SEMAPHORE ? new LockSpec(name, mode, permits, atLeast, isRange, limit, decision) : this;
    }

    /** Returns the lock's name. */
    public String name() {
        return name;
    }

    /** Returns the mode. */
    public Mode mode() {
        return mode;
    }

    /** Returns the number of permits asked for; 0 in other modes. */
    public int permits() {
        return permits;
    }

    /** Returns the fewest permits to be content with; 0 if only the full number will do. */
    public int permitsAtLeast() {
        return atLeast;
    }

    /** Returns the semaphore's limit; 0 in other modes. */
    public int limit() {
        return limit;
    }

    /** Returns the revision of the limit. */
    public int limitRevision() {
        return revision;
    }

    /** Returns the field that is less than 1 although the wire has another meaning for 0; empty if there is none. */
    public String invalidField() {
        if (mode != Mode.SEMAPHORE) {
            return "";
        }
        if (permits < 1) {
            return "permits";
        }
        if (isRange && atLeast < 1) {
            return "permits_at_least";
        }
        return limit < 1 ? "limit" : "";
    }

    /** Returns whether one mode describes both. */
    public boolean isInSameMode(LockSpec other) {
        return mode == other.mode
                && permits == other.permits
                && atLeast == other.atLeast
                && limit == other.limit
                && revision == other.revision;
    }

    @Override
    public String toString() {
        return mode == Mode.SEMAPHORE ? name + " (" + permits + " of " + limit + " permits)" : name + " (" + mode + ")";
    }
}
