//! The task behind a session: it owns all of its state, feeds the machine and carries out what comes out of it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, Sleep, sleep},
};

use super::{
    SessionInfo,
    changes::Change,
    link::{Event, Link, Outbound},
    machine::{Granted, Machine, Output},
    spec::AcquireSpec,
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure, HoldFailure},
    guard::LockGuard,
    lease::LostReason,
    pauses::Pauses,
    proto::v1,
    settings::Settings,
};

/// How long the task sleeps at most. The runtime's timers do not count time for which the machine was suspended, so
/// that one set for long would ring late.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How many acquires may wait for the task to take them up; callers wait for room.
pub(super) const ACQUIRE_QUEUE: usize = 256;

pub(super) type AcquireReply = oneshot::Sender<Result<Vec<LockGuard>, AcquireError>>;
pub(crate) type HoldReply = oneshot::Sender<Result<(), HoldFailure>>;

/// Somebody asks for a lock.
pub(super) struct AcquireCommand {
    pub(super) id: u64,
    pub(super) spec: AcquireSpec,
    pub(super) reply: AcquireReply,
}

/// What must be said without waiting, even while dropping: not more than one for each acquire and guard, and what
/// guards ask for.
pub(crate) enum Note {
    /// Nobody waits for this acquire any more.
    Cancel(u64),
    /// A guard gives its lock back or is dropped: the last that it says.
    Release { key: u64, reply: Option<HoldReply> },
    /// A guard changes something about its hold.
    Change {
        key: u64,
        change: Change,
        reply: HoldReply,
    },
    /// The session is to be closed. The sender is dropped when it has ended.
    Close(oneshot::Sender<()>),
}

/// What handles of a session can see.
#[derive(Clone, Default)]
pub(super) struct Status {
    pub(super) info: Option<SessionInfo>,
    pub(super) draining: Option<Moment>,
}

/// The ends of the channels between a session's handles and its task.
pub(super) struct Channels {
    pub(super) acquires: mpsc::Receiver<AcquireCommand>,
    pub(super) notes: mpsc::UnboundedReceiver<Note>,
    /// For guards that are made; weak, since the task ends when all others are gone.
    pub(super) note_sender: mpsc::WeakUnboundedSender<Note>,
    pub(super) status: watch::Sender<Status>,
    /// Told how the first attempt to open the session ended.
    pub(super) opened: oneshot::Sender<Result<(), ConnectError>>,
}

pub(super) struct Driver {
    // First, so that it is dropped first: guards hear that they are lost before the connection is cut.
    machine: Machine<AcquireReply, HoldReply>,
    link: Link,
    outbound: Outbound,
    pauses: Pauses,
    settings: Arc<Settings>,
    acquires: mpsc::Receiver<AcquireCommand>,
    acquires_open: bool,
    notes: mpsc::UnboundedReceiver<Note>,
    notes_open: bool,
    note_sender: mpsc::WeakUnboundedSender<Note>,
    status: watch::Sender<Status>,
    opened: Option<oneshot::Sender<Result<(), ConnectError>>>,
    closers: Vec<oneshot::Sender<()>>,
    ended: bool,
}

impl Driver {
    pub(super) fn new(settings: Arc<Settings>, open: v1::SessionOpen, channels: Channels) -> Self {
        Self {
            machine: Machine::new(settings.endpoint.clone(), settings.connect_timeout, open),
            link: Link::dial(&settings),
            outbound: Outbound::default(),
            pauses: Pauses::new(&settings),
            settings,
            acquires: channels.acquires,
            acquires_open: true,
            notes: channels.notes,
            notes_open: true,
            note_sender: channels.note_sender,
            status: channels.status,
            opened: Some(channels.opened),
            closers: Vec::new(),
            ended: false,
        }
    }

    /// Runs until the session is closed, or until all handles and guards are gone.
    pub(super) async fn run(mut self) {
        let alarm = sleep(LONGEST_SLEEP);
        tokio::pin!(alarm);
        let mut armed = None;
        while !self.ended {
            self.arm(alarm.as_mut(), &mut armed);
            tokio::select! {
                biased;
                () = alarm.as_mut() => {
                    armed = None;
                    self.machine.tick(Moment::now());
                }
                event = self.link.next() => self.on_link(event),
                () = self.outbound.unblocked(), if self.outbound.is_blocked() => {
                    self.outbound.flush();
                }
                note = self.notes.recv(), if self.notes_open => self.on_note(note),
                acquire = self.acquires.recv(),
                    if self.acquires_open && !self.outbound.is_congested() => {
                    self.on_acquire(acquire);
                }
            }
            self.carry_out();
        }
    }

