//! Resume of a hold or a queued acquire by another stream: its owner id changes.
//!
//! A hold's record is on the masters. A queued acquire is only in this coordinator's queue.

use std::sync::Arc;

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Caller, End, Loss, Reply, Resume},
    id::OwnerId,
    name::LockName,
    time::{Moment, StoreTime},
};

use super::{
    claims::{Claim, Claims, Decision, Mend},
    master::{Answer, Outcome},
    record::Record,
    round::{Masters, Round},
    script::{Ask, Said},
    store::Inner,
    waiting::{Told, place_number, stamped},
};
use crate::{clock, store::Answer as Destination};

/// Resume in flight.
pub(super) struct Takeover {
    round: Round,
    sent_at: Moment,
    name: LockName,
    caller: Caller,
    resume: Arc<Resume>,
    claims: Claims,
    /// The records of the hold, by token.
    records: Vec<(i64, Arc<[u8]>)>,
    at: StoreTime,
}

impl Masters {
    /// Sends a resume to all masters.
    pub(super) fn take_over(&self, name: &LockName, caller: Caller, resume: Resume) -> Takeover {
        let resume = Arc::new(resume);
        // The hold's validity counts from before the question is sent.
        let sent_at = clock::now();
        let ask = Ask::Resume {
            resume: Arc::clone(&resume),
            memory: caller.token_memory,
            coordinator: caller.coordinator.clone(),
        };
        Takeover {
            sent_at,
            round: self.ask(name, ask),
            name: name.clone(),
            caller,
            resume,
            claims: Claims::new(self.number()),
            records: Vec::new(),
            at: StoreTime::from_micros(0),
        }
    }
}

impl Takeover {
    /// Waits for the result. Sets the hold again on masters that lack it, from another master's record.
    pub(super) async fn outcome(
        mut self,
        masters: &Arc<Masters>,
    ) -> Result<(Reply, StoreTime, Moment), StoreError> {
        while self.claims.decision().is_none() && self.hear().await {}
        if self.claims.decision().is_none() {
            self.mend(masters).await;
        }
        let (at, sent_at) = (self.at, self.sent_at);
        match self.claims.decision() {
            Some(Decision::Resumed { token }) => {
                let reply = self.resumed(token)?;
                let masters = Arc::clone(masters);
                tokio::spawn(async move {
                    // Hears the other masters in the background, and repairs those that lack it.
                    while self.hear().await {}
                    self.mend(&masters).await;
                });
                Ok((reply, at, sent_at))
            }
            Some(Decision::Refused(loss)) => {
                self.give_back(masters);
                Ok((Reply::Lost(loss), at, sent_at))
            }
            None => Err(masters.undecided(&self.round)),
        }
    }

    /// Processes one answer; returns false if no more come.
    async fn hear(&mut self) -> bool {
        let Some(answer) = self.round.next().await else {
            return false;
        };
        self.note(answer);
        true
    }

    fn note(&mut self, answer: Answer) {
        let Outcome::Said { reply, counts } = answer.outcome else {
            return;
        };
        if counts {
            // For callers that ask how many voted.
            self.round.tally().yes();
        }
        self.at = self.at.max(reply.at);
        let claim = match reply.said {
            Said::Resumed { token, record } => {
                self.records.push((token, record.into()));
                Claim::Has { token }
            }
            Said::Gone(Loss::Deleted) => Claim::Lacks,
            Said::Gone(loss) => Claim::Gone(loss),
            _ => return,
        };
        self.claims.note(answer.from, claim, counts);
    }

