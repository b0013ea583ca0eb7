//! Renewals and resumes. Both ask every master to keep the hold, and set it again on masters that lack it.
//!
//! A renewal keeps the hold's owner id. A resume changes it, because another stream takes the hold over.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Caller, End, Loss, Reply, Resume, ResumedTerms, Stamped},
    failure::StoreError,
    id::{OwnerId, Predecessors},
    lease::drift_margin,
    name::LockName,
};

use super::{
    claims::{Claim, Claims, Decision, Mend},
    decide::{Vote, majority},
    record::Record,
    round::{Masters, Round},
    script::{Ask, Found, Said, former},
};
use crate::clock;

/// Renewal or resume in flight.
pub(super) struct Keeping {
    round: Round,
    name: LockName,
    caller: Caller,
    /// The owner id under which the hold goes on.
    owner: OwnerId,
    ttl: Duration,
    /// The owner ids that a resume replaces, one after the other; `None` for a renewal.
    former: Option<Vec<u8>>,
    claims: Claims,
    /// Masters with a vote that have another hold, and its token.
    others: Vec<(usize, i64)>,
    /// The hold's records in replies to a resume, by token.
    records: Vec<(i64, Vec<u8>)>,
}

/// Record of a hold, to be set on masters that lack it.
struct Known {
    token: i64,
    record: Vec<u8>,
    /// The owner ids that were replaced, one after the other.
    former: Vec<u8>,
}

impl Masters {
    /// Sends a renewal to all masters.
    pub(super) fn renew(
        self: &Arc<Self>,
        name: &LockName,
        caller: Caller,
        owner: OwnerId,
        ttl: Duration,
    ) -> Keeping {
        let ask = Ask::extend(&caller, &owner, ttl);
        self.keep(ask, name, caller, (owner, ttl), None)
    }

    /// Sends a resume to all masters.
    pub(super) fn resume(
        self: &Arc<Self>,
        name: &LockName,
        caller: Caller,
        resume: &Resume,
    ) -> Keeping {
        let ask = Ask::resume(&caller, resume);
        let goes_on = (resume.next, resume.ttl);
        self.keep(ask, name, caller, goes_on, Some(former(resume)))
    }

    fn keep(
        self: &Arc<Self>,
        ask: Ask,
        name: &LockName,
        caller: Caller,
        (owner, ttl): (OwnerId, Duration),
        former: Option<Vec<u8>>,
    ) -> Keeping {
        Keeping {
            round: self.ask(name, ask),
            name: name.clone(),
            caller,
            owner,
            ttl,
            former,
            claims: Claims::new(self.number()),
            others: Vec::new(),
            records: Vec::new(),
        }
    }
}

impl Keeping {
    /// Waits for the result. Sets the hold again on masters that lack it, from another master's record.
    pub(super) async fn outcome(mut self) -> Result<Stamped, StoreError> {
        while self.is_open() && self.hear().await {}
        if self.is_open() {
            self.mend().await;
        }
        match self.claims.decision() {
            Some(Decision::Stands { .. }) if self.is_over() => {
                let reason = format!(
                    "a majority of the masters took longer to agree than the TTL, {:?}, lasts",
                    self.ttl
                );
                Err(StoreError::Indeterminate { reason })
            }
            Some(Decision::Stands { token }) => {
                let kept = self.round.stamp(self.reply(token)?);
                tokio::spawn(async move {
                    // Hears the other masters in the background, and repairs those that lack it.
                    while self.hear().await {}
                    self.mend().await;
                });
                Ok(kept)
            }
            Some(Decision::Refused(loss)) => {
                let lost = self.round.stamp(Reply::Lost(loss));
                self.give_back();
                Ok(lost)
            }
            None => Err(self.round.undecided()),
        }
    }

    /// Returns whether it is not decided yet and may be.
    fn is_open(&self) -> bool {
        self.claims.decision().is_none() && self.claims.may_decide(self.round.unheard())
    }

    /// Returns whether the TTL has passed since the question was sent. Masters that had the hold when they answered may have lost
    /// it since, and may have granted the lock to another owner id.
    fn is_over(&self) -> bool {
        let lasts = self.ttl.saturating_sub(drift_margin(self.ttl));
        clock::now() >= self.round.sent_at.after(lasts)
    }

    /// Processes one answer; returns false if no more come.
    async fn hear(&mut self) -> bool {
        let judge = |from, said, counts| {
            let (claim, counts) = match said {
                Said::Kept { token: 0, .. } => (Claim::Lacks, false),
                Said::Kept { token, record } => {
                    self.records.push((token, record));
                    (Claim::Has { token }, counts)
                }
                Said::Other { token } => {
                    if counts {
                        self.others.push((from, token));
                    }
                    (Claim::Gone(Loss::Taken), counts)
                }
                Said::Gone(Loss::Deleted) => (Claim::Lacks, counts),
                Said::Gone(loss) => (Claim::Gone(loss), counts),
                // For messages that say how many voted.
                _ => return Vote::Yes,
            };
            self.claims.note(from, claim, counts);
            Vote::Yes
        };
        self.round.hear(judge).await
    }

