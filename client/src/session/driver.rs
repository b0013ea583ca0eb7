//! Task behind a session: owns all of its state, feeds the machine and executes its outputs.

use std::{pin::Pin, sync::Arc, time::Duration};

use fastrand::Rng;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, Sleep, sleep},
};
use uuid::Uuid;

use super::{
    connection::{Connection, first_event, next_event},
    link::Event,
    machine::{Machine, StreamEnd},
    messages::{Granted, HoldReply, Note, SessionInfo},
    output::Output,
    route::Route,
    spec::AcquireSpec,
    stream::CLOSE_TIMEOUT,
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure},
    guard::LockGuard,
    lease::LostReason,
    pauses::Pauses,
    proto::v1,
    settings::Settings,
};

/// Longest sleep of the task. The runtime's timers do not count time for which the machine was suspended, so
/// that one set for long would ring late.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Capacity of the queue of acquires for the task; callers wait for room.
pub(super) const ACQUIRE_QUEUE: usize = 256;

/// Most connections kept that did not open in time: more than there can be before all is lost.
pub(super) const MOST_OVERDUE: usize = 64;

pub(super) type AcquireReply = oneshot::Sender<Result<Vec<LockGuard>, AcquireError>>;

/// Request for a lock.
pub(super) struct AcquireCommand {
    pub(super) id: u64,
    pub(super) spec: AcquireSpec,
    pub(super) reply: AcquireReply,
}

/// State of a session, as its handles see it.
#[derive(Clone, Default)]
pub(super) struct Status {
    pub(super) info: Option<SessionInfo>,
    pub(super) draining: Option<Moment>,
}

/// The ends of the channels between a session's handles and its task.
pub(super) struct Channels {
    pub(super) acquires: mpsc::Receiver<AcquireCommand>,
    pub(super) notes: mpsc::UnboundedReceiver<Note>,
    /// Sender of notes for new guards; weak, because the task ends when all other senders are gone.
    pub(super) note_sender: mpsc::WeakUnboundedSender<Note>,
    pub(super) status: watch::Sender<Status>,
    /// Receiver of the result of the first attempt to open the session.
    pub(super) opened: Option<oneshot::Sender<Result<(), ConnectError>>>,
}

pub(super) struct Driver {
    // First, so that it is dropped first: guards hear that they are lost before the connection is cut.
    pub(super) machine: Machine<AcquireReply, HoldReply>,
    /// Connection of the stream that has the session open.
    pub(super) current: Option<Connection>,
    /// Connection of the stream that is to have it next.
    pub(super) next: Option<Connection>,
    /// Connections of streams that did not open in time, until another one has.
    pub(super) overdue: Vec<Connection>,
    /// Goodbyes on former connections.
    leaving: JoinSet<()>,
    /// The end waits for those goodbyes.
    sees_off: bool,
    pub(super) route: Route,
    /// Errors of this round's attempts.
    pub(super) round_errors: Vec<ConnectError>,
    /// Pause before the next round.
    pub(super) pause: Option<Duration>,
    pub(super) pauses: Pauses,
    /// Time of the last look at the files of credentials.
    pub(super) looked_at: Option<Moment>,
    pub(super) settings: Arc<Settings>,
    pub(super) channels: Channels,
    notes_open: bool,
    closers: Vec<oneshot::Sender<()>>,
    pub(super) ended: bool,
}

impl Driver {
    pub(super) fn new(settings: Arc<Settings>, open: v1::SessionOpen, channels: Channels) -> Self {
        Self {
            machine: Machine::new(settings.connect_timeout, open, || {
                Uuid::new_v4().into_bytes().to_vec()
            }),
            current: None,
            next: None,
            overdue: Vec::new(),
            leaving: JoinSet::new(),
            sees_off: false,
            route: Route::new(&settings, Rng::new()),
            round_errors: Vec::new(),
            pause: None,
            pauses: Pauses::new(&settings),
            looked_at: None,
            settings,
            channels,
            notes_open: true,
            closers: Vec::new(),
            ended: false,
        }
    }

    /// Runs until the session is closed, or until all handles and guards are gone.
    pub(super) async fn run(mut self) {
        let alarm = sleep(LONGEST_SLEEP);
        tokio::pin!(alarm);
        let mut armed = None;
        self.connect_if_wanted();
        while !self.ended {
            self.arm(alarm.as_mut(), &mut armed);
            let congested = self
                .current
                .as_ref()
                .is_some_and(|current| current.outbound.is_congested());
            tokio::select! {
                biased;
                () = alarm.as_mut() => {
                    armed = None;
                    let now = Moment::now();
                    self.machine.tick(now);
                    self.renew_credentials(now);
                }
                // Before the other, which may have something to say all the time.
                event = next_event(&mut self.next) => self.on_next(event),
                event = next_event(&mut self.current) => self.on_current(event),
                (index, event) = first_event(&mut self.overdue), if !self.overdue.is_empty() => {
                    self.on_overdue(index, event);
                }
                note = self.channels.notes.recv(), if self.notes_open => self.on_note(note),
                Some(acquire) = self.channels.acquires.recv(), if !congested => {
                    self.on_acquire(acquire);
                }
            }
            self.carry_out();
            self.connect_if_wanted();
        }
        if self.sees_off {
            while self.leaving.join_next().await.is_some() {}
        }
    }

