//! Answers on their way to a client, and the metrics and traces of its session (`notes`, [`traces`]).

pub mod channel;
mod notes;
pub mod traces;

use std::{collections::VecDeque, time::Duration};

use leasehold_core::{session::confirmation::DeadlineConfirmation, time::Moment};
use leasehold_store::clock;
use prost::Message;

use self::{channel::Sender, traces::Following};
use crate::{
    convert::session::Answer,
    listener::ConnectionHandle,
    telemetry::{Metrics, Tracked},
};

/// Time for which the last answers of a session may wait for a client that reads slowly.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Most bytes of answers that wait while more requests are taken in.
const BYTES_OWED: usize = 128 * 1024;

/// Demands on a client that reads its stream.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Most answers that a session may owe for what it was asked. When as many wait, it is asked for no more.
    pub owed: usize,
    /// Time for which answers may wait for a client that takes none.
    pub patience: Duration,
}

/// The bounded queue of one session's answers. A session may owe many at once, so what is not read yet waits; but a client
/// that reads nothing for a while is disconnected, and its reading never slows the session down. Few are handed over before they
/// are taken: what is, is not counted.
#[derive(Debug)]
pub struct Outbox {
    /// `None` once the stream was ended.
    answers: Option<Sender>,
    /// Answers that had no room in `answers`, each with its bytes.
    backlog: VecDeque<(Answer, usize)>,
    /// Bytes of all that.
    bytes: usize,
    unread: Tracked,
    /// Number of answers that were handed over.
    handed: u64,
    /// Number of those that had been taken at the last check.
    taken: u64,
    /// Time at which the first answer not yet taken came, or at which another was seen to be taken.
    moved_at: Moment,
    stuck: DeadlineConfirmation,
    reading: Reading,
    connection: ConnectionHandle,
    metrics: Metrics,
    /// Logs and traces of the answers and their times.
    pub following: Following,
    /// The client did not read: nothing more can be said.
    cut: bool,
}

impl Outbox {
    /// A queue in front of `answers`, which tonic sends from.
    pub fn new(
        answers: Sender,
        reading: Reading,
        connection: ConnectionHandle,
        metrics: Metrics,
    ) -> Self {
        Self {
            answers: Some(answers),
            backlog: VecDeque::new(),
            bytes: 0,
            unread: metrics.unread_answers.track_none(),
            handed: 0,
            taken: 0,
            moved_at: clock::now(),
            stuck: DeadlineConfirmation::default(),
            reading,
            connection,
            metrics,
            following: Following::default(),
            cut: false,
        }
    }

    /// Has the requests followed that are answered here.
    #[must_use]
    pub fn followed(mut self, following: Following) -> Self {
        self.following = following;
        self
    }

    /// Returns whether a slow reader was cut off.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Ends the stream, without whatever has not been handed over. Nothing is said from here on.
    pub fn close(&mut self) {
        self.backlog.clear();
        self.bytes = 0;
        self.unread.set(0);
        self.answers = None;
    }

    /// Returns whether answers wait that [`drain`](Self::drain) would move on.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns whether more requests may be taken in: not while as much is unread as a session may owe.
    pub fn has_room(&self) -> bool {
        self.bytes < BYTES_OWED && self.backlog.len() < self.reading.owed
    }

    /// Returns the time of the next [`check`](Self::check); `None` while everything is taken.
    pub fn check_at(&self) -> Option<Moment> {
        self.is_unread()
            .then(|| self.stuck.due(self.moved_at.after(self.reading.patience)))
    }

    /// Cuts off a client for which answers have waited for too long without its taking any.
    pub fn check(&mut self, now: Moment) {
        let taken = self.handed - self.untaken();
        if taken != std::mem::replace(&mut self.taken, taken) {
            self.moved(now);
        }
        let deadline = self.moved_at.after(self.reading.patience);
        if self.is_unread() && self.stuck.is_missed(deadline, now) {
            self.cut_off();
        }
    }

    /// Returns whether there are answers that are not taken.
    fn is_unread(&self) -> bool {
        !self.cut && (self.has_backlog() || self.untaken() > 0)
    }

