//! One task owns one session.
//!
//! Its inputs are the client's messages, the answers of the store, what other sessions do to its locks, the fate of its
//! connection, and time; nothing else touches its state. However the task ends, what it owns is seen to by dropping it:
//! an acquire in flight, a waiter and a hold each release themselves in the background.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::{
    command::Loss,
    id::{Actor, OwnerId, SessionId},
    lease::Lease,
    mode::Mode,
    name::ClientName,
    time::Moment,
};
use leasehold_proto::v1::{LostLock, SessionDraining, session_response::Response};
use leasehold_store::{LockStore, Stamped, Status as StoreStatus, StoreError, clock};
use tokio::{
    sync::watch,
    task::{consume_budget, yield_now},
};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::{
    acquires::Acquiring,
    actors::Actors,
    alarm::Alarm,
    counts::Count,
    ending::End,
    grace::Kept,
    outbox::Outbox,
    renewal::PendingAck,
    requests::Asked,
    resume::{self, Resumption},
    revoked::Revoked,
    second_look::SecondLook,
    sessions::Listed,
    signals::{Signal, signals},
    turns::Turns,
    wire::Wire,
};
use crate::{
    access::{Rights, rules::Granted},
    convert,
    coordinator::{
        Coordinator,
        acquire::Acquired,
        hold::{Hold, Places},
        inbox::{Inbox, News},
        registry::Taken,
    },
    limits::SessionPlace,
    listener::ConnectionHandle,
    telemetry::Tracked,
};

/// What each message counts of what the session's task may do in a turn, of which there are 128: two and what they lead to.
const MESSAGE: u32 = 60;
/// After so many news in a row a session lets others have their turn.
const NEWS_IN_A_ROW: u32 = 32;
/// For how many news a session keeps memory.
const NEWS_KEPT: usize = 32;

/// When a coordinator that goes away stops serving its sessions.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Sessions are told to finish.
    pub draining: CancellationToken,
    /// How long they are given.
    pub drain_timeout: Duration,
    /// Sessions end, and leave what they hold to expire.
    pub stopping: CancellationToken,
    /// Changes when the machine was suspended.
    pub suspended: watch::Receiver<()>,
}

/// What a session is made of once its `open` was accepted.
#[derive(Debug)]
pub struct Opened {
    /// Under which request id it was opened.
    pub request_id: u64,
    /// Its id.
    pub id: SessionId,
    /// Its client's name.
    pub client_name: ClientName,
    /// Its lease, begun when the `open` was received.
    pub lease: Lease,
    /// For how long it is kept for a resume when its peer ended the stream.
    pub grace: Duration,
    /// What it takes over from another stream.
    pub resume: Vec<Resumption>,
    /// What it was to take over and may not.
    pub denied: Vec<LostLock>,
    /// What its client may do.
    pub rights: Rights,
    /// Most holds and waiting acquires together.
    pub max_locks: usize,
    /// Its place among the sessions.
    pub listed: Listed,
    /// Its place among those of its caller.
    pub account: SessionPlace,
}

/// What a longer operation of the session came to.
pub(super) enum Done {
    Acquired {
        request_id: u64,
        acquired: Acquired,
    },
    AcquiredSeveral {
        request_id: u64,
        acquired: Result<Acquired<Vec<Hold>>, StoreError>,
    },
    Renewed(Vec<(OwnerId, Result<Stamped, StoreError>)>),
    Shortened(Vec<(OwnerId, Result<Stamped, StoreError>)>),
}

/// A hold of the session.
pub(super) struct Held {
    pub(super) hold: Hold,
    pub(super) actor: Actor,
    pub(super) mode: Mode,
    pub(super) count: Count,
    _tracked: Tracked,
}

