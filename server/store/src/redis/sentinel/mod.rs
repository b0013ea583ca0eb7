//! Discovery of the master through sentinels.
//!
//! - `asking`: asks one sentinel, again and again.
//! - `question`: the question, and how its answer is read.
//! - `choice`: chooses the answer to believe.
//! - `examine`: asks all sentinels once, and then the master, for what an operator judges them by.
//!
//! One task owns the answer. It asks each sentinel over a connection of its own, so that one that hangs delays no other. One
//! answer is enough to go on; while none comes, the last known master counts.

mod asking;
mod choice;
pub(crate) mod examine;
mod question;

use std::{sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use self::{
    asking::Asking,
    choice::{Report, choose},
    question::Question,
};
use super::{
    place::{Place, Whereabouts},
    status::{Board, DownCause, Fault},
    url::SentinelUrl,
};

/// Time for which the first decision waits for silent sentinels: the first to answer may have missed a fail-over.
const FIRST_DECISION: Duration = Duration::from_secs(1);

/// Time for which a majority must contradict without a newer epoch before it is believed. Right after a fail-over, the majority
/// may not know of it yet, while the sentinel that led it is too busy to answer.
const STEP_BACK: Duration = Duration::from_secs(5);

/// Starts to ask, and goes on as long as the place exists.
pub(super) fn follow(url: SentinelUrl) -> Place {
    let label: Arc<str> = format!("the Redis master {}", url.master).into();
    let still_asking = Fault::new(
        DownCause::Connecting,
        format!("still asking the sentinels where {label} is"),
    );
    let (whereabouts, receiver) = watch::channel(Err(still_asking.clone()));
    let doubt = Arc::new(Notify::new());
    let (answers, inbox) = mpsc::channel(url.sentinels.len());
    let mut boards = Vec::new();
    let mut tasks = Vec::new();
    for (index, sentinel) in url.sentinels.iter().enumerate() {
        boards.push(Board::new(sentinel.label(), 1, &still_asking));
        let asking = Asking {
            index,
            question: Question {
                sentinel: sentinel.clone(),
                master: Arc::clone(&url.master),
            },
            answers: answers.clone(),
            doubt: Arc::clone(&doubt),
        };
        tasks.push(AbortOnDropHandle::new(tokio::spawn(asking.run())));
    }
    let follower = Follower {
        label: Arc::clone(&label),
        answers: vec![None; boards.len()],
        boards,
        known: None,
        contradicted: None,
        is_alone: false,
        whereabouts,
        _tasks: tasks,
    };
    let place = Place {
        label,
        database: url.access.database,
        whereabouts: receiver,
        doubt,
    };
    tokio::spawn(follower.run(inbox, url));
    place
}

/// Task that owns the known master.
struct Follower {
    label: Arc<str>,
    /// The last answer of each sentinel.
    answers: Vec<Option<Result<Report, Fault>>>,
    /// The logged state of each sentinel.
    boards: Vec<Board>,
    /// The last decision.
    known: Option<Report>,
    /// Since when a majority contradicts without a newer epoch.
    contradicted: Option<Instant>,
    /// Whether it was logged that no sentinel answers.
    is_alone: bool,
    whereabouts: watch::Sender<Whereabouts>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Follower {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<(usize, Result<Report, Fault>)>,
        url: SentinelUrl,
    ) {
        let patience = sleep(FIRST_DECISION);
        tokio::pin!(patience);
        let mut may_decide = false;
        loop {
            select! {
                biased;
                // The link is gone, with all its connections.
                () = self.whereabouts.closed() => return,
                answer = inbox.recv() => {
                    let Some((index, answer)) = answer else { return };
                    self.take(index, answer);
                }
                () = &mut patience, if !may_decide => may_decide = true,
            }
            may_decide |= self.answers.iter().all(Option::is_some);
            if may_decide {
                self.decide(&url);
            }
        }
    }

    fn take(&mut self, index: usize, answer: Result<Report, Fault>) {
        match &answer {
            Ok(_) => self.boards[index].set_up(0),
            Err(fault) => self.boards[index].set_down(0, fault.clone()),
        }
        self.answers[index] = Some(answer);
    }

    fn decide(&mut self, url: &SentinelUrl) {
        let reports: Vec<&Report> = self
            .answers
            .iter()
            .filter_map(|answer| answer.as_ref()?.as_ref().ok())
            .collect();
        let is_alone = reports.is_empty();
        let chosen = choose(self.known.as_ref(), &reports, self.answers.len()).cloned();
        let is_step_back = match (&chosen, &self.known) {
            (Some(chosen), Some(known)) => {
                chosen.epoch <= known.epoch && chosen.address != known.address
            }
            _ => false,
        };
        if !is_step_back {
            self.contradicted = None;
        } else if self.contradicted.get_or_insert_with(Instant::now).elapsed() < STEP_BACK {
            return;
        }
        match (chosen, &self.known) {
            (Some(chosen), known) if known.as_ref() != Some(&chosen) => self.move_to(chosen, url),
            (None, None) => self.tell(Err(self.summary())),
            (_, Some(known)) if is_alone && !self.is_alone => warn!(
                "no sentinel tells of {} any more; it is taken to be at {} still",
                self.label, known.address
            ),
            _ => {}
        }
        self.is_alone = is_alone;
    }

    fn move_to(&mut self, chosen: Report, url: &SentinelUrl) {
        let address = &chosen.address;
        let known = self.known.as_ref();
        if known.is_none_or(|known| known.address != *address) {
            info!(epoch = chosen.epoch, "{} is at {address}", self.label);
            let target = url.access.target(address);
            self.tell(target.map_err(|error| {
                let reason = format!("{} is at {address}, but {error}", self.label);
                Fault::new(DownCause::Tls, reason)
            }));
        }
        self.known = Some(chosen);
    }

    /// Returns why the master is not known; preferably a reason that an operator must mend.
    fn summary(&self) -> Fault {
        let faults = || {
            let answers = self.answers.iter().flatten();
            answers.filter_map(|answer| answer.as_ref().err())
        };
        let worst = faults().find(|fault| fault.cause.needs_operator());
        match worst.or_else(|| faults().next()) {
            Some(fault) => {
                let reason = format!(
                    "no sentinel tells where {} is ({} asked): {}",
                    self.label,
                    self.answers.len(),
                    fault.reason
                );
                Fault::new(fault.cause, reason)
            }
            None => {
                let reason = format!("no sentinel has told yet where {} is", self.label);
                Fault::new(DownCause::TimedOut, reason)
            }
        }
    }

    fn tell(&self, whereabouts: Whereabouts) {
        self.whereabouts.send_if_modified(|told| {
            let is_news = match (&*told, &whereabouts) {
                (Err(before), Err(now)) => before != now,
                _ => true,
            };
            *told = whereabouts;
            is_news
        });
    }
}
