//! Errors between a coordinator and its store.

use std::time::Duration;

use leasehold_core::name::LockName;
use thiserror::Error;

/// Error of a command.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The command was surely not carried out: the store can't be reached.
    #[error("the store is out of reach: {reason}; try again")]
    Unavailable {
        /// The cause, as far as known.
        reason: String,
    },
    /// The command was sent and no answer came: it may have been carried out.
    #[error(
        "the store did not answer, so it is not known whether the command was carried out: {reason}"
    )]
    Indeterminate {
        /// The cause, as far as known.
        reason: String,
    },
    /// It was carried out, but too few replicas have acknowledged it in time: a fail-over could undo it.
    #[error(
        "the store carried it out, but fewer than {replicas} replicas acknowledged it within {timeout:?} (--min-replicas, --replica-timeout): it does not count and is taken back; see that the replicas are up and in step"
    )]
    NotReplicated {
        /// How many had to.
        replicas: u32,
        /// How long they had.
        timeout: Duration,
    },
    /// The lock's key is used for something that is not a lock.
    #[error(
        "the Redis key of lock {name:?} holds something that is not a lock (WRONGTYPE); use another name or key prefix"
    )]
    WrongType {
        /// The lock.
        name: LockName,
    },
    /// The store refused the command, for example because it is out of memory.
    #[error("the store refused the command: {reason}")]
    Refused {
        /// The store's own words.
        reason: String,
    },
    /// This kind of store does not offer this. Nothing was done.
    #[error("{what} is not offered by this store: {why}")]
    NotOffered {
        /// The feature.
        what: &'static str,
        /// Why it is not offered, and what is instead.
        why: &'static str,
    },
    /// The store's answer was malformed.
    #[error("the store's answer could not be understood: {reason}; is this Redis 6.2 or later?")]
    Garbled {
        /// What was wrong with it.
        reason: String,
    },
}

impl StoreError {
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
