//! Renewals.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Caller, End, Loss, Reply, Stamped},
    failure::StoreError,
    id::OwnerId,
    name::LockName,
};

use super::{
    decide::{Tally, Verdict, Vote, majority},
    round::{Masters, Round},
    script::{Ask, Found, Said},
};

/// Renewal in flight.
pub(super) struct Extension {
    round: Round,
    name: LockName,
    caller: Caller,
    owner: OwnerId,
    ttl: Duration,
    heard: Heard,
}

/// Answers of the masters.
#[derive(Default)]
struct Heard {
    /// Masters that lack the hold, or its record, and on which it may be set again.
    lacking: Vec<usize>,
    missing: usize,
    /// Masters with another hold, and its token.
    others: Vec<(usize, i64)>,
    loss: Option<Loss>,
    /// The hold's tokens at the masters that extended it.
    tokens: Vec<i64>,
}

impl Heard {
    fn judge(&mut self, from: usize, said: Said, counts: bool) -> Vote {
        match said {
            Said::Extended { token: Some(token) } => {
                self.tokens.push(token);
                Vote::Yes
            }
            Said::Extended { token: None } => {
                self.lacking.push(from);
                Vote::Out
            }
            Said::Gone(Loss::Deleted) => {
                self.lacking.push(from);
                self.missing += usize::from(counts);
                Vote::Out
            }
            Said::Other { token } if counts => {
                self.others.push((from, token));
                self.lose(Loss::Taken)
            }
            Said::Gone(loss) if counts => self.lose(loss),
            _ => Vote::Out,
        }
    }

    /// Notes a loss. A hold that was resumed is not lost, whatever other masters answer.
    fn lose(&mut self, loss: Loss) -> Vote {
        if loss == Loss::Resumed {
            self.loss = Some(loss);
        }
        self.loss.get_or_insert(loss);
        Vote::No
    }

    /// Takes the masters that missed a resume, and have the same grant under another owner id. They count as no.
    fn take_others(&mut self) -> Vec<usize> {
        let others = std::mem::take(&mut self.others).into_iter();
        let same = others.filter(|(_, token)| self.tokens.contains(token));
        same.map(|(place, _)| place).collect()
    }
}

impl Masters {
    /// Sends a renewal to all masters.
    pub(super) fn extend(
        self: &Arc<Self>,
        name: &LockName,
        caller: Caller,
        owner: OwnerId,
        ttl: Duration,
    ) -> Extension {
        Extension {
            round: self.ask(name, Ask::extend(&caller, &owner, ttl)),
            name: name.clone(),
            caller,
            owner,
            ttl,
            heard: Heard::default(),
        }
    }
}

impl Extension {
    /// Waits for the result. Sets the hold again on masters that lack it, from another master's record.
    pub(super) async fn outcome(mut self) -> Result<Stamped, StoreError> {
        let renewed = |this: &Self| this.round.stamp(Reply::Renewed);
        match self.listen().await {
            Verdict::Agreed => {
                let renewed = renewed(&self);
                tokio::spawn(async move {
                    // Hears the other masters in the background, and repairs those that lack it.
                    self.listen_on().await;
                    self.add_others();
                    if !self.heard.lacking.is_empty() {
                        self.restore().await;
                    }
                });
                Ok(renewed)
            }
            Verdict::Refused => Ok(self.lost()),
            Verdict::Undecided => {
                self.add_others();
                if !self.heard.tokens.is_empty() && !self.heard.lacking.is_empty() {
                    match self.restore().await {
                        Verdict::Agreed => return Ok(renewed(&self)),
                        Verdict::Refused => return Ok(self.lost()),
                        Verdict::Undecided => {}
                    }
                }
                Err(self.round.undecided())
            }
        }
    }

    /// Ends a lost hold on the minority that has it, which this may have extended, because it blocks others. A hold that
    /// another stream has resumed goes on.
    fn lost(mut self) -> Stamped {
        let loss = self.heard.loss.unwrap_or(Loss::Deleted);
        let lost = self.round.stamp(Reply::Lost(loss));
        if loss != Loss::Resumed {
            tokio::spawn(async move {
                self.listen_on().await;
                if self.heard.loss != Some(Loss::Resumed) {
                    // These masters stay closed for the rest of its lock-delay, and a little longer.
                    let masters = &self.round.masters;
                    masters.give_back(&self.name, &self.caller, self.owner, End::Unclean);
                }
            });
        }
        lost
    }

    async fn listen(&mut self) -> Verdict {
        let needed = majority(self.round.masters.number());
        loop {
            let verdict = self.round.tally.standing();
            if let Some(verdict @ (Verdict::Agreed | Verdict::Refused)) = verdict {
                return verdict;
            }
            // If a majority lacks it, it is lost: it is not restored from the others.
            if self.heard.missing >= needed {
                return Verdict::Refused;
            }
            // Masters that lack it count once it is set again there, so this waits for all of them.
            if !self.hear().await {
                return Verdict::Undecided;
            }
        }
    }

    async fn listen_on(&mut self) {
        while self.hear().await {}
    }

    /// Processes one answer; returns false if no more come.
    async fn hear(&mut self) -> bool {
        let judge = |from, said, counts| self.heard.judge(from, said, counts);
        self.round.hear(judge).await
    }

    /// Counts masters that missed a resume as lacking the hold.
    fn add_others(&mut self) {
        let others = self.heard.take_others();
        self.round.tally.waive(others.len());
        self.heard.lacking.extend(others);
    }

    /// Sets the hold again on masters that lack it. A newer one there counts as no.
    async fn restore(&mut self) -> Verdict {
        let Some((record, former)) = self.record().await else {
            return Verdict::Undecided;
        };
        let ask = Ask::restore(&self.caller, &self.owner, self.ttl, &record, &former);
        let lacking = std::mem::take(&mut self.heard.lacking);
        let chosen = |place: usize| lacking.contains(&place);
        let mut round = self.round.masters.ask_some(&self.name, ask, chosen);
        // The answers of the others count together with these.
        round.tally = self.round.tally.clone();
        round.tally.reopen(lacking.len());
        let heard = &mut self.heard;
        let judge = |_, said, counts| match said {
            Said::Done => Vote::Yes,
            Said::Gone(Loss::Resumed) if counts => heard.lose(Loss::Resumed),
            Said::Gone(_) | Said::Above(_) if counts => heard.lose(Loss::Taken),
            _ => Vote::Out,
        };
        round.verdict(Tally::standing, judge).await
    }

    /// Returns the hold's record, the newest that a majority has, and the owner ids replaced there.
    async fn record(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let masters = &self.round.masters;
        let owner = &self.owner.as_bytes()[..];
        let mut round = masters.ask(&self.name, Ask::look());
        let mut newest: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut judge = |_, said, counts| {
            if let Said::Holds(Found {
                holder: Some(holder),
                record: Some(record),
                former,
                ..
            }) = said
                && counts
                && holder == owner
                && record.get(16..32) == Some(owner)
                // The token comes first.
                && newest.as_ref().is_none_or(|(newest, _)| newest[..8] < record[..8])
            {
                newest = Some((record, former));
            }
            Vote::Yes
        };
        while round.tally.votes() < majority(masters.number()) && round.hear(&mut judge).await {}
        newest
    }
}
