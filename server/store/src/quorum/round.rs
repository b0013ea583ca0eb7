//! One question to all masters at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    command::{Executed, Reply, Stamped},
    failure::StoreError,
    name::LockName,
    time::{Moment, StoreTime},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    decide::{Tally, Verdict, Vote, majority},
    master::{Answer, Master, Outcome, Question},
    script::{Ask, Said},
    standing::{Standing, Terms},
    undoing::{Undoing, Undone},
};
use crate::{clock, redis::keys::Keys};

/// Pause before a release that a master owes is tried again, while it answers with errors.
const RETRY: Duration = Duration::from_millis(200);
/// Most releases that one master may owe; further holds expire.
const MOST_OWED: usize = 4096;

/// All masters.
pub(super) struct Masters {
    pub(super) all: Vec<Arc<Master>>,
    pub(super) keys: Keys,
    /// The time-out of an answer.
    pub(super) patience: Duration,
    pub(super) terms: Terms,
    /// One more than the largest token that this coordinator ever wrote back, even in a failed try.
    pub(super) floor: AtomicI64,
    pub(super) undoing: Undoing,
}

/// Answers to a question, as they come in. Dropping it does not cancel the question.
pub(super) struct Round {
    pub(super) masters: Arc<Masters>,
    pub(super) sent_at: Moment,
    /// The latest time in a reply.
    pub(super) at: StoreTime,
    pub(super) tally: Tally,
    answers: mpsc::UnboundedReceiver<Answer>,
    left: usize,
    troubles: Vec<(usize, StoreError)>,
}

impl Masters {
    /// Returns the number of masters.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Returns a question about a lock.
    pub(super) fn question(&self, name: &LockName, ask: Ask) -> Arc<Question> {
        Arc::new(Question {
            name: name.clone(),
            keys: self.keys.of(name),
            ask,
        })
    }

    /// Returns the masters' approximate time.
    pub(super) fn time(&self) -> StoreTime {
        let times = self.all.iter().filter_map(|master| master.time());
        times.max().unwrap_or(StoreTime::from_micros(0))
    }

    /// Asks all masters. Questions about one lock arrive everywhere in the order of the calls.
    pub(super) fn ask(self: &Arc<Self>, name: &LockName, ask: Ask) -> Round {
        self.ask_some(name, ask, |_| true)
    }

    /// Asks the chosen masters; the others count as silent.
    pub(super) fn ask_some(
        self: &Arc<Self>,
        name: &LockName,
        ask: Ask,
        chosen: impl Fn(usize) -> bool,
    ) -> Round {
        let (answer, answers) = mpsc::unbounded_channel();
        let mut round = Round {
            masters: Arc::clone(self),
            sent_at: clock::now(),
            at: StoreTime::from_micros(0),
            tally: Tally::new(self.number()),
            answers,
            left: 0,
            troubles: Vec::new(),
        };
        let question = self.question(name, ask);
        for master in &self.all {
            if chosen(master.place) {
                round.left += 1;
                master.ask(Arc::clone(&question), round.until(), answer.clone());
            } else {
                round.tally.count(Vote::Out);
            }
        }
        round
    }

