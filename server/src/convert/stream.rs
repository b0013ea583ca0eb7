//! Kinds of the streams that are sessions, and the permissions that their requests need.

use leasehold_core::{
    id::OwnerId,
    mode::Mode,
    name::LockName,
    session::{AcquireRequest, Closer, MAX_IN_FLIGHT, MAX_PENDING_ACKS, MaxHold, Refused, Request},
};

use super::session::not_its_name;
use crate::{
    access::{
        check_granted,
        rules::{Granted, Permission, Place},
    },
    limits::Limits,
    status::Refusal,
    telemetry::waits::RequestKind,
};

/// Most proclaims that one candidacy has in flight.
pub const MAX_PROCLAIMS: usize = 64;

/// Kind of a stream that is a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lease stream of the lock service.
    LeaseStream,
    /// A candidacy for an election, whose messages its service translates.
    Candidacy,
}

impl Kind {
    /// Returns the field of the stream's first message.
    pub const fn first(self) -> &'static str {
        match self {
            Self::LeaseStream => "open",
            Self::Candidacy => "campaign",
        }
    }

    /// Returns how many answers a session may owe.
    pub fn owed(self, limits: &Limits) -> usize {
        match self {
            // Each acquire may be queued and then answered, each hold be lost or released.
            Self::LeaseStream => 2 * limits.most_locks() + MAX_IN_FLIGHT + MAX_PENDING_ACKS,
            Self::Candidacy => MAX_PROCLAIMS + MAX_PENDING_ACKS,
        }
    }

    /// Returns whether the client is told the tickets of its waiters, and so can resume their places on another stream. A
    /// candidate's place would only be in the way of others.
    pub const fn tells_tickets(self) -> bool {
        matches!(self, Self::LeaseStream)
    }

    /// Returns what a permission to hold something in this mode must be for. An election has exclusive holds only.
    pub const fn place(self, mode: Mode) -> Place {
        match (self, mode) {
            (Self::Candidacy, _) => Place::Election,
            (Self::LeaseStream, Mode::Exclusive) => Place::Either,
            (Self::LeaseStream, Mode::Shared | Mode::Semaphore(_)) => Place::Lock,
        }
    }

    /// Returns who closes the session.
    pub const fn closer(self) -> Closer {
        match self {
            Self::LeaseStream => Closer::Client,
            Self::Candidacy => Closer::Adapter,
        }
    }

    /// Reduces the bound of an acquire to that of the rules that permit its locks.
    pub fn bound(self, acquire: &mut AcquireRequest, granted: &Granted) {
        let bounds = acquire
            .locks
            .iter()
            .filter_map(|lock| granted.max_hold(self.place(lock.mode), lock.name.as_str()));
        let Some(limit) = bounds.min() else { return };
        acquire.max_hold = Some(match acquire.max_hold {
            Some(asked) => MaxHold {
                limit: limit.min(asked.limit),
                ..asked
            },
            None => MaxHold {
                limit,
                is_asked: false,
            },
        });
    }

    /// Refuses a request for whose locks the client has no permission. It needs none for a hold of its own, which `owns` tells.
    ///
    /// # Errors
    ///
    /// Also if `owns` says that a hold is of another name.
    pub fn check(
        self,
        request: &Request,
        kind: RequestKind,
        granted: &Granted,
        owns: impl Fn(&OwnerId, &LockName) -> Result<bool, Refused>,
    ) -> Result<(), Refusal> {
        let check = |mode, name: &LockName| {
            let place = self.place(mode);
            check_granted(granted, Permission::Acquire, place, name.as_str())
        };
        // A caller that has somebody else's owner id needs the permission.
        let check_hold = |name: &LockName, owner: &OwnerId| match owns(owner, name) {
            Ok(true) => Ok(()),
            Ok(false) => check(Mode::Exclusive, name),
            Err(_) => Err(not_its_name(&format!("{}.name", kind.as_str()))),
        };
        match request {
            Request::Acquire(acquire) => {
                let mut locks = acquire.locks.iter();
                locks.try_for_each(|lock| check(lock.mode, &lock.name))
            }
            Request::Release { name, owner, .. }
            | Request::SetValue { name, owner, .. }
            | Request::Reduce { name, owner, .. } => check_hold(name, owner),
            Request::Downgrade { name, owner } => {
                check_hold(name, owner)?;
                // Shared, it is nothing to an election any more.
                check(Mode::Shared, name)
            }
            Request::Heartbeat { .. } | Request::Cancel(_) | Request::Close(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::rules::{Pattern, Prefixes, Rule, Rules};

    #[test]
    fn a_hold_that_is_permitted_as_an_elections_is_made_no_shared_lock() {
        let rule = |locks: &[&str], elections: &[&str]| Rule {
            identities: vec![Pattern::parse("token:a").unwrap()],
            allow: vec![Permission::Acquire],
            locks: Prefixes::new(locks),
            elections: Prefixes::new(elections),
            max_hold: None,
        };
        let request = Request::Downgrade {
            name: LockName::parse("e").unwrap(),
            owner: OwnerId::from_bytes([1; 16]),
        };
        for (rule, is_permitted) in [(rule(&["e"], &[]), true), (rule(&[], &["e"]), false)] {
            let granted = Rules::new(&[rule]).of("token:a");
            let kind = Kind::LeaseStream;
            let checked = kind.check(&request, RequestKind::Downgrade, &granted, |_, _| Ok(true));
            assert_eq!(checked.is_ok(), is_permitted, "{granted:?}");
        }
    }
}