/// The state of one session.
pub(super) struct Session<W: Wire> {
    pub(super) coordinator: Coordinator,
    pub(super) id: SessionId,
    pub(super) client_name: ClientName,
    pub(super) lease: Lease,
    pub(super) grace: Duration,
    /// There is no stream any more, and what there is is kept for a resume.
    pub(super) kept: Option<Kept>,
    pub(super) max_locks: usize,
    pub(super) granted: Granted,
    pub(super) listed: Listed,
    /// Its caller's, of which it is one of the sessions.
    pub(super) account: SessionPlace,
    pub(super) connection: ConnectionHandle,
    pub(super) outbox: Outbox<W>,
    pub(super) holds: HashMap<OwnerId, Held>,
    pub(super) revoked: Revoked,
    /// Acquires that have not been answered, by their request ids.
    pub(super) acquiring: HashMap<u64, Acquiring>,
    /// Those of them whose turn to be sent is still to come.
    pub(super) turns: Turns,
    /// Whether the places of those that wait in a queue are left for a resume when it ends.
    pub(super) places: Places,
    /// How many locks those ask for.
    pub(super) asked_locks: usize,
    pub(super) actors: Actors,
    /// What the store was asked and has not answered, by number.
    pub(super) asked: HashMap<u64, Asked>,
    /// How much it was asked so far.
    pub(super) asked_so_far: u64,
    /// How many of those are no acquires.
    pub(super) others_in_flight: usize,
    /// Where the store answers, and others tell that a hold was taken.
    pub(super) inbox: Arc<Inbox>,
    /// Empty: memory for what is taken out of it.
    pub(super) taken_out: Vec<News>,
    /// Acquires that wait for their turn, and renewals.
    pub(super) operations: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Heartbeats that wait for a renewal before they are answered.
    pub(super) pending_acks: Vec<PendingAck>,
    /// The newest heartbeat that was answered while a renewal had failed: the client may be promised more later.
    pub(super) short_ack: Option<PendingAck>,
    pub(super) renewing: bool,
    pub(super) retry_at: Option<Moment>,
    /// No hold's time in the store ends before this.
    pub(super) check_at: Option<Moment>,
    pub(super) silence: SecondLook,
    /// The client said `close`: what is granted only now is given back.
    pub(super) closing: bool,
    /// The client's side of the stream has ended, and there is nothing in that.
    pub(super) heard_all: bool,
}

/// Serves a session until it ends.
pub async fn serve<W: Wire>(
    coordinator: Coordinator,
    mut opened: Opened,
    connection: ConnectionHandle,
    mut outbox: Outbox<W>,
    mut incoming: Streaming<W::Asks>,
    shutdown: Shutdown,
) {
    let mut resumed = None;
    if !opened.resume.is_empty() {
        // Apart, so that it takes no room in the sessions that resume nothing.
        let resuming = resume::before_it_opens(&coordinator, opened, &mut outbox, &shutdown);
        match Box::pin(resuming).await {
            Some((open, all)) => (opened, resumed) = (open, Some(all)),
            None => return,
        }
    }
    let granted = opened.rights.granted().clone();
    let status = coordinator.store().status();
    let mut signals = signals(&shutdown, &connection, status, opened.rights);
    let mut alarm = Alarm::new(clock::now());
    let turns = Turns::new(coordinator.crowd().share());
    let mut session = Session {
        coordinator,
        id: opened.id,
        client_name: opened.client_name,
        lease: opened.lease,
        grace: opened.grace,
        kept: None,
        max_locks: opened.max_locks,
        granted,
        listed: opened.listed,
        account: opened.account,
        connection,
        outbox,
        holds: HashMap::new(),
        revoked: Revoked::default(),
        acquiring: HashMap::new(),
        turns,
        places: Places::default(),
        asked_locks: 0,
        actors: Actors::default(),
        asked: HashMap::new(),
        asked_so_far: 0,
        others_in_flight: 0,
        inbox: Arc::default(),
        taken_out: Vec::new(),
        operations: FuturesUnordered::new(),
        pending_acks: Vec::new(),
        short_ack: None,
        renewing: false,
        retry_at: None,
        check_at: None,
        silence: SecondLook::default(),
        closing: false,
        heard_all: false,
    };
    session.outbox.following.of(session.id);
    let has_resumed = resumed.is_some();
    session.opens(opened.request_id, resumed, opened.denied);
    if has_resumed {
        // How it is held is known only now, and what may be done with a name depends on that.
        session.on_rights(session.granted.clone());
    }
    let mut owed = 0;
    let end = loop {
        // A client that sends without end lets others have their turn.
        while owed > 0 {
            consume_budget().await;
            owed -= 1;
        }
        let now = clock::now();
        // Before anything else, so that no flood of messages holds it up.
        if session.next_deadline() <= now
            && let Some(end) = session.on_time(now)
        {
            break end;
        }
        session.take_turns();
        if session.outbox.is_cut() {
            break End::Cut;
        }
        if let Some(next) = session.outbox.next() {
            match session.on_next(next) {
                Some(end) => break end,
                None => continue,
            }
        }
        alarm.set(session.next_deadline(), now);
        tokio::select! {
            biased;
            Some(signal) = signals.next() => match signal {
                Signal::Stopping => break End::Stopping,
                Signal::Ended(ending) if ending.by_peer() => break session.drain(&mut incoming),
                // The stream says so itself.
                Signal::Ended(_) => {}
                Signal::Draining => {
                    let deadline = Some(convert::wire_duration(shutdown.drain_timeout));
                    session.outbox.send(0, Response::Draining(SessionDraining { deadline }));
                }
                // What the store lost while it was away is found at once, not at the next renewal.
                Signal::StoreUp => session.renew(),
                Signal::Rights(Ok(granted)) => session.on_rights(granted),
                Signal::Rights(Err(refusal)) => break End::Broken(refusal),
                Signal::Suspended => alarm.ring_soon(),
            },
            () = session.outbox.drain(), if session.outbox.has_backlog() => {}
            () = session.inbox.arrived() => session.on_news().await,
            Some(done) = session.operations.next() => session.on_done(done),
            message = incoming.message(), if !session.heard_all && session.outbox.has_room() => {
                owed = MESSAGE;
                if let Some(end) = session.on_message(message) {
                    break end;
                }
            }
            () = alarm.rings() => {}
        }
    };
    session.end(end, &shutdown, &mut signals).await;
}

