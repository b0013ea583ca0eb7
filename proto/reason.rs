//! Reasons of failures, as the coordinator sends them and clients read them.

use tonic::Code;

/// Advice on sending the same request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The cause passes by itself.
    Yes,
    /// The cause concerns this coordinator alone.
    Elsewhere,
    /// The request, what the client holds, its identity or a setting has to change first.
    No,
}

impl Retry {
    /// Returns the advice as `docs/errors.md` and the command line write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Elsewhere => "elsewhere",
            Self::No => "no",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $wire:literal, $code:ident, $retry:ident;)*) => {
        /// Machine-readable reason of a failure, as `docs/errors.md` lists it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[doc = $doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the reason as it is on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)*
                }
            }

            /// Returns the reason that is written so on the wire; `None` for one that this version does not know.
            pub fn parse(wire: &str) -> Option<Self> {
                match wire {
                    $($wire => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns the status code of a failure for this reason.
            pub const fn code(self) -> Code {
                match self {
                    $(Self::$name => Code::$code,)*
                }
            }

            /// Returns whether the same request may succeed later.
            pub const fn retry(self) -> Retry {
                match self {
                    $(Self::$name => Retry::$retry,)*
                }
            }
        }
    };
}

reasons! {
    /// A field is out of bounds; the field violations say which.
    InvalidField = "INVALID_FIELD", InvalidArgument, No;
    /// The caller showed no identity, or none that the coordinator accepts.
    Unauthenticated = "UNAUTHENTICATED", Unauthenticated, No;
    /// The caller's identity has expired.
    IdentityExpired = "IDENTITY_EXPIRED", Unauthenticated, No;
    /// The caller's identity lacks a permission.
    PermissionDenied = "PERMISSION_DENIED", PermissionDenied, No;
    /// The stream's first message was not the one that opens it.
    NotOpen = "NOT_OPEN", FailedPrecondition, No;
    /// The stream was opened before.
    AlreadyOpen = "ALREADY_OPEN", FailedPrecondition, No;
    /// The first message did not come in time.
    OpenTimeout = "OPEN_TIMEOUT", DeadlineExceeded, Yes;
    /// A call was not complete in time.
    RequestTimeout = "REQUEST_TIMEOUT", DeadlineExceeded, Yes;
    /// A message held none of the requests that are known here.
    UnknownRequest = "UNKNOWN_REQUEST", InvalidArgument, No;
    /// The request id belongs to an acquire that is still in flight.
    RequestIdInUse = "REQUEST_ID_IN_USE", InvalidArgument, No;
    /// The actor holds the lock already, or waits for it, and did not ask to hold it once more.
    SelfDeadlock = "SELF_DEADLOCK", FailedPrecondition, No;
    /// The actor holds the lock in a weaker mode than it asks for.
    UpgradeRefused = "UPGRADE_REFUSED", FailedPrecondition, No;
    /// The semaphore's holders and waiters agree on another limit.
    LimitMismatch = "LIMIT_MISMATCH", FailedPrecondition, No;
    /// The hold is one of a semaphore, which can't become a shared one.
    NotExclusive = "NOT_EXCLUSIVE", FailedPrecondition, No;
    /// The hold is not one of a semaphore, so it has no permits to give back.
    NotASemaphore = "NOT_A_SEMAPHORE", FailedPrecondition, No;
    /// The wait was part of a deadlock, and the coordinator ended it so that the others go on.
    Deadlock = "DEADLOCK", Aborted, No;
    /// An operator ended the wait.
    ForceReleased = "FORCE_RELEASED", Aborted, No;
    /// The unary call was repeated, and the later attempt has its place.
    RequestRepeated = "REQUEST_REPEATED", Aborted, No;
    /// An operator ended the session.
    SessionEnded = "SESSION_ENDED", Aborted, No;
    /// The store has as many marks of ended sessions as it keeps.
    TooManyEnded = "TOO_MANY_ENDED", ResourceExhausted, Yes;
    /// A lock that the request counts on was lost before it could be served.
    LockLost = "LOCK_LOST", Aborted, No;
    /// The candidate does not lead.
    NotLeader = "NOT_LEADER", FailedPrecondition, No;
    /// The coordinator heard no heartbeat of the session for its TTL.
    SessionSilent = "SESSION_SILENT", DeadlineExceeded, Yes;
    /// The coordinator is going away.
    Draining = "DRAINING", Unavailable, Elsewhere;
    /// The coordinator, or the caller, has as many sessions as it may.
    TooManySessions = "TOO_MANY_SESSIONS", ResourceExhausted, Elsewhere;
    /// The session has as many locks and waiting acquires as it may.
    TooManyLocks = "TOO_MANY_LOCKS", ResourceExhausted, Yes;
    /// The session has as many releases and changes of values in flight as it may.
    TooManyRequests = "TOO_MANY_REQUESTS", ResourceExhausted, Yes;
    /// The caller has recently made as many requests as it may.
    RateLimited = "RATE_LIMITED", ResourceExhausted, Yes;
    /// As many acquires wait for the name as the limit permits.
    TooManyWaiters = "TOO_MANY_WAITERS", ResourceExhausted, Yes;
    /// As many streams watch as the limit permits.
    TooManyWatchers = "TOO_MANY_WATCHERS", ResourceExhausted, Elsewhere;
    /// The acquire is for more names than the limit permits.
    TooManyNames = "TOO_MANY_NAMES", ResourceExhausted, No;
    /// The request asks for a larger page of a listing than the limit permits.
    PageTooLarge = "PAGE_TOO_LARGE", ResourceExhausted, No;
    /// A message is larger than the limit permits.
    MessageTooLarge = "MESSAGE_TOO_LARGE", ResourceExhausted, No;
    /// The store is out of reach; nothing was done.
    StoreUnavailable = "STORE_UNAVAILABLE", Unavailable, Yes;
    /// The store did not answer; what was done is being undone.
    StoreIndeterminate = "STORE_INDETERMINATE", Unavailable, Yes;
    /// Too few replicas of the store have acknowledged it in time; it is taken back.
    NotReplicated = "NOT_REPLICATED", Unavailable, Yes;
    /// The store refused.
    StoreRefused = "STORE_REFUSED", Unavailable, Yes;
    /// The lock's Redis key holds something that is not a lock.
    KeyNotALock = "KEY_NOT_A_LOCK", FailedPrecondition, No;
    /// The store keeps locks in a way that does not offer what was asked for.
    NotOffered = "NOT_OFFERED", FailedPrecondition, No;
    /// The store's answer made no sense.
    StoreGarbled = "STORE_GARBLED", Internal, No;
}
