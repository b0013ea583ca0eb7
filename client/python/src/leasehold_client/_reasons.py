"""Reasons of failures that a coordinator answers with, and whether a retry can help; `docs/errors.md` has their meanings."""

SESSION_ENDED = "SESSION_ENDED"
"""Reason of the end of a session that an operator ended."""

RETRYABLE = frozenset(
    {
        "DRAINING",
        "NOT_REPLICATED",
        "OPEN_TIMEOUT",
        "RATE_LIMITED",
        "REQUEST_TIMEOUT",
        "SESSION_SILENT",
        "STORE_INDETERMINATE",
        "STORE_REFUSED",
        "STORE_UNAVAILABLE",
        "TOO_MANY_ENDED",
        "TOO_MANY_LOCKS",
        "TOO_MANY_REQUESTS",
        "TOO_MANY_SESSIONS",
        "TOO_MANY_WAITERS",
        "TOO_MANY_WATCHERS",
    }
)
"""Reasons after which the same request may succeed later, or at another coordinator."""

FINAL = frozenset(
    {
        "ALREADY_OPEN",
        "DEADLOCK",
        "FORCE_RELEASED",
        "IDENTITY_EXPIRED",
        "INVALID_FIELD",
        "KEY_NOT_A_LOCK",
        "LIMIT_MISMATCH",
        "LOCK_LOST",
        "MESSAGE_TOO_LARGE",
        "NOT_A_SEMAPHORE",
        "NOT_EXCLUSIVE",
        "NOT_LEADER",
        "NOT_OFFERED",
        "NOT_OPEN",
        "PAGE_TOO_LARGE",
        "PERMISSION_DENIED",
        "REQUEST_ID_IN_USE",
        "REQUEST_REPEATED",
        "SELF_DEADLOCK",
        "SESSION_ENDED",
        "STORE_GARBLED",
        "TOO_MANY_NAMES",
        "UNAUTHENTICATED",
        "UNKNOWN_REQUEST",
        "UPGRADE_REFUSED",
    }
)
"""Reasons after which the same request fails again."""

PASSING = frozenset({"DRAINING", "NOT_REPLICATED", "STORE_INDETERMINATE", "STORE_REFUSED", "STORE_UNAVAILABLE"})
"""Reasons that pass while an acquire waits: the store is out of reach for a while, or another coordinator takes over."""

BEFORE_THE_STORE = frozenset(
    {
        "DRAINING",
        "INVALID_FIELD",
        "MESSAGE_TOO_LARGE",
        "NOT_OPEN",
        "OPEN_TIMEOUT",
        "PERMISSION_DENIED",
        "RATE_LIMITED",
        "TOO_MANY_LOCKS",
        "TOO_MANY_SESSIONS",
        "UNAUTHENTICATED",
        "UNKNOWN_REQUEST",
    }
)
"""Reasons that end a stream before its coordinator has asked the store for anything."""
