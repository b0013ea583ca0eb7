//! Errors between a coordinator and its store.

use std::time::Duration;

use leasehold_core::name::LockName;
use thiserror::Error;

/// Why a command got no answer.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The command was surely not carried out: the store is out of reach.
    #[error("the store is out of reach: {reason}; try again")]
    Unavailable {
        /// What is known of the cause.
        reason: String,
    },
    /// The command was sent and no answer came: it may have been carried out.
    #[error(
        "the store did not answer, so it is not known whether the command was carried out: {reason}"
    )]
    Indeterminate {
        /// What is known of the cause.
        reason: String,
    },
    /// It was carried out, but too few replicas have acknowledged it in time: a fail-over could undo it.
    #[error(
        "the store carried it out, but fewer than {replicas} replicas acknowledged it within {timeout:?} (--min-replicas, --replica-timeout): it does not count and is taken back; see that the replicas are up and in step"
    )]
    NotReplicated {
        /// How many were to.
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
    /// The store keeps locks in a way that does not offer this. Nothing was done.
    #[error("{what} is not offered by this store: {why}")]
    NotOffered {
        /// What was asked for.
        what: &'static str,
        /// Why it is not, and what is offered instead.
        why: &'static str,
    },
    /// The store's answer made no sense.
    #[error("the store's answer could not be understood: {reason}; is this Redis 6.2 or later?")]
    Garbled {
        /// What was wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// Whether the same command may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Indeterminate { .. }
                | Self::NotReplicated { .. }
                | Self::Refused { .. }
        )
    }

    /// Whether the command may have been carried out.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. } | Self::Garbled { .. })
    }
}