    /// Returns the number of answers that were handed over and are not taken.
    fn untaken(&self) -> u64 {
        let untaken = self.answers.as_ref().map_or(0, Sender::untaken);
        u64::try_from(untaken).unwrap_or(u64::MAX).min(self.handed)
    }

    fn moved(&mut self, now: Moment) {
        self.moved_at = now;
        self.stuck.kept();
    }

    /// Moves the backlog on as soon as there is room. May be dropped at any point.
    pub async fn drain(&mut self) {
        if let Some(answers) = &self.answers
            && answers.has_room().await
        {
            // As many as there is room for, where there was none before one was taken.
            while let Some((answer, bytes)) = self.backlog.pop_front() {
                if let Some(answer) = answers.offer(answer) {
                    self.backlog.push_front((answer, bytes));
                    break;
                }
                self.bytes -= bytes;
                self.handed += 1;
            }
            self.moved(clock::now());
        } else {
            // The stream's other half tells why.
            self.backlog.clear();
            self.bytes = 0;
        }
        self.unread.set(self.backlog.len());
    }

    /// Hands the last answers over, for a short while at most.
    pub async fn flush(&mut self) {
        let drained = async {
            while self.has_backlog() {
                self.drain().await;
            }
        };
        // Who does not read by now learns nothing more.
        let _ = tokio::time::timeout(LAST_ANSWERS, drained).await;
    }

    /// Sends an answer, or the error that ends the stream.
    pub fn send(&mut self, answer: Answer) {
        if self.cut {
            return;
        }
        if !self.is_unread() {
            self.moved(clock::now());
        }
        // A stream that is gone has another half that tells why.
        let Some(answers) = &self.answers else {
            return;
        };
        let left = match self.backlog.is_empty() {
            true => answers.offer(answer),
            false => Some(answer),
        };
        let Some(answer) = left else {
            self.handed += 1;
            return;
        };
        let bytes = answer.as_ref().map_or(0, Message::encoded_len);
        self.bytes += bytes;
        self.backlog.push_back((answer, bytes));
        self.unread.set(self.backlog.len());
        // Requests stop at what may be owed, and those before them owe no more than that again.
        if self.backlog.len() > 2 * self.reading.owed {
            self.cut_off();
        }
    }