impl<W: Wire> Session<W> {
    pub(super) async fn on_news(&mut self) {
        let mut taken_out = std::mem::take(&mut self.taken_out);
        self.inbox.take(&mut taken_out);
        for (number, news) in (1..).zip(taken_out.drain(..)) {
            if number % NEWS_IN_A_ROW == 0 {
                yield_now().await;
            }
            match news {
                News::Answered(number, result) => self.on_answer(number, result),
                News::Queued(request_id, queued) => self.on_several_queued(request_id, queued),
                News::Taken(taken) => self.on_taken(taken),
            }
        }
        // What a burst needed goes again.
        if taken_out.capacity() <= NEWS_KEPT {
            self.taken_out = taken_out;
        }
    }

    fn on_taken(&mut self, taken: Taken) {
        if self.holds.contains_key(&taken.owner) {
            self.lose(vec![(taken.owner, taken.loss)]);
        } else {
            self.revoked.forget(&taken.owner);
        }
    }

    /// When the session has something to do unless anything happens before.
    fn next_deadline(&self) -> Moment {
        let silent_at = self.silence.due(self.lease.silent_at());
        [
            self.retry_at,
            self.check_at,
            self.outbox.check_at(),
            self.revoked.due(),
            self.turn_overdue_at(),
        ]
        .into_iter()
        .flatten()
        .fold(silent_at, Moment::min)
    }

    pub(super) fn store_is_up(&self) -> bool {
        matches!(
            *self.coordinator.store().status().borrow(),
            StoreStatus::Up { .. }
        )
    }

    fn on_time(&mut self, now: Moment) -> Option<End> {
        if self.silence.is_missed(self.lease.silent_at(), now) {
            return Some(End::Silent);
        }
        self.outbox.check(now);
        self.revoked.end_due(now);
        self.end_overdue(now);
        if self.check_at.is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            // Out of reach, it is tried as soon as that changes.
            if self.store_is_up() {
                self.renew();
            }
        }
        None
    }

    /// Takes a new hold in.
    pub(super) fn hold(&mut self, hold: Hold, actor: Actor, mode: Mode, count: Count) {
        hold.tell(Arc::clone(&self.inbox));
        let stands_until = hold.stands_until();
        self.check_at = Some(
            self.check_at
                .map_or(stands_until, |at| at.min(stands_until)),
        );
        if !actor.is_nobody() {
            self.actors.hold(actor, hold.name().clone(), *hold.owner());
        }
        let tracked = self.coordinator.metrics().holds.track();
        self.holds.insert(
            *hold.owner(),
            Held {
                hold,
                actor,
                mode,
                count,
                _tracked: tracked,
            },
        );
        self.count();
    }

    /// Removes a hold, whatever becomes of it.
    pub(super) fn unhold(&mut self, owner: &OwnerId) -> Option<Hold> {
        let held = self.holds.remove(owner)?;
        self.actors.unhold(held.actor, held.hold.name());
        if self.holds.is_empty() {
            // There is nothing left to renew.
            self.listed.info().clear_renewal_due();
        }
        self.count();
        Some(held.hold)
    }

    /// Removes holds that are gone in the store, and tells the client. A hold that another stream resumed lives on there and
    /// counts as no loss, but this stream's client is told too: it may not be the one that resumed it.
    pub(super) fn lose(&mut self, lost: Vec<(OwnerId, Loss)>) {
        let mut locks = Vec::with_capacity(lost.len());
        for (owner, loss) in lost {
            let Some(hold) = self.unhold(&owner) else {
                continue;
            };
            if loss != Loss::Resumed {
                let label = convert::lost_reason_label(loss);
                self.coordinator.metrics().count_lost(label);
            }
            locks.push(convert::lost_lock(hold.name(), &owner, loss));
            match loss {
                // Nobody could say what is in the store now.
                Loss::Expired => drop(hold),
                _ => hold.forget(),
            }
        }
        for lost in convert::lost_messages(locks) {
            self.outbox.send(0, Response::Lost(lost));
        }
    }

    pub(super) fn count(&self) {
        let info = self.listed.info();
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        info.holds.store(count(self.holds.len()), Ordering::Relaxed);
        info.waiters
            .store(count(self.acquiring.len()), Ordering::Relaxed);
    }
}
