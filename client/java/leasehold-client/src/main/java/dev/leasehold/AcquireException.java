package dev.leasehold;

import dev.leasehold.internal.machine.AcquireFailure;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;

/** Acquire or campaign that failed. */
public final class AcquireException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    private final String name;
    private final transient Holder holder;
    private final int limit;

    AcquireException(AcquireFailure failed) {
        super(failed.kind(), message(failed), failed.failure());
        this.name = failed.name();
        this.holder = failed.holder() == null ? null : Views.holder(failed.holder());
        this.limit = failed.limit();
    }

    AcquireException(ErrorKind kind, String name, Failure failure) {
        this(new AcquireFailure(name, kind, 0, null, 0, failure, null));
    }

    /** Returns the lock's name; of several, all of them with commas in between. */
    public String name() {
        return name;
    }

    /** Returns a holder of a lock that is busy or did not come free in time, if known. */
    public Optional<Holder> holder() {
        return Optional.ofNullable(holder);
    }

    /** Returns the semaphore's limit in force, with {@link ErrorKind#LIMIT_MISMATCH}; otherwise empty. */
    public OptionalInt limit() {
        return limit == 0 ? OptionalInt.empty() : OptionalInt.of(limit);
    }

    private static String message(AcquireFailure failed) {
        String what = "failed to acquire lock \"" + failed.name() + "\": ";
        return switch (failed.kind()) {
            case BUSY -> "lock \"" + failed.name() + "\" is busy" + by(failed.holder());
            case TIMED_OUT -> "lock \"" + failed.name() + "\" did not come free within " + Duration.ofNanos(failed.waited())
                    + by(failed.holder());
            case ALREADY_CANDIDATE -> "failed to campaign for election \"" + failed.name()
                    + "\": this session campaigns for it already, or leads it";
            case UNAVAILABLE -> {
                Object why = failed.connect() == null ? failed.failure() : failed.connect();
                yield what + "no connection to a coordinator" + (why == null ? "" : ": " + why);
            }
            case LIMIT_MISMATCH -> "failed to acquire permits of semaphore \"" + failed.name() + "\": its limit is "
                    + failed.limit() + ": " + failed.failure();
            default -> what + (failed.failure() == null ? failed.kind().description() : failed.failure().toString());
        };
    }

    private static String by(dev.leasehold.v1.Holder holder) {
        if (holder == null) {
            return "";
        }
        if (holder.getForeign()) {
            return ": held by a program that does not use Leasehold";
        }
        if (!holder.getClientName().isEmpty()) {
            return ": held by \"" + holder.getClientName() + "\"";
        }
        return holder.getSessionId().isEmpty()
                ? ": held by a caller without a session"
                : ": held by session " + holder.getSessionId();
    }
}
