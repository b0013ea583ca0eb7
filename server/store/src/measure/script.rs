//! Names of the scripts and of their failures: bounded sets of labels.

use leasehold_core::{command::Op, failure::StoreError};

/// Declares an enum of labels, with the name of each in the metrics.
macro_rules! labels {
    ($(#[$about:meta])* $labels:ident { $($(#[$doc:meta])* $label:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $labels {
            $($(#[$doc])* $label,)*
        }

        impl $labels {
            /// All of them, in their order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$label),*];

            /// Returns its name in the metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$label => $name,)*
                }
            }
        }
    };
}

labels! {
    /// Kind of a call to a store's servers. Most are operations of `lua/`, or, on several independent masters, scripts of
    /// `lua/quorum/`.
    Script {
        /// `acquire.lua`.
        Acquire = "acquire",
        /// `renew.lua`.
        Renew = "renew",
        /// `release.lua`.
        Release = "release",
        /// `refresh.lua`.
        Refresh = "refresh",
        /// `downgrade.lua`.
        Downgrade = "downgrade",
        /// `reduce.lua`.
        Reduce = "reduce",
        /// `resume.lua`, there and in `quorum/`.
        Resume = "resume",
        /// `force_release.lua`, there and in `quorum/`.
        ForceRelease = "force_release",
        /// `request_release.lua`, there and in `quorum/`.
        RequestRelease = "request_release",
        /// `set_value.lua`, there and in `quorum/`.
        SetValue = "set_value",
        /// `set_count.lua`, there and in `quorum/`.
        SetCount = "set_count",
        /// `view.lua`.
        View = "view",
        /// `edges.lua`.
        Edges = "edges",
        /// `look_for_feed.lua`, or `quorum/look.lua`.
        Look = "look",
        /// `quorum/propose.lua`.
        Propose = "propose",
        /// `quorum/write_back.lua`.
        WriteBack = "write_back",
        /// `quorum/extend.lua`.
        Extend = "extend",
        /// `quorum/restore.lua`.
        Restore = "restore",
        /// `quorum/undo.lua`.
        Undo = "undo",
        /// `quorum/raise.lua`.
        Raise = "raise",
        /// `quorum/agree.lua`.
        Agree = "agree",
        /// `blocked.lua`: exchanges blocked waits for the detector of deadlocks.
        Blocked = "blocked",
        /// `ended_sessions.lua`: marks sessions that operators end.
        EndedSessions = "ended_sessions",
        /// The command `SCAN`: lists the locks.
        Scan = "scan",
        /// The command `WAIT`: waits for acknowledgements of replicas.
        Wait = "wait",
    }
}

labels! {
    /// Kind of a failed command.
    Failure {
        /// It was surely not carried out: the store could not be reached.
        Unavailable = "unavailable",
        /// No answer came: it may have been carried out.
        Indeterminate = "indeterminate",
        /// Too few replicas have acknowledged it.
        NotReplicated = "not_replicated",
        /// The store refused it, or its answer was malformed.
        Refused = "refused",
    }
}

impl Script {
    /// Returns the script of an operation.
    pub(crate) fn of(op: &Op) -> Self {
        match op {
            Op::Acquire(_) => Self::Acquire,
            Op::Renew { .. } => Self::Renew,
            Op::Release { .. } => Self::Release,
            Op::Refresh { .. } => Self::Refresh,
            Op::Downgrade { .. } => Self::Downgrade,
            Op::Reduce { .. } => Self::Reduce,
            Op::Resume(_) => Self::Resume,
            Op::ForceRelease | Op::ForceReleaseOne(_) => Self::ForceRelease,
            Op::RequestRelease { .. } => Self::RequestRelease,
            Op::SetValue { .. } => Self::SetValue,
            Op::SetCount { .. } => Self::SetCount,
            Op::View { .. } => Self::View,
            Op::Edges => Self::Edges,
            Op::Look { .. } => Self::Look,
        }
    }
}

impl Failure {
    pub(super) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::Unavailable,
            StoreError::Indeterminate { .. } => Self::Indeterminate,
            StoreError::NotReplicated { .. } => Self::NotReplicated,
            StoreError::WrongType { .. }
            | StoreError::Refused { .. }
            | StoreError::NotOffered { .. }
            | StoreError::Garbled { .. } => Self::Refused,
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
