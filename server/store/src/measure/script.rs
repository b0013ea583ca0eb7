//! Names of the scripts: a bounded set of labels.

use leasehold_core::command::Op;

/// Kind of a call to a store's servers. Most are operations of `lua/`, or, on several independent masters, scripts of
/// `lua/quorum/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Script {
    /// `acquire.lua`.
    Acquire,
    /// `renew.lua`.
    Renew,
    /// `release.lua`.
    Release,
    /// `refresh.lua`.
    Refresh,
    /// `downgrade.lua`.
    Downgrade,
    /// `resume.lua`, there and in `quorum/`.
    Resume,
    /// `force_release.lua`, there and in `quorum/`.
    ForceRelease,
    /// `set_value.lua`, there and in `quorum/`.
    SetValue,
    /// `set_count.lua`, there and in `quorum/`.
    SetCount,
    /// `view.lua`.
    View,
    /// `edges.lua`.
    Edges,
    /// `look_for_feed.lua`, or `quorum/look.lua`.
    Look,
    /// `quorum/propose.lua`.
    Propose,
    /// `quorum/write_back.lua`.
    WriteBack,
    /// `quorum/extend.lua`.
    Extend,
    /// `quorum/restore.lua`.
    Restore,
    /// `quorum/undo.lua`.
    Undo,
    /// `quorum/raise.lua`.
    Raise,
    /// `quorum/agree.lua`.
    Agree,
    /// `blocked.lua`: exchanges blocked waits for the detector of deadlocks.
    Blocked,
    /// The command `SCAN`: lists the locks.
    Scan,
    /// The command `WAIT`: waits for acknowledgements of replicas.
    Wait,
}

impl Script {
    /// All of them, in their order.
    pub const ALL: [Self; 22] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Refresh,
        Self::Downgrade,
        Self::Resume,
        Self::ForceRelease,
        Self::SetValue,
        Self::SetCount,
        Self::View,
        Self::Edges,
        Self::Look,
        Self::Propose,
        Self::WriteBack,
        Self::Extend,
        Self::Restore,
        Self::Undo,
        Self::Raise,
        Self::Agree,
        Self::Blocked,
        Self::Scan,
        Self::Wait,
    ];

    /// Returns its name in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Refresh => "refresh",
            Self::Downgrade => "downgrade",
            Self::Resume => "resume",
            Self::ForceRelease => "force_release",
            Self::SetValue => "set_value",
            Self::SetCount => "set_count",
            Self::View => "view",
            Self::Edges => "edges",
            Self::Look => "look",
            Self::Propose => "propose",
            Self::WriteBack => "write_back",
            Self::Extend => "extend",
            Self::Restore => "restore",
            Self::Undo => "undo",
            Self::Raise => "raise",
            Self::Agree => "agree",
            Self::Blocked => "blocked",
            Self::Scan => "scan",
            Self::Wait => "wait",
        }
    }

    /// Returns the script of an operation.
    pub(crate) fn of(op: &Op) -> Self {
        match op {
            Op::Acquire(_) => Self::Acquire,
            Op::Renew { .. } => Self::Renew,
            Op::Release { .. } => Self::Release,
            Op::Refresh { .. } => Self::Refresh,
            Op::Downgrade { .. } => Self::Downgrade,
            Op::Resume(_) => Self::Resume,
            Op::ForceRelease => Self::ForceRelease,
            Op::SetValue { .. } => Self::SetValue,
            Op::SetCount { .. } => Self::SetCount,
            Op::View { .. } => Self::View,
            Op::Edges => Self::Edges,
            Op::Look { .. } => Self::Look,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_place_and_name() {
        for (place, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, place, "{script:?}");
            let with_its_name = Script::ALL.iter().filter(|one| one.name() == script.name());
            assert_eq!(with_its_name.count(), 1, "{script:?}");
        }
    }
}
