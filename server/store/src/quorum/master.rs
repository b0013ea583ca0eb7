//! Handle on one master: the commands to it, and whether its answers count.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    name::LockName,
    time::{Moment, StoreTime},
};
use redis::{RedisResult, Value};
use tokio::sync::mpsc;

use super::{
    script::{Ask, Reply, Said},
    standing::{Run, Standing},
};
use crate::{
    clock,
    lane::Lane,
    measure::{Meter, Script},
    redis::{
        errors::{call_error, link_error, server_error},
        keys::LockKeys,
        link::{ConnectionId, Link},
        server_clock::ServerClock,
    },
};

/// Pipelines in flight.
const IN_FLIGHT: usize = 4;

/// Master.
pub(super) struct Master {
    pub(super) place: usize,
    pub(super) link: Link,
    lane: Lane<Item>,
    nonce: AtomicU64,
    pub(super) clock: ServerClock,
    membership: Mutex<Membership>,
    meter: Meter,
    /// Number of releases that it must carry out as soon as it answers.
    pub(super) owed: AtomicUsize,
}

/// Known state of its present run.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// The connection on which it introduced itself; answers over another one do not count.
    pub(super) connection: Option<ConnectionId>,
    pub(super) run: Option<Run>,
    /// Its standing, if known.
    pub(super) standing: Option<Standing>,
    /// The reason for which its standing is not known.
    pub(super) trouble: Option<Arc<str>>,
}

/// Question about a lock.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) name: LockName,
    pub(super) keys: LockKeys,
    pub(super) ask: Ask,
}

/// Command in flight.
struct Item {
    question: Arc<Question>,
    /// Time at which the caller gives up. The master does nothing after that either, unless the command may be late.
    until: Moment,
    again: bool,
    answer: mpsc::UnboundedSender<Answer>,
}

/// Answer of one master. One always comes, but perhaps only after the caller gave up.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) from: usize,
    pub(super) outcome: Outcome,
}

/// Outcome of a question.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was answered.
    Said {
        reply: Reply,
        /// Whether the master has a vote.
        counts: bool,
    },
    /// It was not sent, or surely not carried out.
    Unsent(StoreError),
    /// It may have been carried out, or may yet be.
    Unknown(StoreError),
    /// The master answered with an error; it may have done a part of the question.
    Failed(StoreError),
}

impl Master {
    pub(super) fn new(place: usize, link: Link, meter: Meter) -> Self {
        Self {
            place,
            link,
            lane: Lane::new(IN_FLIGHT),
            nonce: AtomicU64::new(1),
            clock: ServerClock::default(),
            membership: Mutex::default(),
            meter,
            owed: AtomicUsize::new(0),
        }
    }

    /// Sends a question; those sent one after the other arrive in that order while the connection lasts.
    pub(super) fn ask(
        self: &Arc<Self>,
        question: Arc<Question>,
        until: Moment,
        answer: mpsc::UnboundedSender<Answer>,
    ) {
        self.push(Item {
            question,
            until,
            again: false,
            answer,
        });
    }

    fn push(self: &Arc<Self>, item: Item) {
        self.meter.queued();
        if self.lane.push(item) {
            let master = Arc::clone(self);
            tokio::spawn(async move {
                let lane = &master.lane;
                lane.drive(|batch| master.call(batch)).await;
            });
        }
    }

