//! Many live sessions: they send heartbeats as often as the coordinator asked, and keep their locks.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use leasehold_proto::v1::{
    GrantedLock, SessionHeartbeatAck, SessionRelease, session_response::Response,
};
use leasehold_tests::{load::Exclusion, raw};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval_at},
};

use super::{
    stage::{Reading, Spent, Stage},
    stream::Stream,
};

/// The default of every client.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Above the ids of other requests.
const HEARTBEAT_IDS: u64 = 1 << 32;

/// Phase of all sessions, which they enter together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Live,
    Acquire,
    Release,
}

/// Sessions that send heartbeats, until they are dropped.
pub(crate) struct Crowd {
    sessions: usize,
    phase: watch::Sender<Phase>,
    done: mpsc::UnboundedReceiver<()>,
    running: JoinSet<anyhow::Result<Kept>>,
}

/// Fate of the sessions' locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) granted: usize,
    /// The locks that the coordinator reported as lost.
    pub(crate) told_lost: usize,
    /// The locks that were not held any more when they were released at the end.
    pub(crate) found_lost: usize,
    /// The number of times that a client's own deadline passed before a heartbeat was answered, so that it had to believe its
    /// locks lost.
    pub(crate) lapses: usize,
    pub(crate) heartbeats: usize,
}

impl Crowd {
    /// Opens `sessions`, with heartbeats that are spread over the interval, as those of clients that come and go are.
    pub(crate) async fn open(
        endpoint: &str,
        sessions: usize,
        per_connection: usize,
        locks_each: usize,
        ttl: Duration,
    ) -> anyhow::Result<Self> {
        let endpoints = [endpoint.to_owned()];
        let (phase, phases) = watch::channel(Phase::Live);
        let (finished, done) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        // In parts, so that the first live already while the last are opened.
        let part = per_connection.max(500);
        for first in (0..sessions).step_by(part) {
            let count = part.min(sessions - first);
            let opened = Instant::now();
            let streams = Stream::open_many(&endpoints, count, per_connection, Some(ttl)).await?;
            for (place, stream) in streams.into_iter().enumerate() {
                let asked = raw::parse(stream.opened.heartbeat_interval);
                let share = (place + 1) as f64 / count as f64;
                let first_beat = opened + asked.mul_f64(share);
                let mut heartbeats = interval_at(first_beat.into(), asked);
                heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let session = Session {
                    stream,
                    heartbeats,
                    sequence: 0,
                    sent: VecDeque::from([(0, opened)]),
                    good_until: None,
                    wanted: locks_each,
                    has_asked: false,
                    number: first + place,
                    locks: Vec::new(),
                    kept: Kept::default(),
                };
                running.spawn(session.live(phases.clone(), finished.clone()));
            }
        }
        Ok(Self {
            sessions,
            phase,
            done,
            running,
        })
    }

    /// Has every session acquire its locks, and waits until all are held.
    pub(crate) async fn acquire(&mut self) -> anyhow::Result<()> {
        self.go(Phase::Acquire).await
    }

    /// Lets them live for a while; fails if one of them ends.
    pub(crate) async fn live(&mut self, time: Duration) -> anyhow::Result<()> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            ended = self.running.join_next() => bail!("a session ended: {ended:?}"),
        }
    }

    /// Lets them come to rest, and then live for a while; returns what there was when that began, and what it took.
    pub(crate) async fn spend(
        &mut self,
        stage: &mut Stage,
        settle: Duration,
        time: Duration,
    ) -> anyhow::Result<(Reading, Spent)> {
        self.live(settle).await?;
        let before = stage.read().await?;
        self.live(time).await?;
        let spent = stage.read().await?.since(&before);
        Ok((before, spent))
    }

    /// Has every session release its locks, and counts what became of them.
    pub(crate) async fn release(mut self) -> anyhow::Result<Kept> {
        self.phase.send_replace(Phase::Release);
        let mut sum = Kept::default();
        while let Some(session) = self.running.join_next().await {
            let kept = session??;
            sum.granted += kept.granted;
            sum.told_lost += kept.told_lost;
            sum.found_lost += kept.found_lost;
            sum.lapses += kept.lapses;
            sum.heartbeats += kept.heartbeats;
        }
        Ok(sum)
    }

    async fn go(&mut self, phase: Phase) -> anyhow::Result<()> {
        self.phase.send_replace(phase);
        for _ in 0..self.sessions {
            tokio::select! {
                _ = self.done.recv() => {}
                ended = self.running.join_next() => bail!("a session ended: {ended:?}"),
            }
        }
        Ok(())
    }
}

struct Session {
    stream: Stream,
    heartbeats: Interval,
    sequence: u64,
    /// The times at which the unanswered heartbeats were sent; the `open` is the first.
    sent: VecDeque<(u64, Instant)>,
    /// Time until which the client may believe in its holds.
    good_until: Option<Instant>,
    wanted: usize,
    /// Whether it has begun to acquire: it does not rest then.
    has_asked: bool,
    number: usize,
    locks: Vec<(GrantedLock, Exclusion)>,
    kept: Kept,
}

