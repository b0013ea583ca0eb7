//! One master: the key of the lock by the real rules, its record of the newest token, and whether it has a vote.

use leasehold_core::{
    command::{Acquire, End, Op, Reply},
    id::OwnerId,
    lock::LockState,
    time::{Moment, StoreTime},
};
use leasehold_store::quorum::standing::{Agreement, Introduction, Run, Standing, Terms};

use super::{Flaw, Quorum};
use crate::common::{acquire, caller, holders, seconds};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Master {
    /// The key of the lock. Its tokens are not used.
    key: LockState,
    /// The newest token, and the owner id of its grant.
    pub(super) record: Option<(i64, Option<OwnerId>)>,
    /// When it came back, if it did (s since the start), and its run.
    restarted: Option<(u8, u8)>,
}

/// What a master says of a hold that is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// It has the hold, with this token.
    Has(i64),
    /// It has the key, but no record of the hold.
    Uncertain,
    Lacks,
    Taken,
}

impl Master {
    /// Returns a master that has forgotten everything.
    pub(super) fn restarted(at: u8, run: u8) -> Self {
        Self {
            restarted: Some((at, run)),
            ..Self::default()
        }
    }

    fn execute(&mut self, op: &Op, now: StoreTime) -> Reply {
        self.key.apply(&caller(0, 0), op, now).reply
    }

    pub(super) fn holder(&self, now: StoreTime) -> Option<OwnerId> {
        let holders = holders(&self.key, now);
        holders.first().map(|(owner, _)| *owner)
    }

    /// Takes the key if it is free, and proposes a token; `None` if another owner id holds it.
    pub(super) fn propose(&mut self, owner: OwnerId, ttl: u8, now: StoreTime) -> Option<i64> {
        let acquire = Op::Acquire(Acquire {
            wait: false,
            ..acquire(1, owner, ttl)
        });
        match self.execute(&acquire, now) {
            Reply::Granted { .. } => {
                let newest = self.record.map_or(0, |(token, _)| token);
                Some(now.as_micros().max(newest + 1))
            }
            _ => None,
        }
    }

    /// Makes a token the newest one, if the owner id of its grant has the key and no newer token is known.
    pub(super) fn write_back(&mut self, owner: OwnerId, token: i64, now: StoreTime) -> bool {
        let is_newest = self
            .record
            .is_none_or(|(newest, of)| newest < token || newest == token && of == Some(owner));
        let is_held = self.holder(now) == Some(owner);
        if is_held && is_newest {
            self.record = Some((token, Some(owner)));
        }
        is_held && is_newest
    }

    /// Deletes the key if the owner id has it. The token stays, and the release of a hold raises it.
    pub(super) fn release(&mut self, owner: OwnerId, was_held: bool, now: StoreTime) {
        let end = End::Clean;
        self.execute(&Op::Release { owner, end }, now);
        if let Some((token, of)) = &mut self.record
            && *of == Some(owner)
        {
            *token += i64::from(was_held);
            *of = None;
        }
    }

    /// Extends a hold that is there.
    pub(super) fn extend(&mut self, owner: OwnerId, ttl: u8, now: StoreTime) -> Said {
        let ttl = seconds(ttl);
        match (self.holder(now), self.record) {
            (None, _) => Said::Lacks,
            (Some(holder), _) if holder != owner => Said::Taken,
            (_, record) => {
                self.execute(
                    &Op::Renew {
                        owner,
                        token: None,
                        ttl,
                    },
                    now,
                );
                match record {
                    Some((token, Some(of))) if of == owner => Said::Has(token),
                    _ => Said::Uncertain,
                }
            }
        }
    }

    /// Sets a hold again, unless another one is there or a newer token is known.
    pub(super) fn restore(
        &mut self,
        (owner, token): (OwnerId, i64),
        ttl: u8,
        now: StoreTime,
        even_if_newer: bool,
    ) -> Said {
        let is_newer = self.record.is_some_and(|(newest, _)| newest > token);
        let is_other = self.holder(now).is_some_and(|holder| holder != owner);
        if is_other || is_newer && !even_if_newer {
            return Said::Taken;
        }
        self.propose(owner, ttl, now);
        self.record = Some((token, Some(owner)));
        Said::Has(token)
    }
}

impl Quorum {
    /// Returns whether a master's votes count.
    pub(super) fn has_vote(&self, master: &Master, elapsed: u8) -> bool {
        let Some((at, run)) = master.restarted else {
            return true;
        };
        if self.flaw == Some(Flaw::VotesAtOnce) {
            return true;
        }
        let moment = |at: u8| Moment::from_micros(u64::from(at) * 1_000_000);
        let introduction = Introduction {
            run: run.to_string(),
            is_durable: None,
        };
        let terms = Terms {
            hold: seconds(self.ttl),
            durable: false,
        };
        let agreement = Agreement {
            hold: terms.hold_millis(),
            has_served: false,
            seen: seconds(0),
            is_first: false,
            has_voted: false,
        };
        let run = Run::meet(&introduction, None, moment(at));
        let standing = run.standing(&introduction, &agreement, &terms, moment(elapsed));
        standing == Standing::Votes
    }
}