    /// Sets the hold on masters that lack it. Another one there may be newer.
    async fn mend(&mut self, masters: &Arc<Masters>) {
        let Some(Mend { token, places }) = self.claims.mend() else {
            return;
        };
        let Some(record) = self.record(token) else {
            return;
        };
        let former = self.resume.from.iter().flat_map(OwnerId::as_bytes);
        let ask = Ask::Restore {
            owner: self.resume.next,
            ttl: self.resume.ttl,
            memory: self.caller.token_memory,
            record,
            former: former.copied().collect(),
        };
        let mut round = masters.ask_some(&self.name, ask, |place| places.contains(&place));
        while let Some(answer) = round.next().await {
            if let Outcome::Said { reply, counts } = answer.outcome {
                let claim = match reply.said {
                    Said::Done => Claim::Has { token },
                    Said::Gone(loss) => Claim::Gone(loss),
                    Said::Above(_) => Claim::Gone(Loss::Taken),
                    _ => continue,
                };
                self.claims.note(answer.from, claim, counts);
            }
            if self.claims.decision().is_some() {
                return;
            }
        }
    }

    fn record(&self, token: i64) -> Option<Arc<[u8]>> {
        let mut records = self.records.iter();
        let (_, record) = records.find(|(of, _)| *of == token)?;
        Some(Arc::clone(record))
    }

    fn resumed(&self, token: i64) -> Result<Reply, StoreError> {
        let record = self.record(token);
        let record = record.and_then(|record| Record::parse(&record));
        let Some(Record {
            token,
            grant: Some(grant),
        }) = record
        else {
            return Err(StoreError::Garbled {
                reason: "what is known of the hold makes no sense".to_owned(),
            });
        };
        Ok(Reply::Resumed {
            token,
            mode: grant.mode,
            actor: grant.actor,
            lock_delay: grant.lock_delay,
        })
    }

    /// Releases the hold at the minority that has or may have it, because it only blocks others.
    fn give_back(mut self, masters: &Arc<Masters>) {
        let masters = Arc::clone(masters);
        tokio::spawn(async move {
            while self.hear().await {}
            if self.claims.may_be_anywhere() {
                masters.give_back(&self.name, &self.caller, self.resume.next, End::Clean);
            }
        });
    }
}

impl Inner {
    /// Executes a resume: here, if the place is in a queue of this coordinator, or else on the masters.
    pub(super) fn resume(
        self: &Arc<Self>,
        name: LockName,
        caller: Caller,
        resume: Resume,
        answer: Destination,
    ) {
        if let Some(reply) = self.resume_place(&name, &caller, &resume) {
            let stamped = stamped(reply, self.masters.time(), clock::now());
            return self.tell(&name, vec![(answer, Ok(stamped))]);
        }
        if let Some(reason) = self.board.refused(&self.masters) {
            return answer.give(Err(StoreError::Unavailable { reason }));
        }
        let takeover = self.masters.take_over(&name, caller, resume);
        let masters = Arc::clone(&self.masters);
        self.answer(name, answer, async move {
            let (reply, at, sent_at) = takeover.outcome(&masters).await?;
            Ok(stamped(reply, at, sent_at))
        });
    }

    /// Gives a queued acquire its next owner id. A try in flight then belongs to no owner: its grant is released, and the
    /// acquire is tried again.
    fn resume_place(&self, name: &LockName, caller: &Caller, resume: &Resume) -> Option<Reply> {
        let mut told = Told::new();
        let reply = {
            let mut lines = self.lines.lock();
            let line = lines.get_mut(name)?;
            let mut ids = [resume.next].into_iter().chain(resume.from.iter().copied());
            let owner = ids.find(|owner| line.position(owner).is_some())?;
            let place = line.take_over(&owner, resume.next)?;
            let asked = &mut place.asked;
            asked.taken_over(caller, resume);
            let former = asked.answer.take();
            let acquire = Box::new(asked.acquire.clone());
            if let Some(former) = former {
                let lost = stamped(
                    Reply::Lost(Loss::Resumed),
                    self.masters.time(),
                    clock::now(),
                );
                told.push((former, Ok(lost)));
            }
            Reply::ResumedWait {
                acquire,
                position: place_number(line.position(&resume.next)?),
                expires_in: None,
            }
        };
        self.tell(name, told);
        Some(reply)
    }
}
