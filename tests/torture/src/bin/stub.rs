//! Client of the torture run on the generated stubs alone: each task speaks a session of its own, as docs/clients.md tells.
//!
//! `torture-stub NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]`. It sends heartbeats, reckons deadlines from the time
//! at which it sent them, and resumes nothing: a stream that ends takes its locks with it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use leasehold_proto::v1::{
    AcquireOutcome, LockMode, SessionAcquire, SessionCancel, SessionClose, SessionGranted,
    SessionHeartbeat, SessionOpen, SessionRelease, SessionRequest, SessionResponse,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use leasehold_torture::{
    history::now,
    locks::{Cycle, LIMIT, Mode},
    shown::{self, Shown},
    worker::{self, Arguments, Ask, Registers, Worker, after, left},
};
use rand::{Rng, rngs::StdRng};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// Longest time between two writes to a register.
const LOOK: Duration = Duration::from_millis(40);
/// Longest time between two looks at the files with the credentials.
const LOOK_AT_FILES: Duration = Duration::from_millis(500);
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time for an answer that should come at once.
const ANSWER: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    worker::run(live).await
}

/// Opens one session after the other, each at any coordinator.
async fn live(worker: Arc<Worker>, mut random: StdRng) {
    let arguments = &worker.arguments;
    let endpoints: Vec<_> = arguments.endpoints.split(',').collect();
    let registers = Registers::default();
    while !worker.stop.is_cancelled() {
        let endpoint = endpoints[random.random_range(0..endpoints.len())];
        let opened = timeout(ANSWER, Session::open(endpoint, arguments)).await;
        let Ok(Ok(mut session)) = opened else {
            sleep(PAUSE).await;
            continue;
        };
        while !worker.stop.is_cancelled() && !session.draining && !session.is_outdated() {
            let cycle = Cycle::draw(&mut random, arguments.store == "quorum");
            let lived = session.cycle(&worker, &cycle, &registers).await;
            if lived.is_err() || session.idle(cycle.pause).await.is_err() {
                break;
            }
        }
        session.close().await;
    }
}

/// A session, spoken by hand.
struct Session {
    requests: mpsc::Sender<SessionRequest>,
    responses: Streaming<SessionResponse>,
    /// Name of its queue in the history, where each coordinator has queues of its own.
    queue: String,
    next_id: u64,
    /// Times at which the heartbeats were sent; the `open` is the first.
    sent: Vec<u64>,
    beat: Instant,
    interval: Duration,
    ttl: Duration,
    /// Time of the newest message.
    heard: Instant,
    /// Deadline of all that is held, by the newest heartbeat that was answered.
    until: u64,
    draining: bool,
    /// Its credentials, and the folder that may have newer ones.
    shown: Option<(PathBuf, Shown)>,
}

/// What came of a wait.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Event {
    Answer(Response),
    Lost(String),
    Time,
}

impl Session {
    async fn open(endpoint: &str, arguments: &Arguments) -> anyhow::Result<Self> {
        let shown = match &arguments.credentials {
            Some(folder) => Some((folder.clone(), Shown::read(folder)?)),
            None => None,
        };
        let endpoint = match &shown {
            Some((_, shown)) => shown.dial(endpoint)?,
            None => shown::dial(endpoint)?,
        };
        let channel = endpoint.connect().await?;
        let (requests, outgoing) = mpsc::channel(64);
        let open = SessionOpen {
            client_name: arguments.name.clone(),
            ttl: Some(arguments.ttl.try_into()?),
            ..SessionOpen::default()
        };
        let sent = now();
        requests.send(request(1, Request::Open(open))).await?;
        let outgoing = ReceiverStream::new(outgoing);
        let outgoing = match &shown {
            Some((_, shown)) => shown.authorize(outgoing)?,
            None => tonic::Request::new(outgoing),
        };
        let mut responses = LockServiceClient::new(channel)
            .session(outgoing)
            .await?
            .into_inner();
        let first = responses.message().await?.context("the stream ended")?;
        let Some(Response::Opened(opened)) = first.response else {
            bail!("the session was not opened: {first:?}");
        };
        let interval = span(opened.heartbeat_interval)?;
        Ok(Self {
            requests,
            responses,
            queue: match &*arguments.store {
                "quorum" => opened.coordinator,
                _ => String::new(),
            },
            next_id: 2,
            sent: vec![sent],
            beat: Instant::now() + interval,
            interval,
            ttl: span(opened.ttl)?,
            heard: Instant::now(),
            until: 0,
            draining: false,
            shown,
        })
    }

