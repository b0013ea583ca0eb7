package dev.leasehold;

/**
 * Request about a hold that failed for another reason than a loss; or a check of a hold that is suspended or was released. If its kind is
 * {@link ErrorKind#UNCONFIRMED}, the request may have been carried out.
 */
public final class HoldException extends LeaseholdException {
    private static final long serialVersionUID = 1;

    private final String name;

    HoldException(String name, ErrorKind kind, Failure failure) {
        super(kind, "lock \"" + name + "\": " + (failure == null ? kind.description() : failure.toString()), failure);
        this.name = name;
    }

    /** Returns the lock's name. */
    public String name() {
        return name;
    }
}