    /// Sets the hold on masters that lack it, unless its time is over. Another one there may be newer.
    async fn mend(&mut self) {
        if self.is_over() {
            return;
        }
        // These masters missed a resume, and have the same grant under another owner id.
        for (place, token) in std::mem::take(&mut self.others) {
            if self.claims.has_token(token) {
                self.claims.note(place, Claim::Lacks, false);
            }
        }
        let Some(Mend { token, places }) = self.claims.mend() else {
            return;
        };
        let Some(known) = self.known(token).await else {
            return;
        };
        let token = known.token;
        let ask = Ask::restore(
            &self.caller,
            &self.owner,
            self.ttl,
            &known.record,
            &known.former,
        );
        let masters = &self.round.masters;
        let mut round = masters.ask_some(&self.name, ask, |place| places.contains(&place));
        loop {
            let judge = |from, said, counts| {
                let claim = match said {
                    Said::Done => Claim::Has { token },
                    Said::Gone(loss) => Claim::Gone(loss),
                    Said::Above(_) => Claim::Gone(Loss::Taken),
                    _ => return Vote::Out,
                };
                self.claims.note(from, claim, counts);
                Vote::Out
            };
            if !round.hear(judge).await || self.claims.decision().is_some() {
                return;
            }
        }
    }

    /// Returns what is known of the hold with this token. Replies to a renewal don't have the record, so this asks a majority
    /// for the newest one.
    async fn known(&self, token: i64) -> Option<Known> {
        if let Some(former) = self.former.clone() {
            let record = self.record(token)?.to_vec();
            return Some(Known {
                token,
                record,
                former,
            });
        }
        let masters = &self.round.masters;
        let mut round = masters.ask(&self.name, Ask::look());
        let mut newest: Option<Known> = None;
        let mut judge = |_, said, counts| {
            if let Said::Holds(found) = said
                && counts
                && let Some(known) = Known::of(found, &self.owner)
                && newest.as_ref().is_none_or(|it| it.token < known.token)
            {
                newest = Some(known);
            }
            Vote::Yes
        };
        while round.tally.votes() < majority(masters.number()) && round.hear(&mut judge).await {}
        newest
    }

    fn record(&self, token: i64) -> Option<&[u8]> {
        let mut records = self.records.iter();
        let (_, record) = records.find(|(of, _)| *of == token)?;
        Some(record)
    }

    /// Returns the predecessors on all masters that have answered: a resume that reached a minority is on some of them only.
    fn predecessors(&self, token: i64) -> Predecessors {
        let records = self.records.iter().filter(|(of, _)| *of == token);
        let grants = records.filter_map(|(_, record)| Record::parse(record)?.grant);
        let mut all = Vec::new();
        for session in grants.flat_map(|grant| grant.hold.predecessors.iter().collect::<Vec<_>>()) {
            if !all.contains(&session) {
                all.push(session);
            }
        }
        Predecessors::new(all)
    }

    fn reply(&self, token: i64) -> Result<Reply, StoreError> {
        if self.former.is_none() {
            return Ok(Reply::Renewed);
        }
        let record = self.record(token).and_then(Record::parse);
        let Some(grant) = record.and_then(|record| record.grant) else {
            return Err(StoreError::Garbled {
                reason: "what is known of the hold makes no sense".to_owned(),
            });
        };
        Ok(Reply::Resumed {
            token: grant.hold.token,
            mode: grant.hold.mode,
            actor: grant.hold.actor,
            terms: Box::new(ResumedTerms {
                lock_delay: grant.hold.lock_delay,
                ends_in: grant.hold.max_hold.map(|max_hold| {
                    let ends_at = grant.hold.acquired_at.after(max_hold);
                    self.round.at.until(ends_at)
                }),
                predecessors: self.predecessors(token),
            }),
        })
    }

    /// Ends a lost hold on the minority that has or may have it, because it only blocks others. A renewal spares a hold that
    /// another stream has resumed; otherwise these masters stay closed for the rest of the hold's lock-delay.
    fn give_back(mut self) {
        tokio::spawn(async move {
            while self.hear().await {}
            let (ends, end) = match self.former {
                Some(_) => (self.claims.may_be_anywhere(), End::Clean),
                None => (!self.claims.was_resumed(), End::Unclean),
            };
            if ends {
                let masters = &self.round.masters;
                masters.give_back(&self.name, &self.caller, self.owner, end);
            }
        });
    }
}

impl Known {
    /// Returns the record that a master has, if it is this owner's.
    fn of(found: Found, owner: &OwnerId) -> Option<Self> {
        let owner = owner.as_bytes();
        let record = found.record?;
        let parsed = Record::parse(&record)?;
        parsed.of(owner)?;
        (found.holder? == owner).then_some(Self {
            token: parsed.token.get(),
            record,
            former: found.former,
        })
    }
}
