//! Renewals.

use std::sync::Arc;

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Caller, End, Loss, Reply},
    id::OwnerId,
    name::LockName,
    time::{Moment, StoreTime},
};
use std::time::Duration;

use super::{
    decide::{Verdict, majority},
    master::Outcome,
    round::{Masters, Round},
    script::{Ask, Found, Said},
};
use crate::clock;

/// Renewal in flight.
pub(super) struct Extension {
    round: Round,
    sent_at: Moment,
    name: LockName,
    caller: Caller,
    owner: OwnerId,
    ttl: Duration,
}

/// Answers of the masters.
struct Heard {
    /// Masters that lack the hold, or its record, and on which it may be set again.
    lacking: Vec<usize>,
    missing: usize,
    /// Masters with another hold, and its token.
    others: Vec<(usize, i64)>,
    loss: Option<Loss>,
    /// The hold's tokens at the masters that extended it.
    tokens: Vec<i64>,
    at: StoreTime,
}

impl Heard {
    /// Notes a loss. A hold that was resumed is not lost, whatever other masters answer.
    fn lose(&mut self, loss: Loss) {
        if loss == Loss::Resumed {
            self.loss = Some(loss);
        }
        self.loss.get_or_insert(loss);
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
        &self,
        name: &LockName,
        caller: &Caller,
        owner: OwnerId,
        ttl: Duration,
    ) -> Extension {
        let sent_at = clock::now();
        let ask = Ask::Extend {
            owner,
            ttl,
            memory: caller.token_memory,
            coordinator: caller.coordinator.clone(),
        };
        Extension {
            sent_at,
            round: self.ask(name, ask),
            name: name.clone(),
            caller: caller.clone(),
            owner,
            ttl,
        }
    }
}

impl Extension {
    /// Waits for the result. Sets the hold again on masters that lack it, from another master's record.
    pub(super) async fn outcome(
        mut self,
        masters: &Arc<Masters>,
    ) -> Result<(Reply, StoreTime, Moment), StoreError> {
        let mut heard = Heard {
            lacking: Vec::new(),
            missing: 0,
            others: Vec::new(),
            loss: None,
            tokens: Vec::new(),
            at: StoreTime::from_micros(0),
        };
        let verdict = self.listen(&mut heard, masters.number()).await;
        let sent_at = self.sent_at;
        match verdict {
            Verdict::Agreed => {
                let at = heard.at;
                let masters = Arc::clone(masters);
                tokio::spawn(async move {
                    // Hears the other masters in the background, and repairs those that lack it.
                    self.listen_on(&mut heard).await;
                    self.add_others(&mut heard);
                    if !heard.lacking.is_empty() {
                        self.restore(&mut heard, &masters).await;
                    }
                });
                Ok((Reply::Renewed, at, sent_at))
            }
            Verdict::Refused => Ok(self.lost(heard, masters)),
            Verdict::Undecided => {
                self.add_others(&mut heard);
                if !heard.tokens.is_empty() && !heard.lacking.is_empty() {
                    match self.restore(&mut heard, masters).await {
                        Verdict::Agreed => return Ok((Reply::Renewed, heard.at, sent_at)),
                        Verdict::Refused => return Ok(self.lost(heard, masters)),
                        Verdict::Undecided => {}
                    }
                }
                Err(match self.round.wrong_type() {
                    Some(wrong) => wrong,
                    None => StoreError::Indeterminate {
                        reason: masters.why(&self.round),
                    },
                })
            }
        }
    }

    /// Ends a lost hold on the minority that has it, which this may have extended, because it blocks others. A hold that
    /// another stream has resumed goes on.
    fn lost(mut self, mut heard: Heard, masters: &Arc<Masters>) -> (Reply, StoreTime, Moment) {
        let loss = heard.loss.unwrap_or(Loss::Deleted);
        let lost = (Reply::Lost(loss), heard.at, self.sent_at);
        if loss != Loss::Resumed {
            let masters = Arc::clone(masters);
            tokio::spawn(async move {
                self.listen_on(&mut heard).await;
                if heard.loss != Some(Loss::Resumed) {
                    // These masters stay closed for the rest of its lock-delay, and a little longer.
                    masters.give_back(&self.name, &self.caller, self.owner, End::Unclean);
                }
            });
        }
        lost
    }