    /// Sets the alarm, unless it is set as it should be.
    fn arm(&self, alarm: std::pin::Pin<&mut Sleep>, armed: &mut Option<Moment>) {
        let wanted = self.machine.alarm();
        if armed.is_some() && *armed == wanted {
            return;
        }
        let now = Moment::now();
        let pause = wanted.map_or(LONGEST_SLEEP, |wanted| wanted.since(now));
        alarm.reset(Instant::now() + pause.min(LONGEST_SLEEP));
        *armed = Some(wanted.unwrap_or(now));
    }

    fn on_link(&mut self, event: Event) {
        let now = Moment::now();
        match event {
            Event::RetryDue => self.link = Link::dial(&self.settings),
            Event::Dialled(Ok(channel)) => {
                let requests = self.outbound.begin();
                self.machine.connected(now);
                // The `open` is in the channel before the stream begins.
                self.carry_out();
                self.link = Link::start(channel, requests);
            }
            Event::Dialled(Err(error)) => self.connect_failed(now, error),
            Event::Message(message) => self.machine.message(now, message),
            Event::Ended(status) if self.machine.is_open() => {
                match status {
                    Some(status) => tracing::warn!(
                        endpoint = self.settings.endpoint,
                        "the stream to the coordinator broke: {}",
                        Failure::from(status)
                    ),
                    None => tracing::info!(
                        endpoint = self.settings.endpoint,
                        "the coordinator ended the stream"
                    ),
                }
                self.machine.stream_ended(now);
                self.reconnect(now);
            }
            Event::Ended(status) => {
                let endpoint = self.settings.endpoint.clone();
                let error = match status {
                    Some(status) => ConnectError::broke(endpoint, Failure::from(status)),
                    None => ConnectError::Ended { endpoint },
                };
                self.connect_failed(now, error);
            }
        }
    }

    fn connect_failed(&mut self, now: Moment, error: ConnectError) {
        if let Some(opened) = self.opened.take() {
            // Whoever opens a session wants to know at once.
            opened.send(Err(error)).ok();
            self.ended = true;
            return;
        }
        tracing::debug!("failed to open a session: {error}");
        self.machine.connect_failed(now, &Arc::new(error));
        self.reconnect(now);
    }

    fn reconnect(&mut self, now: Moment) {
        self.status.send_replace(Status::default());
        self.outbound.end();
        self.link = Link::pause(self.pauses.pause(now));
    }

    fn on_note(&mut self, note: Option<Note>) {
        let now = Moment::now();
        match note {
            Some(Note::Cancel(id)) => self.machine.cancel(now, id),
            Some(Note::Release { key, reply }) => self.machine.release(now, key, reply),
            Some(Note::Change { key, change, reply }) => {
                self.machine.change(now, key, change, reply);
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

    fn on_acquire(&mut self, command: Option<AcquireCommand>) {
        match command {
            // Its caller may have gone while it waited here; then its cancellation has found nothing to cancel.
            Some(command) if command.reply.is_closed() => {}
            Some(AcquireCommand { id, spec, reply }) => {
                self.machine.acquire(Moment::now(), id, spec, reply);
            }
            None => self.acquires_open = false,
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.machine.next_output() {
            match output {
                Output::Send(request) => self.outbound.push(request),
                Output::Acquired(reply, result) => self.answer(reply, result),
                Output::HoldDone(reply, result) => {
                    reply.send(result).ok();
                }
                Output::Opened(info) => {
                    tracing::debug!(
                        session = info.session_id,
                        coordinator = info.coordinator,
                        "session opened"
                    );
                    self.pauses.opened(Moment::now());
                    self.status.send_replace(Status {
                        info: Some(info),
                        draining: None,
                    });
                    if let Some(opened) = self.opened.take() {
                        opened.send(Ok(())).ok();
                    }
                }
                Output::Draining(until) => {
                    tracing::info!("the coordinator is going away");
                    self.status
                        .send_modify(|status| status.draining = Some(until));
                }
                Output::HangUp(Some(error)) => self.connect_failed(Moment::now(), error),
                Output::HangUp(None) => self.reconnect(Moment::now()),
                Output::Ended => self.ended = true,
            }
        }
    }

    fn answer(&mut self, reply: AcquireReply, result: Result<Vec<Granted>, AcquireError>) {
        let answer = match (result, self.note_sender.upgrade()) {
            (Err(error), _) => Err(error),
            (Ok(granted), Some(notes)) => Ok(granted
                .into_iter()
                .map(|granted| LockGuard::new(granted, notes.clone()))
                .collect()),
            // All handles are gone, and whoever asked with them.
            (Ok(granted), None) => {
                let now = Moment::now();
                for Granted { key, lease, .. } in granted {
                    lease.end(now, LostReason::Released).ok();
                    self.machine.release(now, key, None);
                }
                return;
            }
        };
        // If nobody waits any more, the guards come back, are dropped, and give their locks back.
        drop(reply.send(answer));
    }
}
