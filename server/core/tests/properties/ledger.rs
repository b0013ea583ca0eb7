//! What the clients of one name may believe, from the replies alone.

use std::time::Duration;

use leasehold_core::{
    command::{CLAIM_TIME, End, Loss, Reply},
    id::FencingToken,
    time::StoreTime,
};

use crate::{
    history::{Asked, Deed, Event, Owner},
    steps::NAMES,
};

/// A hold, and for how long it may be believed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) from: StoreTime,
    pub(crate) until: StoreTime,
    lock_delay: Duration,
}

/// A grant that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) hold: Hold,
    /// The hold before it, cut off where it was ended.
    pub(crate) before: Option<Hold>,
    /// When the name was to be open again.
    pub(crate) open_from: StoreTime,
}

/// The holds of one name.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    hold: Option<Hold>,
    past: Option<Hold>,
    open_from: StoreTime,
    /// What contradicts the hold that stands.
    pub(crate) contradictions: Vec<String>,
}

impl Ledger {
    pub(crate) fn for_all_names() -> [Self; NAMES] {
        std::array::from_fn(|_| Self {
            hold: None,
            past: None,
            open_from: StoreTime::from_micros(0),
            contradictions: Vec::new(),
        })
    }

    /// Enters an event, and gives the grant that it made. To be called with each event of this name.
    pub(crate) fn enter(&mut self, event: &Event, asked: &[Asked]) -> Option<Grant> {
        self.check(event);
        match (event.deed, &event.reply) {
            (Deed::Acquire(owner), Reply::Granted { token }) => {
                let ttl = asked[owner.0].ask.ttl;
                match &mut self.hold {
                    // The same grant, told once more.
                    Some(hold) if hold.owner == owner && hold.token == *token => {
                        hold.until = event.at.after(ttl);
                        hold.lock_delay = asked[owner.0].ask.lock_delay;
                    }
                    _ => {
                        let delay = asked[owner.0].ask.lock_delay;
                        return Some(self.grant(event, owner, *token, ttl, delay));
                    }
                }
            }
            (Deed::Renew(_, ttl), Reply::Renewed) => {
                if let Some(hold) = &mut self.hold {
                    hold.until = event.at.after(ttl);
                    hold.lock_delay = asked[hold.owner.0].ask.lock_delay;
                }
            }
            (Deed::Release(_, end), Reply::Released { held: true, .. }) => {
                self.end(event.at, end == End::Unclean);
            }
            // Takes a name from its lock-delay too.
            (Deed::Force, Reply::Forced { released: true, .. }) => self.end(event.at, false),
            _ => {}
        }
        let handed = event.handed?;
        let ask = asked[handed.owner.0].ask;
        // A hand-off to elsewhere asks for no lock-delay before it is confirmed: its client has not heard of it.
        let (ttl, delay) = if handed.coordinator == event.by {
            (ask.ttl, ask.lock_delay)
        } else {
            (CLAIM_TIME, Duration::ZERO)
        };
        Some(self.grant(event, handed.owner, handed.token, ttl, delay))
    }

    fn grant(
        &mut self,
        event: &Event,
        owner: Owner,
        token: FencingToken,
        ttl: Duration,
        lock_delay: Duration,
    ) -> Grant {
        if let Some(expired) = self.hold.take() {
            self.open_from = expired.until.after(expired.lock_delay);
            self.past = Some(expired);
        }
        let hold = Hold {
            owner,
            token,
            from: event.at,
            until: event.at.after(ttl),
            lock_delay,
        };
        self.hold = Some(hold);
        Grant {
            hold,
            before: self.past,
            open_from: self.open_from,
        }
    }

    fn end(&mut self, at: StoreTime, unclean: bool) {
        self.open_from = at;
        if let Some(mut hold) = self.hold.take() {
            hold.until = hold.until.min(at);
            if unclean {
                self.open_from = at.after(hold.lock_delay);
            }
            self.past = Some(hold);
        }
    }

    /// Whoever is told that it holds must be who holds; who holds, and whose time is not over, must not be told otherwise.
    fn check(&mut self, event: &Event) {
        let standing = self.hold.filter(|hold| hold.until > event.at);
        let (owner, told_held) = match (event.deed, &event.reply) {
            (Deed::Renew(owner, _), Reply::Renewed) => (owner, true),
            (Deed::Renew(owner, _), Reply::Lost(_)) => (owner, false),
            (Deed::SetValue(owner), Reply::ValueSet(held)) => (owner, *held),
            (Deed::Release(owner, _), Reply::Released { held, .. }) => (owner, *held),
            _ => return,
        };
        let is_known = self.hold.is_some_and(|hold| hold.owner == owner);
        let stands = standing.is_some_and(|hold| hold.owner == owner);
        if told_held && !is_known {
            self.contradictions
                .push(format!("told that it holds, but does not: {event:?}"));
        }
        if stands && !told_held {
            self.contradictions
                .push(format!("holds, but was told otherwise: {event:?}"));
        }
        let renewed_too_late = event.reply == Reply::Renewed && !stands;
        let expired_too_early = event.reply == Reply::Lost(Loss::Expired) && !is_known;
        if renewed_too_late || expired_too_early {
            self.contradictions.push(format!(
                "only what was granted and not yet over can be renewed or run out: {event:?}"
            ));
        }
    }
}