    async fn listen(&mut self, heard: &mut Heard, masters: usize) -> Verdict {
        loop {
            let verdict = self.round.tally().standing();
            if let Some(verdict @ (Verdict::Agreed | Verdict::Refused)) = verdict {
                return verdict;
            }
            // If a majority lacks it, it is lost: it is not restored from the others.
            if heard.missing >= majority(masters) {
                return Verdict::Refused;
            }
            // Masters that lack it count once it is set again there, so this waits for all of them.
            if !self.hear(heard).await {
                return Verdict::Undecided;
            }
        }
    }

    async fn listen_on(&mut self, heard: &mut Heard) {
        while self.hear(heard).await {}
    }

    /// Processes one answer; returns false if no more come.
    async fn hear(&mut self, heard: &mut Heard) -> bool {
        let Some(answer) = self.round.next().await else {
            return false;
        };
        let tally = self.round.tally();
        let Outcome::Said { reply, counts } = answer.outcome else {
            tally.out();
            return true;
        };
        heard.at = heard.at.max(reply.at);
        match reply.said {
            Said::Extended { token: Some(token) } => {
                heard.tokens.push(token);
                if counts { tally.yes() } else { tally.out() }
            }
            Said::Extended { token: None } => {
                heard.lacking.push(answer.from);
                tally.out();
            }
            Said::Gone(Loss::Deleted) => {
                heard.lacking.push(answer.from);
                heard.missing += usize::from(counts);
                tally.out();
            }
            Said::Other { token } if counts => {
                heard.others.push((answer.from, token));
                heard.lose(Loss::Taken);
                tally.no();
            }
            Said::Gone(loss) if counts => {
                heard.lose(loss);
                tally.no();
            }
            _ => tally.out(),
        }
        true
    }

    /// Counts masters that missed a resume as lacking the hold.
    fn add_others(&mut self, heard: &mut Heard) {
        let others = heard.take_others();
        self.round.tally().waive(others.len());
        heard.lacking.extend(others);
    }

    /// Sets the hold again on masters that lack it. A newer one there counts as no.
    async fn restore(&mut self, heard: &mut Heard, masters: &Arc<Masters>) -> Verdict {
        let Some((record, former)) = self.record(masters).await else {
            return Verdict::Undecided;
        };
        let ask = Ask::Restore {
            owner: self.owner,
            ttl: self.ttl,
            memory: self.caller.token_memory,
            record,
            former,
        };
        let lacking = std::mem::take(&mut heard.lacking);
        let chosen = |place: usize| lacking.contains(&place);
        let mut round = masters.ask_some(&self.name, ask, chosen);
        // The answers of the others count together with these.
        *round.tally() = self.round.tally().clone();
        round.tally().reopen(lacking.len());
        loop {
            if let Some(verdict) = round.tally().standing() {
                return verdict;
            }
            let Some(answer) = round.next().await else {
                return Verdict::Undecided;
            };
            match answer.outcome {
                Outcome::Said {
                    reply,
                    counts: true,
                } => match reply.said {
                    Said::Done => round.tally().yes(),
                    Said::Gone(Loss::Resumed) => {
                        heard.lose(Loss::Resumed);
                        round.tally().no();
                    }
                    Said::Gone(_) | Said::Above(_) => {
                        heard.lose(Loss::Taken);
                        round.tally().no();
                    }
                    _ => round.tally().out(),
                },
                _ => round.tally().out(),
            }
        }
    }

    /// Returns the hold's record, the newest that a majority has, and the owner ids replaced there.
    async fn record(&self, masters: &Masters) -> Option<(Arc<[u8]>, Arc<[u8]>)> {
        let mut round = masters.ask(&self.name, Ask::Look);
        let mut newest: Option<(Vec<u8>, Vec<u8>)> = None;
        while round.tally().votes() < majority(masters.number())
            && let Some(answer) = round.next().await
        {
            let Outcome::Said {
                reply,
                counts: true,
            } = answer.outcome
            else {
                continue;
            };
            round.tally().yes();
            let Said::Holds(Found {
                holder: Some(holder),
                record: Some(record),
                former,
                ..
            }) = reply.said
            else {
                continue;
            };
            let is_ours = holder == self.owner.as_bytes()
                && record.get(16..32) == Some(&self.owner.as_bytes()[..]);
            // The token comes first.
            if is_ours
                && newest
                    .as_ref()
                    .is_none_or(|(newest, _)| newest[..8] < record[..8])
            {
                newest = Some((record, former));
            }
        }
        newest.map(|(record, former)| (record.into(), former.into()))
    }
}
