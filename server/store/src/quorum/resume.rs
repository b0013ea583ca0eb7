//! Resume of a hold or a queued acquire by another stream: its owner id changes.
//!
//! A hold's record is on the masters. A queued acquire is only in this coordinator's queue.

use std::sync::Arc;

use leasehold_core::{
    command::{Caller, End, Loss, Reply, Resume, Stamped},
    failure::StoreError,
    name::LockName,
};

use super::{
    claims::{Claim, Claims, Decision, Mend},
    decide::Vote,
    record::Record,
    round::{Masters, Round},
    script::{Ask, Said, former},
    store::Inner,
    waiting::{Told, place_number},
};
use crate::store::Answer;

/// Resume in flight.
pub(super) struct Takeover {
    round: Round,
    name: LockName,
    caller: Caller,
    resume: Resume,
    claims: Claims,
    /// The records of the hold, by token.
    records: Vec<(i64, Vec<u8>)>,
}

impl Masters {
    /// Sends a resume to all masters.
    pub(super) fn take_over(
        self: &Arc<Self>,
        name: &LockName,
        caller: Caller,
        resume: Resume,
    ) -> Takeover {
        Takeover {
            round: self.ask(name, Ask::resume(&caller, &resume)),
            name: name.clone(),
            caller,
            resume,
            claims: Claims::new(self.number()),
            records: Vec::new(),
        }
    }
}

impl Takeover {
    /// Waits for the result. Sets the hold again on masters that lack it, from another master's record.
    pub(super) async fn outcome(mut self) -> Result<Stamped, StoreError> {
        while self.claims.decision().is_none() && self.hear().await {}
        if self.claims.decision().is_none() {
            self.mend().await;
        }
        match self.claims.decision() {
            Some(Decision::Resumed { token }) => {
                let resumed = self.round.stamp(self.resumed(token)?);
                tokio::spawn(async move {
                    // Hears the other masters in the background, and repairs those that lack it.
                    while self.hear().await {}
                    self.mend().await;
                });
                Ok(resumed)
            }
            Some(Decision::Refused(loss)) => {
                let lost = self.round.stamp(Reply::Lost(loss));
                self.give_back();
                Ok(lost)
            }
            None => Err(self.round.undecided()),
        }
    }

    /// Processes one answer; returns false if no more come.
    async fn hear(&mut self) -> bool {
        let judge = |from, said, counts| {
            let claim = match said {
                Said::Resumed { token, record } => {
                    self.records.push((token, record));
                    Claim::Has { token }
                }
                Said::Gone(Loss::Deleted) => Claim::Lacks,
                Said::Gone(loss) => Claim::Gone(loss),
                // For messages that say how many voted.
                _ => return Vote::Yes,
            };
            self.claims.note(from, claim, counts);
            Vote::Yes
        };
        self.round.hear(judge).await
    }

    /// Sets the hold on masters that lack it. Another one there may be newer.
    async fn mend(&mut self) {
        let Some(Mend { token, places }) = self.claims.mend() else {
            return;
        };
        let Some(record) = self.record(token) else {
            return;
        };
        let Resume { next, ttl, .. } = &self.resume;
        let ask = Ask::restore(&self.caller, next, *ttl, record, &former(&self.resume));
        let masters = Arc::clone(&self.round.masters);
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

    fn record(&self, token: i64) -> Option<&[u8]> {
        let mut records = self.records.iter();
        let (_, record) = records.find(|(of, _)| *of == token)?;
        Some(record)
    }

    fn resumed(&self, token: i64) -> Result<Reply, StoreError> {
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
            lock_delay: grant.hold.lock_delay,
        })
    }

    /// Releases the hold at the minority that has or may have it, because it only blocks others.
    fn give_back(mut self) {
        tokio::spawn(async move {
            while self.hear().await {}
            if self.claims.may_be_anywhere() {
                let masters = &self.round.masters;
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
        answer: Answer,
    ) {
        if let Some(reply) = self.resume_place(&name, &caller, &resume) {
            return self.tell(&name, vec![(answer, Ok(self.stamp(reply)))]);
        }
        if let Some(reason) = self.board.refused(&self.masters) {
            return answer.give(Err(StoreError::Unavailable { reason }));
        }
        let takeover = self.masters.take_over(&name, caller, resume);
        self.answer(name, answer, takeover.outcome());
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
            if let Some(former) = asked.answer.take() {
                told.push((former, Ok(self.stamp(Reply::Lost(Loss::Resumed)))));
            }
            let acquire = Box::new(asked.turn.acquire.clone());
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
