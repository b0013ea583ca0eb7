package dev.leasehold.internal.machine;

import dev.leasehold.LostReason;

/** Reasons for losses, as the wire has them. */
public final class LostReasons {
    private LostReasons() {}

    /** Returns the reason on the wire. One that this version does not know is unknown. */
    public static LostReason of(dev.leasehold.v1.LostReason wire) {
        return switch (wire) {
            case LOST_REASON_EXPIRED -> LostReason.EXPIRED;
            case LOST_REASON_DELETED -> LostReason.DELETED;
            case LOST_REASON_TAKEN -> LostReason.TAKEN;
            case LOST_REASON_FORCED -> LostReason.FORCED;
            case LOST_REASON_RESUMED -> LostReason.RESUMED;
            case LOST_REASON_PERMISSION_REVOKED -> LostReason.PERMISSION_REVOKED;
            case LOST_REASON_MAX_HOLD -> LostReason.MAX_HOLD;
            default -> LostReason.UNKNOWN;
        };
    }
}