    /// Closes the client's connection: behind a full window nothing else would get through.
    fn cut_off(&mut self) {
        self.cut = true;
        self.backlog = VecDeque::new();
        self.bytes = 0;
        self.unread.set(0);
        self.metrics.slow_readers.inc();
        tracing::warn!(
            session = self.following.session().map(tracing::field::display),
            peer = %self.connection.peer_addr(),
            "a client did not read its stream and was disconnected; its locks stay until its lease has passed"
        );
        self.connection.kill();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use leasehold_proto::v1::{SessionClosed, SessionResponse, session_response::Response};
    use tokio::net::TcpStream;

    use super::{
        channel::{Receiver, channel},
        *,
    };
    use crate::listener::{Connection, Ending, tests::connection};

    const PATIENCE: Duration = Duration::from_secs(5);
    const QUEUE: usize = 8;
    const READING: Reading = Reading {
        owed: 100,
        patience: PATIENCE,
    };

    /// An outbox on a connection of its own, whose two ends come last, and its metrics.
    async fn outbox() -> (Outbox, Receiver, Metrics, (Connection, TcpStream)) {
        let (connection, peer) = connection().await;
        let metrics = Metrics::default();
        let (sender, answers) = channel(QUEUE);
        let handle = connection.handle().clone();
        let outbox = Outbox::new(sender, READING, handle, metrics.clone());
        (outbox, answers, metrics, (connection, peer))
    }

    fn say(outbox: &mut Outbox, ids: std::ops::RangeInclusive<u64>) {
        for id in ids {
            outbox.send(Ok(SessionResponse {
                request_id: id,
                response: Some(Response::Closed(SessionClosed {})),
            }));
        }
    }

    #[tokio::test]
    async fn a_burst_beyond_the_queue_waits_and_keeps_its_order() {
        let (mut outbox, mut answers, metrics, _ends) = outbox().await;
        say(&mut outbox, 1..=90);
        assert!(!outbox.is_cut());
        assert!(outbox.has_backlog());
        let reader = tokio::spawn(async move {
            let mut ids = Vec::new();
            while let Some(answer) = answers.next().await {
                ids.push(answer.unwrap().request_id);
            }
            ids
        });
        outbox.flush().await;
        assert!(!outbox.has_backlog());
        say(&mut outbox, 91..=91);
        drop(outbox);
        assert_eq!(reader.await.unwrap(), (1..=91).collect::<Vec<_>>());
        assert_eq!(metrics.slow_readers.get(), 0);
    }

    #[tokio::test]
    async fn only_a_backlog_that_does_not_move_is_cut_off() {
        let (mut outbox, mut answers, metrics, (connection, _peer)) = outbox().await;
        say(&mut outbox, 1..=20);
        let began = outbox.check_at().unwrap();
        outbox.check(began);
        assert!(!outbox.is_cut(), "the second look is still to come");
        // It reads one just in time.
        answers.next().await.unwrap().unwrap();
        outbox.drain().await;
        outbox.check(clock::now());
        let again = outbox.check_at().unwrap();
        outbox.check(again);
        let second = outbox.check_at().unwrap();
        assert!(again < second);
        outbox.check(second);
        assert!(outbox.is_cut());
        assert_eq!(connection.handle().ending(), Some(Ending::Local));
        assert_eq!(metrics.slow_readers.get(), 1);
        assert_eq!(outbox.check_at(), None);
    }

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off_without_a_backlog_too() {
        let (mut outbox, mut answers, metrics, _ends) = outbox().await;
        assert_eq!(outbox.check_at(), None, "there is nothing to take");
        say(&mut outbox, 1..=3);
        assert!(!outbox.has_backlog());
        let first = outbox.check_at().unwrap();
        // It takes one, late as it is, and others come meanwhile.
        outbox.check(first);
        answers.next().await.unwrap().unwrap();
        say(&mut outbox, 4..=5);
        outbox.check(first.after(Duration::from_secs(1)));
        let second = outbox.check_at().unwrap();
        assert!(second >= first.after(PATIENCE), "that counts from then on");
        outbox.check(second);
        assert!(!outbox.is_cut(), "the second look is still to come");
        outbox.check(outbox.check_at().unwrap());
        assert!(outbox.is_cut());
        assert_eq!(metrics.slow_readers.get(), 1);
    }

    #[tokio::test]
    async fn who_has_taken_everything_is_not_cut_off() {
        let (mut outbox, mut answers, _metrics, _ends) = outbox().await;
        say(&mut outbox, 1..=20);
        let long_after = outbox.check_at().unwrap().after(10 * PATIENCE);
        for _ in 1..=20 {
            answers.next().await.unwrap().unwrap();
            if outbox.has_backlog() {
                outbox.drain().await;
            }
        }
        assert_eq!(outbox.check_at(), None);
        outbox.check(long_after);
        outbox.check(long_after.after(PATIENCE));
        assert!(!outbox.is_cut());
        // A stream that is gone waits for nothing.
        say(&mut outbox, 21..=22);
        drop(answers);
        assert_eq!(outbox.check_at(), None);
    }

    #[tokio::test]
    async fn the_backlog_is_bounded() {
        let (mut outbox, _answers, metrics, _ends) = outbox().await;
        say(&mut outbox, 1..=107);
        assert!(outbox.has_room());
        say(&mut outbox, 108..=108);
        assert!(!outbox.has_room(), "no more requests are taken in");
        say(&mut outbox, 109..=208);
        assert!(!outbox.is_cut());
        say(&mut outbox, 209..=209);
        assert!(outbox.is_cut());
        assert_eq!(metrics.slow_readers.get(), 1);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_leaves_no_backlog() {
        let (mut outbox, answers, metrics, _ends) = outbox().await;
        say(&mut outbox, 1..=20);
        drop(answers);
        outbox.flush().await;
        assert!(!outbox.has_backlog());
        assert_eq!(metrics.slow_readers.get(), 0);
    }
}
