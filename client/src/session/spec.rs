//! Specification of an acquire, without the caller.

use std::{fmt, slice, sync::Arc, time::Duration};

use super::lock_spec::{LockSpec, Mode};
use crate::{
    error::Failure,
    proto::{v1, wire},
    trace::TraceContext,
};

/// Most names of an acquire at any coordinator.
const MOST_NAMES: usize = 1000;
/// Most bytes of a name.
const LONGEST_NAME: usize = 512;
/// Most bytes of a value.
const LONGEST_VALUE: usize = 4096;

/// Returns what is wrong with a value.
pub(crate) fn value_fault(value: &[u8]) -> Option<String> {
    let length = value.len();
    (length > LONGEST_VALUE).then(|| format!("must be at most 4096 bytes, not {length}"))
}

/// One acquire, as long as it takes and over reconnects.
#[derive(Clone)]
pub(crate) struct AcquireSpec {
    pub(crate) locks: Locks,
    /// Longest wait. `None` is without a bound, and zero is no wait.
    pub(crate) wait: Option<Duration>,
    pub(crate) value: Vec<u8>,
    pub(crate) lock_delay: Duration,
    /// Longest time for which each lock may be held; `None` is without a bound.
    pub(crate) max_hold: Option<Duration>,
    /// 0 for no actor.
    pub(crate) actor: u64,
    pub(crate) reentrant: bool,
    /// It fails as soon as the coordinator can't serve it.
    pub(crate) without_retries: bool,
    /// Trace that the request is part of; none for the context from the client's source.
    pub(crate) trace: Option<TraceContext>,
}

/// Locks, each with its mode.
#[derive(Clone)]
pub(crate) enum Locks {
    One(LockSpec),
    /// Together or not at all.
    All(Arc<[LockSpec]>),
}

impl AcquireSpec {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            wait: None,
            value: Vec::new(),
            lock_delay: Duration::ZERO,
            max_hold: None,
            actor: 0,
            reentrant: false,
            without_retries: false,
            trace: None,
        }
    }

    /// Returns what is wrong with it that no coordinator could answer, because of its size or because it would take it for something else:
    /// `SessionAcquire` in the proto has the bounds.
    pub(crate) fn fault(&self) -> Option<Failure> {
        let locks = self.locks.as_slice();
        let invalid =
            |field: &str, why: &str| Some(Failure::invalid_field(&format!("acquire.{field}"), why));
        if locks.len() > MOST_NAMES {
            return invalid("names", "must be at most 1000");
        }
        if let Some(lock) = locks.iter().find(|lock| lock.name.len() > LONGEST_NAME) {
            let length = lock.name.len();
            return invalid("name", &format!("must be 1 to 512 bytes, not {length}"));
        }
        if let Some(field) = locks.iter().find_map(|lock| lock.mode.zero()) {
            // The coordinator would take 0 for the default.
            return invalid(field, "must be at least 1");
        }
        let why = value_fault(&self.value)?;
        invalid("value", &why)
    }

    pub(super) fn is_try(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }

    /// Formats the specification without its value, which is the caller's business.
    pub(crate) fn debug(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(what)
            .field("locks", &self.locks.as_slice())
            .field("wait", &self.wait)
            .field("lock_delay", &self.lock_delay)
            .field("max_hold", &self.max_hold)
            .field("actor", &self.actor)
            .field("reentrant", &self.reentrant)
            .finish_non_exhaustive()
    }

    /// Returns the request, with the rest of the wait.
    pub(super) fn message(&self, wait: Option<Duration>) -> v1::SessionAcquire {
        let mut asked = v1::SessionAcquire {
            wait: wait.map(wire),
            value: self.value.clone(),
            lock_delay: Some(wire(self.lock_delay)),
            actor: self.actor,
            reentrant: self.reentrant,
            max_hold: self.max_hold.map(wire),
            ..v1::SessionAcquire::default()
        };
        let locks = self.locks.as_slice();
        // Coordinators of every version know one mode for all.
        if locks.windows(2).all(|two| two[0].mode == two[1].mode) {
            let mode = locks.first().map_or(Mode::Exclusive, |lock| lock.mode);
            let wire = mode.wire();
            asked.set_mode(wire.mode());
            (asked.permits, asked.limit) = (wire.permits, wire.limit);
            asked.limit_revision = wire.limit_revision;
            asked.permits_at_least = wire.permits_at_least;
            match &self.locks {
                Locks::One(lock) => asked.name = lock.name.to_string(),
                Locks::All(locks) => {
                    asked.names = locks.iter().map(|lock| lock.name.to_string()).collect();
                }
            }
        } else {
            asked.locks = locks.iter().map(LockSpec::message).collect();
        }
        asked
    }
}

impl Locks {
    pub(crate) fn as_slice(&self) -> &[LockSpec] {
        match self {
            Self::One(lock) => slice::from_ref(lock),
            Self::All(locks) => locks,
        }
    }

    /// Returns the same locks, all in this mode.
    pub(crate) fn in_mode(&self, mode: Mode) -> Self {
        let in_mode = |lock: &LockSpec| LockSpec::new(lock.name.clone(), mode);
        match self {
            Self::One(lock) => Self::One(in_mode(lock)),
            Self::All(locks) => Self::All(locks.iter().map(in_mode).collect()),
        }
    }

    /// Returns whether these locks are the named ones, each once and in the same order.
    pub(super) fn are_of(&self, locks: &[v1::GrantedLock]) -> bool {
        let asked = self.as_slice();
        !asked.is_empty()
            && asked.len() == locks.len()
            && asked
                .iter()
                .zip(locks)
                .all(|(asked, lock)| *asked.name == *lock.name)
    }

    /// Returns the name, for messages to people.
    pub(crate) fn label(&self) -> Arc<str> {
        match self {
            Self::One(lock) => lock.name.clone(),
            Self::All(locks) => {
                let names: Vec<&str> = locks.iter().map(LockSpec::name).collect();
                names.join(", ").into()
            }
        }
    }
}
