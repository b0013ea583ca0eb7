//! Faults that tests plant in the client, to show that the checks find them. They exist only with the cargo feature `planted`:
//! without it, [`is_planted`] is always false and the compiler removes every fault. The coordinator's are in `leasehold-core`, on
//! which the client does not depend.

#[cfg(feature = "planted")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Defines the faults and their names.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal,)*) => {
        /// Fault in the client. At most one is planted in a process.
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
    /// A deadline counts from when the answer to a heartbeat came, and not from when the heartbeat was sent.
    DeadlineFromReceipt = "deadline-from-receipt",
    /// A session that leaves a coordinator that goes away does not resume its first hold.
    ForgottenInDrain = "forgotten-in-drain",
    /// Guards stay held when the stream breaks.
    BreakIgnored = "break-ignored",
    /// Guards stay held when the coordinator says that their locks are lost.
    LossIgnored = "loss-ignored",
    /// A session campaigns for an election that it leads, or for which it campaigns already.
    SecondCandidacy = "second-candidacy",
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

/// Plants the fault that the environment variable `LEASEHOLD_PLANTED` names, if it is set, and returns it.
///
/// # Errors
///
/// Returns the name if there is no such fault.
#[cfg(feature = "planted")]
pub fn plant_from_environment() -> Result<Option<Fault>, String> {
    let Ok(name) = std::env::var("LEASEHOLD_PLANTED") else {
        return Ok(None);
    };
    let fault = Fault::named(&name).ok_or(name)?;
    plant(Some(fault));
    Ok(Some(fault))
}