    async fn call(self: &Arc<Self>, batch: Vec<Item>) {
        let sent_at = clock::now();
        // Without the master's time, no deadline can be set, and it would carry the command out however late.
        let has_a_clock = self.clock.is_known();
        let (batch, over): (Vec<_>, Vec<_>) = batch.into_iter().partition(|item| {
            sent_at < item.until && (has_a_clock || item.question.ask.may_be_late())
        });
        for item in over {
            self.meter.left();
            let reason = format!("{} takes too long", self.link);
            self.fail(item, Outcome::Unsent, StoreError::Unavailable { reason });
        }
        if batch.is_empty() {
            return;
        }
        let tally = self.meter.sent(batch.iter().map(Item::script));
        let first = u64::try_from(batch.len()).unwrap_or(0);
        let first = self.nonce.fetch_add(first, Ordering::Relaxed);
        let commands = (first..).zip(&batch).map(|(nonce, item)| {
            let Question { keys, ask, .. } = &*item.question;
            let not_after = if ask.may_be_late() {
                0
            } else {
                self.not_after(item.until)
            };
            ask.encode(keys, nonce, not_after)
        });
        let replies = match self.link.execute(0, commands.collect()).await {
            Ok(replies) => replies,
            Err(error) => {
                self.meter.answered(tally, None);
                let outcome = if error.may_have_happened() {
                    Outcome::Unknown
                } else {
                    Outcome::Unsent
                };
                let error = link_error(&error);
                for item in batch {
                    self.fail(item, outcome, error.clone());
                }
                return;
            }
        };
        let now = clock::now();
        self.meter.answered(tally, Some(sent_at.until(now)));
        let counts = self.counts(replies.connection);
        let answered = (first..).zip(batch).zip(replies.items);
        for ((nonce, mut item), reply) in answered {
            match self.read(&item.question, reply, nonce, replies.connection) {
                Ok(reply) => {
                    self.clock.observe(reply.at, sent_at, now);
                    if reply.said == Said::Late && !item.again {
                        // After a step of its clock, a command looks late; the reply has the new time.
                        item.again = true;
                        self.push(item);
                    } else {
                        item.tell(self.place, Outcome::Said { reply, counts });
                    }
                }
                Err(error) => self.fail(item, Outcome::Failed, error),
            }
        }
    }

    fn fail(&self, item: Item, outcome: impl FnOnce(StoreError) -> Outcome, error: StoreError) {
        self.meter.failed(item.script(), &error);
        item.tell(self.place, outcome(error));
    }

    fn read(
        &self,
        question: &Question,
        reply: RedisResult<Value>,
        nonce: u64,
        connection: ConnectionId,
    ) -> Result<Reply, StoreError> {
        let reply = reply.map_err(|error| {
            redis::ServerError::try_from(error).map_or_else(
                |error| call_error(&error),
                |error| server_error(&question.name, &error),
            )
        })?;
        let reply = question.ask.decode(reply, nonce);
        reply.map_err(|garbled| self.link.garbled(connection, garbled))
    }

    /// Returns whether an answer over a connection counts.
    fn counts(&self, connection: ConnectionId) -> bool {
        let membership = self.membership();
        membership.connection == Some(connection) && membership.standing == Some(Standing::Votes)
    }

    /// Returns when the caller gives up, by the master's clock, which is known.
    fn not_after(&self, until: Moment) -> i64 {
        let until = self.clock.at(until);
        until.map_or(1, |until| until.as_micros().max(1))
    }

    /// Returns its present time, if known.
    pub(super) fn time(&self) -> Option<StoreTime> {
        self.clock.at(clock::now())
    }

    /// Returns its link, for commands that belong to no lock.
    pub(super) fn link(&self) -> (&Link, &Meter) {
        (&self.link, &self.meter)
    }

    pub(super) fn membership(&self) -> MutexGuard<'_, Membership> {
        // A panic elsewhere can't leave it torn: single fields are replaced.
        self.membership
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    fn script(&self) -> Script {
        self.question.ask.script()
    }

    fn tell(self, from: usize, outcome: Outcome) {
        // The caller may have enough answers already.
        let _ = self.answer.send(Answer { from, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        TlsFiles,
        redis::{link::LinkOptions, url::RedisTarget},
    };

    #[tokio::test]
    async fn only_what_came_by_the_connection_of_the_introduction_counts_while_there_is_a_vote() {
        // Nobody is there, and nothing is asked.
        let target = RedisTarget::parse("redis://127.0.0.1:1", TlsFiles::default()).unwrap();
        let link = Link::start(target, LinkOptions::default());
        let master = Master::new(0, link, Meter::default());
        let [before, introduced, after] = [(); 3].map(|()| ConnectionId::next());
        assert!(!master.counts(introduced), "it has not introduced itself");
        master.membership().connection = Some(introduced);
        assert!(!master.counts(introduced), "how it stands is not known");
        let until = Moment::from_micros(1);
        for (standing, votes) in [
            (Standing::Votes, true),
            (Standing::Abstains { until }, false),
            (Standing::NotDurable, false),
        ] {
            master.membership().standing = Some(standing);
            assert_eq!(master.counts(introduced), votes);
            // Another run of the server may have answered by those.
            assert!(!master.counts(before) && !master.counts(after));
        }
    }
}