impl Session {
    async fn live(
        mut self,
        mut phases: watch::Receiver<Phase>,
        finished: mpsc::UnboundedSender<()>,
    ) -> anyhow::Result<Kept> {
        loop {
            tokio::select! {
                answer = self.stream.next_of_all() => {
                    let (_, response) = answer?;
                    match response {
                        Response::Heartbeat(ack) => self.on_ack(ack)?,
                        Response::Lost(lost) => self.kept.told_lost += lost.locks.len(),
                        Response::Queued(_) => {}
                        Response::Granted(granted) => {
                            let deadline = self.deadline(granted.acked_heartbeat, granted.valid_for);
                            self.good_until = self.good_until.max(deadline);
                            let lock = granted.locks.into_iter().next().context("no lock")?;
                            ensure!(lock.name == self.name(), "{} was granted", lock.name);
                            let exclusion = Exclusion::new(self.name());
                            let token = Some(lock.fencing_token);
                            exclusion.granted(token, || true, Instant::now())?;
                            self.locks.push((lock, exclusion));
                            self.kept.granted += 1;
                            self.acquire_next(&finished).await?;
                        }
                        Response::Released(released) => {
                            self.kept.found_lost += usize::from(!released.released);
                            if !self.release_next().await? {
                                return Ok(self.kept);
                            }
                        }
                        other => bail!("{other:?}"),
                    }
                }
                _ = self.heartbeats.tick() => self.beat().await?,
                changed = phases.changed() => {
                    changed?;
                    let phase = *phases.borrow_and_update();
                    match phase {
                        Phase::Live => {}
                        Phase::Acquire => {
                            // It may have rested.
                            self.has_asked = true;
                            self.heartbeats.reset();
                            self.beat().await?;
                            self.acquire_next(&finished).await?;
                        }
                        Phase::Release => {
                            self.see_lapse();
                            if !self.release_next().await? {
                                return Ok(self.kept);
                            }
                        }
                    }
                }
            }
        }
    }

    async fn beat(&mut self) -> anyhow::Result<()> {
        self.sequence += 1;
        self.sent.push_back((self.sequence, Instant::now()));
        self.kept.heartbeats += 1;
        self.stream
            .heartbeat(HEARTBEAT_IDS + self.sequence, self.sequence)
            .await
    }

    fn name(&self) -> String {
        format!("held/{}/{}", self.number, self.locks.len())
    }

    /// Acquires one lock after the other: a thousand sessions do so at the same time as it is.
    async fn acquire_next(&mut self, finished: &mpsc::UnboundedSender<()>) -> anyhow::Result<()> {
        if self.locks.len() < self.wanted {
            let name = self.name();
            return self
                .stream
                .acquire(self.locks.len() as u64 + 2, &name)
                .await;
        }
        // Nobody listens any more if another session has failed.
        let _ = finished.send(());
        Ok(())
    }

    async fn release_next(&mut self) -> anyhow::Result<bool> {
        let Some((lock, exclusion)) = self.locks.pop() else {
            return Ok(false);
        };
        exclusion.released(Some(lock.fencing_token), Instant::now());
        let (name, owner_id) = (lock.name, lock.owner_id);
        self.stream
            .release(
                1,
                SessionRelease {
                    name,
                    owner_id,
                    expired: false,
                },
            )
            .await?;
        Ok(true)
    }

    fn on_ack(&mut self, ack: SessionHeartbeatAck) -> anyhow::Result<()> {
        self.see_lapse();
        let deadline = self.deadline(ack.acked_heartbeat, ack.valid_for);
        ensure!(
            deadline.is_some(),
            "a heartbeat was answered with nothing: {ack:?}"
        );
        self.good_until = deadline;
        // The answer to the heartbeat before the first acquire allows a rest, which is over when it comes.
        let pause = ack.next_within.filter(|_| !self.has_asked);
        if let Some(pause) = pause {
            self.heartbeats.reset_after(pause.try_into()?);
        }
        while self
            .sent
            .front()
            .is_some_and(|(sequence, _)| *sequence < ack.acked_heartbeat)
        {
            self.sent.pop_front();
        }
        Ok(())
    }

    /// Returns the client's own deadline, by its clock, from the moment at which it sent the acknowledged heartbeat.
    fn deadline(&self, acked: u64, valid_for: Option<prost_types::Duration>) -> Option<Instant> {
        let valid_for = valid_for.map(|valid_for| raw::parse(Some(valid_for)))?;
        let (_, sent) = self.sent.iter().find(|(sequence, _)| *sequence == acked)?;
        Some(*sent + valid_for)
    }

    fn see_lapse(&mut self) {
        let passed = self.good_until.is_some_and(|until| Instant::now() >= until);
        self.kept.lapses += usize::from(passed);
    }
}