    /// Asks for a lock, and holds it. Fails if the session is of no use any more.
    async fn cycle(
        &mut self,
        worker: &Worker,
        cycle: &Cycle,
        registers: &Registers,
    ) -> anyhow::Result<()> {
        let ask = worker.asks(cycle, &self.queue);
        let granted = match self.acquire(cycle).await {
            Ok(Ok(granted)) => granted,
            Ok(Err(outcome)) => {
                ask.ended(outcome, "");
                return match outcome {
                    "failed" | "refused" => self.idle(PAUSE).await,
                    _ => Ok(()),
                };
            }
            Err(error) => {
                let status = error.downcast_ref::<Status>();
                let is_refused = status.is_some_and(|status| is_refusal(status.code()));
                let outcome = if is_refused { "refused" } else { "failed" };
                ask.ended(outcome, &format!("{error:#}"));
                return Err(error);
            }
        };
        self.hold(ask, cycle, granted, worker, registers).await
    }

    /// Returns the grant, or the outcome without one.
    async fn acquire(
        &mut self,
        cycle: &Cycle,
    ) -> anyhow::Result<Result<SessionGranted, &'static str>> {
        let (mode, permits, limit) = match cycle.mode {
            Mode::Exclusive => (LockMode::Exclusive, 0, 0),
            Mode::Shared => (LockMode::Shared, 0, 0),
            Mode::Permits(permits) => (LockMode::Semaphore, permits, LIMIT),
        };
        let acquire = SessionAcquire {
            name: cycle.lock.clone(),
            mode: mode.into(),
            permits,
            limit,
            wait: cycle.wait.map(TryInto::try_into).transpose()?,
            lock_delay: Some(cycle.lock_delay.try_into()?),
            ..SessionAcquire::default()
        };
        let id = self.send(Request::Acquire(acquire))?;
        let give_up = cycle.give_up.map(|time| after(now(), time));
        let give_up = give_up.unwrap_or(u64::MAX);
        // It gives up a wait, too, to show newer credentials.
        let event = loop {
            let look = give_up.min(after(now(), LOOK_AT_FILES));
            match self.until_answer(id, look).await? {
                Event::Time if now() < give_up && !self.is_outdated() => {}
                event => break event,
            }
        };
        match event {
            Event::Answer(Response::Granted(granted)) => Ok(Ok(granted)),
            Event::Answer(Response::NotGranted(refused)) => match refused.outcome() {
                AcquireOutcome::Busy => Ok(Err("busy")),
                AcquireOutcome::TimedOut => Ok(Err("timed_out")),
                other => bail!("{other:?}"),
            },
            Event::Answer(Response::Error(failure)) if is_refusal(failure.code.into()) => {
                Ok(Err("refused"))
            }
            // For example because the store is out of reach. The session goes on.
            Event::Answer(Response::Error(_)) => Ok(Err("failed")),
            Event::Answer(other) => bail!("an acquire was answered with {other:?}"),
            Event::Lost(_) => bail!("lost before it was granted"),
            Event::Time => {
                self.cancel(id).await?;
                Ok(Err("cancelled"))
            }
        }
    }

    /// Returns whether there are newer credentials than the session's.
    fn is_outdated(&self) -> bool {
        self.shown.as_ref().is_some_and(|(folder, shown)| {
            let newest = Shown::read(folder);
            newest.is_ok_and(|newest| newest != *shown)
        })
    }

    /// Gives up an acquire, and releases what may be granted in the same moment.
    async fn cancel(&mut self, acquire: u64) -> anyhow::Result<()> {
        let cancel = SessionCancel {
            acquire_request_id: acquire,
        };
        self.send(Request::Cancel(cancel))?;
        match self.until_answer(acquire, after(now(), ANSWER)).await? {
            Event::Answer(Response::Granted(granted)) => {
                for lock in granted.locks {
                    self.release(lock.name, lock.owner_id).await?;
                }
                Ok(())
            }
            Event::Answer(_) => Ok(()),
            Event::Lost(_) | Event::Time => bail!("a cancelled acquire was not answered"),
        }
    }

    async fn hold(
        &mut self,
        ask: Ask<'_>,
        cycle: &Cycle,
        granted: SessionGranted,
        worker: &Worker,
        registers: &Registers,
    ) -> anyhow::Result<()> {
        let [lock] = <[_; 1]>::try_from(granted.locks).map_err(|_| anyhow!("not one lock"))?;
        let acked = self.sent_at(granted.acked_heartbeat);
        let valid_for = span(granted.valid_for)?;
        let until = acked.map_or(0, |sent| after(sent, valid_for));
        if until <= now() {
            ask.ended("failed", "it had ended before it came");
            self.release(lock.name, lock.owner_id).await?;
            return Ok(());
        }
        let token = Some(lock.fencing_token);
        // Of a heartbeat that was answered before the grant, nothing is known of this lock.
        self.until = until;
        let mut held = ask.granted(token, until);
        let end = after(now(), cycle.hold);
        loop {
            registers.write(worker, cycle, token).await;
            let look = end.min(self.until).min(after(now(), LOOK));
            let event = self.next(look, Some(&lock.owner_id)).await;
            let now = now();
            let lost = match event {
                // What came in the meantime may be about a deadline that had passed.
                _ if now >= held.until() => Some("its deadline has passed".to_owned()),
                Ok(Event::Lost(reason)) => Some(reason),
                Ok(_) => None,
                Err(error) => {
                    held.lost(&format!("{error:#}"));
                    registers.write(worker, cycle, token).await;
                    return Err(error);
                }
            };
            if let Some(reason) = lost {
                held.lost(&reason);
                registers.write(worker, cycle, token).await;
                // Harmless if it is lost; else nobody would release it.
                self.release(lock.name, lock.owner_id).await?;
                return Ok(());
            }
            held.extended(self.until);
            if now >= end {
                break;
            }
        }
        held.releasing();
        let was_held = self.release(lock.name, lock.owner_id).await?;
        held.released(was_held);
        Ok(())
    }

    /// Releases a hold, and returns whether it was there.
    async fn release(&mut self, name: String, owner_id: Vec<u8>) -> anyhow::Result<bool> {
        let id = self.send(Request::Release(SessionRelease {
            name,
            owner_id,
            expired: false,
        }))?;
        match self.until_answer(id, after(now(), ANSWER)).await? {
            Event::Answer(Response::Released(released)) => Ok(released.released),
            _ => bail!("a release was not answered"),
        }
    }

    /// Does nothing but live.
    async fn idle(&mut self, pause: Duration) -> anyhow::Result<()> {
        let until = after(now(), pause);
        while now() < until {
            self.next(until, None).await?;
        }
        Ok(())
    }

    async fn until_answer(&mut self, id: u64, until: u64) -> anyhow::Result<Event> {
        loop {
            match self.step(until).await? {
                None => return Ok(Event::Time),
                Some(message) => match message.response {
                    Some(Response::Queued(_)) | None => {}
                    Some(answer) if message.request_id == id => return Ok(Event::Answer(answer)),
                    Some(_) => {}
                },
            }
        }
    }

    /// Waits until something happens to a hold.
    async fn next(&mut self, until: u64, owner: Option<&[u8]>) -> anyhow::Result<Event> {
        let Some(message) = self.step(until).await? else {
            return Ok(Event::Time);
        };
        if let Some(Response::Lost(lost)) = message.response {
            let mut ours = lost.locks.into_iter();
            if let Some(lock) = ours.find(|lock| Some(&*lock.owner_id) == owner) {
                return Ok(Event::Lost(lock.reason().as_str_name().to_lowercase()));
            }
        }
        Ok(Event::Time)
    }

    /// Returns the next message, or none at the time. Heartbeats are sent and their answers taken in the meantime.
    async fn step(&mut self, until: u64) -> anyhow::Result<Option<SessionResponse>> {
        loop {
            if self.heard.elapsed() > self.ttl {
                bail!("the coordinator was silent for a TTL");
            }
            tokio::select! {
                biased;
                message = self.responses.message() => {
                    let message = message?.context("the stream ended")?;
                    self.heard = Instant::now();
                    match &message.response {
                        Some(Response::Heartbeat(ack)) => {
                            let sent = self.sent_at(ack.acked_heartbeat);
                            // Without a lock there is nothing that could be valid.
                            if let (Some(sent), Some(valid_for)) = (sent, ack.valid_for) {
                                let until = after(sent, valid_for.try_into()?);
                                self.until = self.until.max(until);
                            }
                            return Ok(Some(message));
                        }
                        Some(Response::Draining(_)) => self.draining = true,
                        _ => return Ok(Some(message)),
                    }
                }
                () = tokio::time::sleep_until(self.beat) => {
                    self.beat = Instant::now() + self.interval;
                    let sequence = self.sent.len() as u64;
                    // Read first: the deadline counts from here.
                    self.sent.push(now());
                    let heartbeat = Request::Heartbeat(SessionHeartbeat { sequence });
                    self.try_send(request(0, heartbeat))?;
                }
                () = sleep(left(until).min(self.interval)) => {
                    if now() >= until {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn sent_at(&self, sequence: u64) -> Option<u64> {
        self.sent.get(usize::try_from(sequence).ok()?).copied()
    }

    fn send(&mut self, what: Request) -> anyhow::Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.try_send(request(id, what))?;
        Ok(id)
    }

    /// Fails if the connection has taken nothing for so long that the channel is full.
    fn try_send(&self, request: SessionRequest) -> anyhow::Result<()> {
        self.requests
            .try_send(request)
            .context("the stream takes nothing")
    }

    /// Leaves. What happens to the stream now is of no interest.
    async fn close(mut self) {
        if let Ok(id) = self.send(Request::Close(SessionClose {})) {
            let _ = self.until_answer(id, after(now(), ANSWER)).await;
        }
    }
}

fn request(request_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        request_id,
        request: Some(request),
        ..SessionRequest::default()
    }
}

/// Returns whether a coordinator refuses the client's credentials or permissions with this code.
fn is_refusal(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

fn span(duration: Option<prost_types::Duration>) -> anyhow::Result<Duration> {
    Ok(duration.context("a duration is missing")?.try_into()?)
}
