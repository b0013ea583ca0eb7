//! Faults that tests plant in the rules and machines, to show that the checks find them. They exist only with the cargo feature
//! `planted`: without it, [`is_planted`] is always false and the compiler removes every fault.

#[cfg(feature = "planted")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Defines the faults and their names.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal,)*) => {
        /// Fault in the rules or machines. At most one is planted in a process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        #[cfg(feature = "planted")]
        impl Fault {
            /// All faults.
            pub const ALL: &'static [Self] = &[$(Self::$fault,)*];

            /// Returns its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }

            /// Returns the fault of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|fault| fault.name() == name)
            }
        }
    };
}

faults! {
    /// A release ends whatever hold there is, whoever owns it.
    ReleaseByAnyone = "release-by-anyone",
    /// A grant has the token of the grant before it.
    TokenStays = "token-stays",
    /// Tokens do not count from the floor that the coordinator asks for.
    FloorIgnored = "floor-ignored",
    /// The last waiter is served first.
    LastFirst = "last-first",
    /// A semaphore grants one permit more than its limit.
    OneAboveLimit = "one-above-limit",
    /// A hold of permits that ends gives them back twice.
    PermitsTwice = "permits-twice",
    /// A lock is free at once after an unclean end.
    LockDelayIgnored = "lock-delay-ignored",
    /// A resume leaves the former owner id valid for a release.
    ResumeKeepsOwner = "resume-keeps-owner",
    /// Watchers are not told that a lock was released.
    WatcherMissesEnd = "watcher-misses-end",
    /// A session goes on renewing a hold after it has told its client that it is lost.
    RenewalAfterLoss = "renewal-after-loss",
    /// A renewal counts from its answer, and not from when it was sent.
    RenewalFromReply = "renewal-from-reply",
    /// A hold goes on beyond the longest time for which it may be held.
    MaxHoldIgnored = "max-hold-ignored",
    /// A broken stream ends its locks although its client may still believe in them.
    CutEndsAtOnce = "cut-ends-at-once",
    /// A coordinator that stops releases the locks of its sessions.
    DrainReleases = "drain-releases",
    /// An acquire without an answer is not released, although it may have been carried out.
    UnansweredForgotten = "unanswered-forgotten",
    /// A coordinator does not tell its waiter of a hand-off that another coordinator made.
    WakeUpDropped = "wake-up-dropped",
    /// A watcher that does not read in time misses events and is not told.
    GapUntold = "gap-untold",
    /// Watchers are not told that their coordinator could not follow the store for a while.
    RestartUntold = "restart-untold",
    /// Observers are not told that a term is over.
    TermKept = "term-kept",
    /// A waiter is told of a hand-off that its coordinator has not confirmed.
    ConfirmationSkipped = "confirmation-skipped",
    /// A coordinator forgets that a candidate resigns.
    ResignDropped = "resign-dropped",
    /// A leader by a stream of its own is not told that its term is over.
    DepositionUntold = "deposition-untold",
}

/// The planted fault's place among [`Fault::ALL`], counted from 1; 0 if none is planted.
#[cfg(feature = "planted")]
static PLANTED: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this fault is planted in the process.
#[cfg(feature = "planted")]
pub fn is_planted(fault: Fault) -> bool {
    PLANTED.load(Ordering::Relaxed) == fault as usize + 1
}

/// Returns whether this fault is planted in the process.
#[cfg(not(feature = "planted"))]
pub const fn is_planted(_fault: Fault) -> bool {
    false
}

/// Plants a fault in place of the one before, or none.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    let number = fault.map_or(0, |fault| fault as usize + 1);
    PLANTED.store(number, Ordering::Relaxed);
}
