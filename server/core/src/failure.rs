//! Errors between a coordinator and its store.

use std::{fmt, time::Duration};

use crate::name::LockName;

/// Error of a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreError {
    /// The command was surely not carried out: the store can't be reached.
    Unavailable {
        /// The cause, as far as known.
        reason: String,
    },
    /// The command was sent and no answer came: it may have been carried out.
    Indeterminate {
        /// The cause, as far as known.
        reason: String,
    },
    /// It was carried out, but too few replicas have acknowledged it in time: a fail-over could undo it.
    NotReplicated {
        /// Number of replicas that had to acknowledge it.
        replicas: u32,
        /// Time within which they had to.
        timeout: Duration,
    },
    /// The lock's key is used for something that is not a lock.
    WrongType {
        /// The lock.
        name: LockName,
    },
    /// The store refused the command, for example because it is out of memory.
    Refused {
        /// The store's own words.
        reason: String,
    },
    /// This kind of store does not offer this. Nothing was done.
    NotOffered {
        /// The feature.
        what: &'static str,
        /// The reason, and the alternative.
        why: &'static str,
    },
    /// The store's answer was malformed.
    Garbled {
        /// The defect.
        reason: String,
    },
}

impl StoreError {
    /// Returns the failure of an acquire whose grant had run out before the coordinator learned of it.
    pub(crate) fn late_grant() -> Self {
        let reason = "the grant had run out before the coordinator learned of it".to_owned();
        Self::Unavailable { reason }
    }

    /// Returns whether the same command may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Indeterminate { .. }
                | Self::NotReplicated { .. }
                | Self::Refused { .. }
        )
    }

    /// Returns whether the command may have been carried out.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. } | Self::Garbled { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { reason } => {
                write!(f, "the store is out of reach: {reason}; try again")
            }
            Self::Indeterminate { reason } => write!(
                f,
                "the store did not answer, so it is not known whether the command was carried out: {reason}"
            ),
            Self::NotReplicated { replicas, timeout } => write!(
                f,
                "the store carried it out, but fewer than {replicas} replicas acknowledged it within {timeout:?} (--min-replicas, --replica-timeout): it does not count and is taken back; see that the replicas are up and in step"
            ),
            Self::WrongType { name } => write!(
                f,
                "the Redis key of lock {:?} holds something that is not a lock (WRONGTYPE); use another name or key prefix",
                name.as_str()
            ),
            Self::Refused { reason } => write!(f, "the store refused the command: {reason}"),
            Self::NotOffered { what, why } => {
                write!(f, "{what} is not offered by this store: {why}")
            }
            Self::Garbled { reason } => write!(
                f,
                "the store's answer could not be understood: {reason}; is this Redis 6.2 or later?"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
