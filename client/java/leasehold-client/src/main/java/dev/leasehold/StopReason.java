package dev.leasehold;

/** Reason for which work under a lock should end; see {@link Grant#stopReason}. */
public enum StopReason {
    /** The lock is lost. */
    LOST,
    /** The future that runs the work was cancelled, or completed by the program. The lock is held until the work ends. */
    CANCELLED,
    /** The client or the session is being closed. The lock is held until the work ends, or the close waits no longer. */
    CLOSED
}
