package dev.leasehold.internal;

import dev.leasehold.LockSpec;
import dev.leasehold.LostReason;
import dev.leasehold.v1.LockMode;

/** Values of enumerations that have one name on the wire, behind a prefix, and in the public interface. */
public final class Named {
    private Named() {}

    /** Returns the value of the wire in the public interface; the other one if this version does not know it. */
    public static <E extends Enum<E>> E value(Enum<?> wire, String prefix, Class<E> type, E other) {
        for (E value : type.getEnumConstants()) {
            if (wire.name().equals(prefix + value.name())) {
                return value;
            }
        }
        return other;
    }

    /** Returns the reason of a loss. */
    public static LostReason reason(dev.leasehold.v1.LostReason wire) {
        return value(wire, "LOST_REASON_", LostReason.class, LostReason.UNKNOWN);
    }

    /** Returns a mode for the wire. */
    public static LockMode mode(LockSpec.Mode mode) {
        return LockMode.valueOf("LOCK_MODE_" + mode);
    }
}
