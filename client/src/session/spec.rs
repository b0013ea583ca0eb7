//! Specification of an acquire, without the caller.

use std::{fmt, slice, sync::Arc, time::Duration};

use crate::{
    proto::{v1, wire},
    trace::TraceContext,
};

/// One acquire, as long as it takes and over reconnects.
#[derive(Clone)]
pub(crate) struct AcquireSpec {
    pub(crate) names: Names,
    pub(crate) mode: Mode,
    /// Longest wait. `None` is without a bound, and zero is no wait.
    pub(crate) wait: Option<Duration>,
    pub(crate) value: Vec<u8>,
    pub(crate) lock_delay: Duration,
    /// Longest time for which each lock may be held; `None` is without a bound.
    pub(crate) max_hold: Option<Duration>,
    /// 0 for no actor.
    pub(crate) actor: u64,
    pub(crate) reentrant: bool,
    /// Trace that the request is part of; none for the context from the client's source.
    pub(crate) trace: Option<TraceContext>,
}

/// Names of the locks.
#[derive(Clone)]
pub(crate) enum Names {
    One(Arc<str>),
    /// Together or not at all.
    All(Arc<[Arc<str>]>),
}

/// Mode in which to hold them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Semaphore {
        permits: u32,
        limit: u32,
        revision: u32,
    },
}

impl AcquireSpec {
    pub(crate) fn new(names: Names, mode: Mode) -> Self {
        Self {
            names,
            mode,
            wait: None,
            value: Vec::new(),
            lock_delay: Duration::ZERO,
            max_hold: None,
            actor: 0,
            reentrant: false,
            trace: None,
        }
    }

    pub(super) fn is_try(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }

    /// Formats the specification without its value, which is the caller's business.
    pub(crate) fn debug(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(what)
            .field("name", &self.names.label())
            .field("mode", &self.mode)
            .field("wait", &self.wait)
            .field("lock_delay", &self.lock_delay)
            .field("max_hold", &self.max_hold)
            .field("actor", &self.actor)
            .field("reentrant", &self.reentrant)
            .finish_non_exhaustive()
    }

    /// Returns the request, with the rest of the wait.
    pub(super) fn message(&self, wait: Option<Duration>) -> v1::SessionAcquire {
        let (mode, permits, limit, limit_revision) = match self.mode {
            Mode::Exclusive => (v1::LockMode::Exclusive, 0, 0, 0),
            Mode::Shared => (v1::LockMode::Shared, 0, 0, 0),
            Mode::Semaphore {
                permits,
                limit,
                revision,
            } => (v1::LockMode::Semaphore, permits, limit, revision),
        };
        let (name, names) = match &self.names {
            Names::One(name) => (name.to_string(), Vec::new()),
            Names::All(names) => (
                String::new(),
                names.iter().map(|name| name.to_string()).collect(),
            ),
        };
        v1::SessionAcquire {
            name,
            mode: mode.into(),
            wait: wait.map(wire),
            value: self.value.clone(),
            lock_delay: Some(wire(self.lock_delay)),
            names,
            permits,
            limit,
            actor: self.actor,
            reentrant: self.reentrant,
            max_hold: self.max_hold.map(wire),
            limit_revision,
        }
    }
}

impl Names {
    pub(super) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::One(name) => slice::from_ref(name),
            Self::All(names) => names,
        }
    }

    /// Returns whether these locks are the named ones, each once and in the same order.
    pub(super) fn are_of(&self, locks: &[v1::GrantedLock]) -> bool {
        let names = self.as_slice();
        !names.is_empty()
            && names.len() == locks.len()
            && names
                .iter()
                .zip(locks)
                .all(|(name, lock)| **name == *lock.name)
    }

    /// Returns the name, for messages to people.
    pub(crate) fn label(&self) -> Arc<str> {
        match self {
            Self::One(name) => name.clone(),
            Self::All(names) => names.join(", ").into(),
        }
    }
}
