//! Modes of several holders of one name, and permits whose number the store chooses.

use leasehold_core::mode::{Mode, Permits};

/// Returns whether holders like these may hold a lock at the same time.
pub(crate) fn go_together(modes: &[Mode]) -> bool {
    let same_limit = |pair: &[Mode]| pair[0].limit() == pair[1].limit();
    let permits: u64 = modes.iter().map(|mode| u64::from(mode.permits())).sum();
    let limits = modes.iter().filter_map(|mode| mode.limit());
    let limit = limits.map(|limit| limit.number).min();
    modes.len() < 2
        || modes.iter().all(|mode| *mode == Mode::Shared)
        || (modes.windows(2).all(same_limit) && limit.is_some_and(|l| permits <= u64::from(l)))
}

/// Returns the mode that asks for the fewest permits that an acquire is content with.
pub(crate) fn fewest(mode: Mode) -> Mode {
    match (mode, mode.limit()) {
        (Mode::Semaphore(permits), Some(limit)) => {
            let least = permits.at_least().unwrap_or(permits.number());
            let fewest = Permits::new(least, limit.number).unwrap();
            Mode::Semaphore(fewest.of_revision(limit.revision))
        }
        _ => mode,
    }
}

/// Returns the number of permits that the store chose for a hold, if the choice was left to it.
pub(crate) fn chosen(mode: Mode) -> Option<u32> {
    match mode {
        Mode::Semaphore(permits) => permits.at_least().map(|_| permits.number()),
        _ => None,
    }
}