    /// Sets the alarm, unless it is set as it should be.
    fn arm(&self, alarm: Pin<&mut Sleep>, armed: &mut Option<Moment>) {
        let wanted = self.machine.alarm();
        if armed.is_some() && *armed == wanted {
            return;
        }
        let now = Moment::now();
        let pause = wanted.map_or(LONGEST_SLEEP, |wanted| wanted.since(now));
        alarm.reset(Instant::now() + pause.min(LONGEST_SLEEP));
        *armed = Some(wanted.unwrap_or(now));
    }

    fn on_current(&mut self, event: Event) {
        let now = Moment::now();
        let Some(current) = &self.current else {
            return;
        };
        let (Some(number), endpoint) = (current.number, current.endpoint()) else {
            return;
        };
        match event {
            Event::Message(message) => self.machine.message(now, number, message),
            Event::Ended(status) => {
                let failure = status.map(Failure::from_status);
                let end = self.machine.stream_ended_by(now, number, failure.as_ref());
                match &failure {
                    _ if end == StreamEnd::Stopped => tracing::info!(
                        endpoint = &*endpoint,
                        "the coordinator stopped; looking for one to resume the session on"
                    ),
                    Some(failure) => tracing::warn!(
                        endpoint = &*endpoint,
                        "the stream to the coordinator broke: {failure}"
                    ),
                    None => {
                        tracing::info!(endpoint = &*endpoint, "the coordinator ended the stream")
                    }
                }
                match end {
                    StreamEnd::Stopped => self.current_stopped(now),
                    StreamEnd::Left | StreamEnd::Disowned | StreamEnd::ByOperator => {
                        self.current_ended(now);
                    }
                }
            }
            Event::Found(_) | Event::Dialled(_) | Event::Started(_) => {}
        }
    }

    fn send(&mut self, number: u64, request: v1::SessionRequest) {
        let connections = [&mut self.current, &mut self.next].into_iter().flatten();
        for connection in connections {
            if connection.number == Some(number) {
                connection.outbound.push(request);
                return;
            }
        }
    }

    fn opened(&mut self, number: u64, info: SessionInfo) {
        tracing::debug!(
            session = info.session_id,
            coordinator = info.coordinator,
            "session opened"
        );
        let next = self.next.take_if(|next| next.number == Some(number));
        if let Some(former) = std::mem::replace(&mut self.current, next) {
            self.leave(former);
        }
        self.overdue.clear();
        self.round_errors.clear();
        self.pause = None;
        self.pauses.opened(Moment::now());
        self.channels.status.send_replace(Status {
            info: Some(info),
            draining: None,
        });
        if let Some(opened) = self.channels.opened.take() {
            opened.send(Ok(())).ok();
        }
    }

    /// Says goodbye on a former connection, beside everything else.
    fn leave(&mut self, connection: Connection) {
        // Those that have ended take no more room.
        while self.leaving.try_join_next().is_some() {}
        self.leaving.spawn(connection.leave(CLOSE_TIMEOUT));
    }

    fn on_note(&mut self, note: Option<Note>) {
        let now = Moment::now();
        match note {
            Some(Note::Cancel(id)) => self.machine.cancel(now, id),
            Some(Note::Release { key, trace, reply }) => {
                self.machine.release(now, key, trace, reply);
            }
            Some(Note::Change {
                key,
                change,
                trace,
                reply,
            }) => {
                self.machine.change(now, key, change, trace, reply);
            }
            Some(Note::Close(done)) => {
                self.closers.push(done);
                self.machine.close(now);
            }
            // Neither a handle nor a guard is left.
            None => {
                self.notes_open = false;
                self.machine.close(now);
            }
        }
    }

    fn on_acquire(&mut self, command: AcquireCommand) {
        let AcquireCommand { id, spec, reply } = command;
        // The caller may have given up while the command waited here.
        if !reply.is_closed() {
            self.machine.acquire(Moment::now(), id, spec, reply);
        }
    }

    pub(super) fn carry_out(&mut self) {
        while let Some(output) = self.machine.next_output() {
            match output {
                Output::Send(number, request) => self.send(number, request),
                Output::Acquired(reply, result) => self.answer(reply, result),
                Output::HoldDone(reply, result) => {
                    reply.send(result).ok();
                }
                Output::Opened(number, info) => self.opened(number, info),
                Output::Draining(until) => {
                    tracing::info!("the coordinator is going away");
                    self.channels
                        .status
                        .send_modify(|status| status.draining = Some(until));
                }
                Output::HangUp(number, error) => self.hang_up(number, error),
                Output::Leave(number) => {
                    if let Some(next) = self.next.take_if(|next| next.number == Some(number)) {
                        self.leave(next);
                        self.sees_off = true;
                    }
                }
                Output::Ended => self.ended = true,
            }
        }
    }

    fn answer(&mut self, reply: AcquireReply, result: Result<Vec<Granted>, AcquireError>) {
        let answer = match (result, self.channels.note_sender.upgrade()) {
            (Err(error), _) => Err(error),
            (Ok(granted), Some(notes)) => Ok(granted
                .into_iter()
                .map(|granted| LockGuard::new(granted, notes.clone(), self.settings.traces.clone()))
                .collect()),
            // All handles are gone, and whoever asked with them.
            (Ok(granted), None) => {
                let now = Moment::now();
                for Granted { key, lease, .. } in granted {
                    lease.end(now, LostReason::Released).ok();
                    self.machine.release(now, key, None, None);
                }
                return;
            }
        };
        // If nobody waits any more, the guards come back, are dropped, and give their locks back.
        drop(reply.send(answer));
    }
}

#[cfg(test)]
mod tests;
