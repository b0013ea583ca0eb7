//! One question to all masters at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    name::LockName,
    time::{Moment, StoreTime},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    decide::Tally,
    master::{Answer, Master, Outcome, Patience, Question},
    script::Ask,
    standing::{Standing, Terms},
    undo::{Undoing, Undone},
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
    pub(super) patience: Patience,
    pub(super) terms: Terms,
    /// One more than the largest token that this coordinator ever wrote back, even in a failed try.
    pub(super) floor: AtomicI64,
    pub(super) undoing: Undoing,
}

/// Answers to a question, as they come in. Dropping it does not cancel the question.
pub(super) struct Round {
    answers: mpsc::UnboundedReceiver<Answer>,
    left: usize,
    until: Moment,
    tally: Tally,
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
    pub(super) fn ask(&self, name: &LockName, ask: Ask) -> Round {
        self.ask_some(name, ask, |_| true)
    }

    /// Asks the chosen masters; the others count as silent.
    pub(super) fn ask_some(
        &self,
        name: &LockName,
        ask: Ask,
        chosen: impl Fn(usize) -> bool,
    ) -> Round {
        let until = self.patience.until();
        let question = self.question(name, ask);
        let (answer, answers) = mpsc::unbounded_channel();
        let mut tally = Tally::new(self.number());
        let mut left = 0;
        for master in &self.all {
            if chosen(master.place) {
                left += 1;
                master.ask(Arc::clone(&question), until, answer.clone());
            } else {
                tally.out();
            }
        }
        Round {
            answers,
            left,
            until,
            tally,
            troubles: Vec::new(),
        }
    }

    /// Returns why a question failed: the masters without a vote, or without an answer.
    pub(super) fn why(&self, round: &Round) -> String {
        let now = clock::now();
        let mut parts = Vec::new();
        for master in &self.all {
            let trouble = round
                .troubles
                .iter()
                .find(|(from, _)| *from == master.place);
            if let Some(excuse) = excuse(master, now) {
                parts.push(excuse);
            } else if let Some((_, error)) = trouble {
                parts.push(reason_of(error));
            }
        }
        let silent = round.left;
        if silent > 0 {
            parts.push(format!("{silent} did not answer in time"));
        }
        format!(
            "{votes} of {number} masters voted, and {needed} are needed: {parts}",
            votes = round.tally.votes(),
            number = self.number(),
            needed = super::decide::majority(self.number()),
            parts = parts.join("; "),
        )
    }

    /// Makes a master carry out a release as soon as it answers, as long as that is useful. An attempt that this undoes counts
    /// as being undone until then.
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
        let owed = OwedGuard(Arc::clone(master));
        if master.owed.fetch_add(1, Ordering::Relaxed) >= MOST_OWED {
            return;
        }
        let patience = self.patience;
        tokio::spawn(async move {
            let _undone = undone;
            let master = &owed.0;
            tokio::time::sleep(clock::now().until(not_before)).await;
            let mut status = master.link.status();
            while clock::now() < gone_at {
                let left = clock::now().until(gone_at);
                let up = status.wait_for(crate::Status::is_up);
                if !matches!(tokio::time::timeout(left, up).await, Ok(Ok(_))) {
                    return;
                }
                let (answer, mut answers) = mpsc::unbounded_channel();
                master.ask(Arc::clone(&question), patience.until(), answer);
                if let Some(Answer {
                    outcome: Outcome::Said { .. },
                    ..
                }) = answers.recv().await
                {
                    return;
                }
                tokio::time::sleep(RETRY).await;
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
    /// Waits for the next answer. Returns `None` when all have answered, or the time is up.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, no answer is lost.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        if self.left == 0 {
            return None;
        }
        let deadline = Instant::now() + clock::now().until(self.until);
        let answer = match timeout_at(deadline, self.answers.recv()).await {
            Ok(answer) => answer?,
            // Takes an answer that is there already: this process may have been late.
            Err(_) => self.answers.try_recv().ok()?,
        };
        self.left -= 1;
        if let Outcome::Unsent(error) | Outcome::Unknown(error) | Outcome::Failed(error) =
            &answer.outcome
        {
            self.troubles.push((answer.from, error.clone()));
        }
        Some(answer)
    }

    /// Returns the votes so far.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Returns when silent masters are given up.
    pub(super) fn until(&self) -> Moment {
        self.until
    }

    /// Returns the error of a master whose key holds something that is no lock.
    pub(super) fn wrong_type(&self) -> Option<StoreError> {
        let wrong =
            |(_, error): &&(usize, StoreError)| matches!(error, StoreError::WrongType { .. });
        self.troubles
            .iter()
            .find(wrong)
            .map(|(_, error)| error.clone())
    }
}