    /// Makes a master carry out a release as soon as it answers, as long as that is useful; at once if `not_before` has passed,
    /// ahead of what is sent to it next. An attempt that this undoes counts as being undone until then.
    pub(super) fn owe(
        &self,
        place: usize,
        question: Arc<Question>,
        not_before: Moment,
        gone_at: Moment,
        undone: Option<Arc<Undone>>,
    ) {
        let Some(master) = self.all.get(place) else {
            return;
        };
        let patience = self.patience;
        let ask = move |master: &Arc<Master>| {
            let (answer, answers) = mpsc::unbounded_channel();
            let until = clock::now().after(patience);
            master.ask(Arc::clone(&question), until, answer);
            answers
        };
        let mut asked = (not_before <= clock::now()).then(|| ask(master));
        let owed = OwedGuard(Arc::clone(master));
        if master.owed.fetch_add(1, Ordering::Relaxed) >= MOST_OWED {
            return;
        }
        tokio::spawn(async move {
            let _undone = undone;
            let master = &owed.0;
            tokio::time::sleep(clock::now().until(not_before)).await;
            let mut status = master.link.status();
            while clock::now() < gone_at {
                if let Some(mut answers) = asked.take() {
                    let answer = answers.recv().await;
                    // A key that is no lock's any more has nothing to release.
                    if let Some(
                        Outcome::Said { .. } | Outcome::Failed(StoreError::WrongType { .. }),
                    ) = answer.map(|answer| answer.outcome)
                    {
                        return;
                    }
                    tokio::time::sleep(RETRY).await;
                }
                let left = clock::now().until(gone_at);
                let up = status.wait_for(crate::Status::is_up);
                if !matches!(tokio::time::timeout(left, up).await, Ok(Ok(_))) {
                    return;
                }
                asked = Some(ask(master));
            }
        });
    }
}

struct OwedGuard(Arc<Master>);

impl Drop for OwedGuard {
    fn drop(&mut self) {
        self.0.owed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns why a master has no vote, if it has none.
pub(super) fn excuse(master: &Master, now: Moment) -> Option<String> {
    let membership = master.membership();
    let link = &master.link;
    match &membership.standing {
        Some(Standing::Votes) => None,
        Some(Standing::Abstains { until }) => Some(format!(
            "{link} has not been seen running for long enough and may have come back without what it knew: it has a vote in \
             {:?}, or once leasehold-server quorum-bootstrap has declared a first start",
            Duration::from_secs(now.until(*until).as_secs() + 1)
        )),
        Some(Standing::Disagrees { hold }) => Some(format!(
            "coordinators that use {link} have another max-ttl, {:?}: it must be the same for all of them",
            Duration::from_millis(hold / 2)
        )),
        Some(Standing::NotDurable) => Some(format!(
            "{link} is declared to be durable (durable=true) but does not write everything to disk before it answers: set \
             appendonly yes and appendfsync always there"
        )),
        None => Some(match &membership.trouble {
            Some(trouble) => trouble.to_string(),
            None => format!("{link} has not been reached yet"),
        }),
    }
}

fn reason_of(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason }
        | StoreError::Indeterminate { reason }
        | StoreError::Refused { reason }
        | StoreError::Garbled { reason } => reason.clone(),
        other => other.to_string(),
    }
}

impl Round {
    /// Returns how many masters have not answered.
    pub(super) fn unheard(&self) -> usize {
        self.left
    }

