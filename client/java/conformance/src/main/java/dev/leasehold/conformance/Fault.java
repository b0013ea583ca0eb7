package dev.leasehold.conformance;

/** Error that the driver itself reports: a fault of its own, what it can't do, or a cancel. */
final class Fault extends RuntimeException {
    private static final long serialVersionUID = 1;

    final String kind;

    Fault(String kind, String message) {
        super(message);
        this.kind = kind;
    }

    /** A body's own error. */
    static final class OfBody extends RuntimeException {
        private static final long serialVersionUID = 1;

        OfBody(String message) {
            super(message);
        }
    }

    /** End of a leader's body that has finished. */
    static final class Finished extends RuntimeException {
        private static final long serialVersionUID = 1;
    }
}
