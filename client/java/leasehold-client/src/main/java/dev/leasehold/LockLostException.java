package dev.leasehold;

/** Loss of a lock. */
public final class LockLostException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    private final String name;
    private final long token;
    private final LostReason reason;

    LockLostException(String name, long token, LostReason reason) {
        super(ErrorKind.LOST, "lost lock \"" + name + "\": " + reason.description(), null);
        this.name = name;
        this.token = token;
        this.reason = reason;
    }

    /** Returns the lock's name. */
    public String name() {
        return name;
    }

    /** Returns the fencing token of the hold. */
    public long token() {
        return token;
    }

    /** Returns why it was lost. */
    public LostReason reason() {
        return reason;
    }
}