    /// Waits for the next answer. Returns `None` when all have answered, or the time is up.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, no answer is lost.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        if self.left == 0 {
            return None;
        }
        let deadline = Instant::now() + clock::now().until(self.until());
        let answer = match timeout_at(deadline, self.answers.recv()).await {
            Ok(answer) => answer?,
            // Takes an answer that is there already: this process may have been late.
            Err(_) => self.answers.try_recv().ok()?,
        };
        self.left -= 1;
        match &answer.outcome {
            Outcome::Said { reply, .. } => self.at = self.at.max(reply.at),
            Outcome::Unsent(error) | Outcome::Unknown(error) | Outcome::Failed(error) => {
                self.troubles.push((answer.from, error.clone()));
            }
        }
        Some(answer)
    }

    /// Counts an answer. `judge` takes the place of the master, its reply, and whether the master has a vote, and returns the
    /// vote, which counts only then. A master that did not reply is out.
    pub(super) fn count(&mut self, answer: Answer, judge: impl FnOnce(usize, Said, bool) -> Vote) {
        let vote = match answer.outcome {
            Outcome::Said { reply, counts } => {
                let vote = judge(answer.from, reply.said, counts);
                if counts { vote } else { Vote::Out }
            }
            _ => Vote::Out,
        };
        self.tally.count(vote);
    }

    /// Waits for the next answer and counts it. Returns false when no more come.
    pub(super) async fn hear(&mut self, judge: impl FnOnce(usize, Said, bool) -> Vote) -> bool {
        match self.next().await {
            Some(answer) => {
                self.count(answer, judge);
                true
            }
            None => false,
        }
    }

    /// Counts answers until the verdict is certain by a rule.
    pub(super) async fn verdict(
        &mut self,
        rule: fn(&Tally) -> Option<Verdict>,
        mut judge: impl FnMut(usize, Said, bool) -> Vote,
    ) -> Verdict {
        loop {
            if let Some(verdict) = rule(&self.tally) {
                return verdict;
            }
            if !self.hear(&mut judge).await {
                return Verdict::Undecided;
            }
        }
    }

    /// Waits for the result of a change to a hold's record.
    pub(super) async fn changed(mut self) -> Result<Stamped, StoreError> {
        let verdict = self.verdict(Tally::standing, |_, said, _| match said {
            Said::Done => Vote::Yes,
            Said::Gone(_) => Vote::No,
            _ => Vote::Out,
        });
        match verdict.await {
            Verdict::Agreed => Ok(self.stamp(Reply::Changed(true))),
            Verdict::Refused => Ok(self.stamp(Reply::Changed(false))),
            Verdict::Undecided => Err(self.undecided()),
        }
    }

    /// Returns when silent masters are given up.
    pub(super) fn until(&self) -> Moment {
        self.sent_at.after(self.masters.patience)
    }

    /// Returns a reply with the time of the masters' replies, and that of the question.
    pub(super) fn stamp(&self, reply: Reply) -> Stamped {
        stamped(reply, self.at, self.sent_at)
    }

    /// Returns the error of a question that was not carried out.
    pub(super) fn unavailable(&self) -> StoreError {
        self.error(|reason| StoreError::Unavailable { reason })
    }

    /// Returns the error of a command that some masters may have carried out.
    pub(super) fn undecided(&self) -> StoreError {
        self.error(|reason| StoreError::Indeterminate { reason })
    }

    /// Returns the error of a question that failed. If the key is no lock on so many masters that the others are no majority,
    /// that is the error.
    fn error(&self, otherwise: fn(String) -> StoreError) -> StoreError {
        let errors = self.troubles.iter().map(|(_, error)| error);
        let wrong: Vec<_> = errors
            .filter(|error| matches!(error, StoreError::WrongType { .. }))
            .collect();
        let masters = self.masters.number();
        match wrong.first() {
            Some(error) if masters - wrong.len() < majority(masters) => (*error).clone(),
            _ => otherwise(self.why()),
        }
    }

    /// Returns why the question failed: the masters without a vote, or without an answer.
    fn why(&self) -> String {
        let now = clock::now();
        let masters = &self.masters;
        let mut parts = Vec::new();
        for master in &masters.all {
            let mut troubles = self.troubles.iter();
            let trouble = troubles.find(|(from, _)| *from == master.place);
            if let Some(excuse) = excuse(master, now) {
                parts.push(excuse);
            } else if let Some((_, error)) = trouble {
                parts.push(reason_of(error));
            }
        }
        if self.left > 0 {
            parts.push(format!("{} did not answer in time", self.left));
        }
        format!(
            "{votes} of {number} masters voted, and {needed} are needed: {parts}",
            votes = self.tally.votes(),
            number = masters.number(),
            needed = majority(masters.number()),
            parts = parts.join("; "),
        )
    }
}

/// Returns the result of a command.
pub(super) fn stamped(reply: Reply, at: StoreTime, sent_at: Moment) -> Stamped {
    Stamped {
        executed: Executed {
            reply,
            at,
            handed: Vec::new(),
            more: false,
        },
        sent_at,
    }
}
