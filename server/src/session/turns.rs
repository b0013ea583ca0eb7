//! Queue of a session's own acquires while it may send no more to the store (see [`crate::crowd`]).
//!
//! What waits for its turn does so here, and not in the stream, so that what its client says after it (a heartbeat, above all) is
//! heard. An acquire that is given up, or has waited for as long as it wanted to, leaves the line at once: nobody but this session
//! knew of it.

use std::sync::Arc;

use futures_util::FutureExt;
use leasehold_core::{command::Acquire, name::LockName, time::Moment};
use leasehold_store::clock;
use tokio::sync::oneshot;

use super::{
    acquires::{Stage, fresh_owner, told_queued},
    line::Line,
    requests::Asked,
    task::{Done, Session},
    wire::Wire,
};
use crate::{
    coordinator::{
        acquire::{Acquired, InLine, Wait},
        hold::Hold,
        inbox::News,
        several::Several,
    },
    crowd::Share,
    limits::WaiterPlace,
};

/// After so many that have waited for too long a session lets others have their turn.
const OVERDUE_IN_A_ROW: usize = 32;

/// A session's acquires that wait for their turn, the oldest first.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: Line<Turn>,
    share: Share,
}

#[derive(Debug)]
struct Turn {
    request_id: u64,
    ask: Ask,
    since: Moment,
}

/// What is asked for when its turn comes.
#[derive(Debug)]
pub(super) enum Ask {
    /// One name.
    One {
        name: LockName,
        place: Option<WaiterPlace>,
        acquire: Acquire,
        wait: Wait,
    },
    /// These names, and the session's hold on others that it counts on.
    Several {
        names: Vec<LockName>,
        acquire: Acquire,
        wait: Wait,
    },
}

impl Turns {
    /// Those of a session that has this share.
    pub(super) fn new(share: Share) -> Self {
        Self {
            waiting: Line::default(),
            share,
        }
    }

    /// An acquire lines up behind those that wait; gives its number among them.
    pub(super) fn line_up(&mut self, request_id: u64, ask: Ask) -> u64 {
        let since = clock::now();
        self.waiting.join(Turn {
            request_id,
            ask,
            since,
        })
    }

    /// None waits any more; gives the request ids of those that did.
    fn clear(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.share.set_waiting(false);
        self.waiting.take_all().map(|turn| turn.request_id)
    }
}

impl Ask {
    const fn wait(&self) -> Wait {
        match self {
            Self::One { wait, .. } | Self::Several { wait, .. } => *wait,
        }
    }
}

impl<W: Wire> Session<W> {
    /// Sends the acquires whose turn it is.
    pub(super) fn take_turns(&mut self) {
        if !self.outbox.has_room() {
            // Nothing more is asked for who does not read, and no room is kept from others.
            return self.turns.share.set_waiting(false);
        }
        while !self.turns.waiting.is_empty() {
            // While the store is out of reach, each is told so at once, and not after those before it.
            if !self.turns.share.has_room() && self.store_is_up() {
                break;
            }
            let Some(turn) = self.turns.waiting.take_first() else {
                break;
            };
            self.take_turn(turn);
        }
        let is_waiting = !self.turns.waiting.is_empty();
        self.turns.share.set_waiting(is_waiting);
    }

    /// One that has lined up and has to wait waits for its turn no longer than it would for the lock. One that did not want to wait for
    /// the lock is asked for when its turn comes.
    pub(super) fn wait_for_turn(&mut self, number: u64) {
        if let Some(turn) = self.turns.waiting.get(number)
            && let Wait::For(wait) = turn.ask.wait()
        {
            let until = turn.since.after(wait);
            self.turns.waiting.wait_until(number, until);
        }
    }

    /// When the first of those in line has waited for as long as it wanted to.
    pub(super) fn turn_overdue_at(&self) -> Option<Moment> {
        // What there is no room to say is not said.
        let due = self.turns.waiting.due()?;
        self.outbox.has_room().then_some(due)
    }

    /// Answers those in line that have waited for as long as they wanted to, or some of them.
    pub(super) fn end_overdue(&mut self, now: Moment) {
        for _ in 0..OVERDUE_IN_A_ROW {
            if !self.outbox.has_room() {
                return;
            }
            let Some(turn) = self.turns.waiting.take_due(now) else {
                return;
            };
            let acquired = Acquired::<[Hold; 0]>::TimedOut(None);
            self.on_acquired(turn.request_id, Ok(acquired));
        }
    }

    /// Ends the wait of an acquire. A grant that is there before stands.
    pub(super) fn cancel(&mut self, request_id: u64) {
        let Some(acquiring) = self.acquiring.get_mut(&request_id) else {
            return;
        };
        let Stage::Turn(number) = acquiring.stage else {
            return acquiring.cancel();
        };
        if self.turns.waiting.take(number).is_some() {
            self.on_acquired(request_id, Ok(Acquired::<[Hold; 0]>::Cancelled));
        }
    }

    /// Ends the waits of all that wait for their turn.
    pub(super) fn cancel_those_in_line(&mut self) {
        for request_id in self.leave_the_line() {
            self.on_acquired(request_id, Ok(Acquired::<[Hold; 0]>::Cancelled));
        }
    }

    fn take_turn(&mut self, turn: Turn) {
        let Turn {
            request_id,
            ask,
            since,
        } = turn;
        let Some(acquiring) = self.acquiring.get_mut(&request_id) else {
            return;
        };
        acquiring.at_the_store = true;
        self.turns.share.went();
        self.outbox.following.script(request_id);
        let holding = self.actors.holds_any(acquiring.wanted.actor);
        let caller = Arc::clone(self.account.caller());
        let waited = since.until(clock::now());
        match ask {
            Ask::One {
                name,
                place,
                acquire,
                wait,
            } => {
                acquiring.stage = Stage::Asked;
                let (number, answer) = self.next_answer();
                let name = (name, place);
                let wait = wait.after(waited);
                let holding = holding.then_some(caller);
                let asked = self.coordinator.ask(name, acquire, wait, holding, answer);
                self.asked
                    .insert(number, Asked::Acquire { request_id, asked });
            }
            Ask::Several {
                names,
                acquire,
                wait,
            } => {
                let (cancel, cancelled) = oneshot::channel();
                acquiring.stage = Stage::InLine(Some(cancel));
                let several = Several {
                    names,
                    acquire,
                    wait: wait.after(waited),
                    caller,
                    holding,
                };
                self.ask_several(request_id, several, cancelled);
            }
        }
    }

    fn ask_several(&mut self, request_id: u64, several: Several, cancelled: oneshot::Receiver<()>) {
        let coordinator = self.coordinator.clone();
        let inbox = Arc::clone(&self.inbox);
        let mut told = false;
        let queued = move |in_line: &InLine| {
            if !std::mem::replace(&mut told, true) {
                inbox.put(News::Queued(request_id, told_queued(in_line)));
            }
        };
        self.operations.push(
            async move {
                let acquired = coordinator
                    .acquire_several(several, fresh_owner, queued, cancelled)
                    .await;
                Done::AcquiredSeveral {
                    request_id,
                    acquired,
                }
            }
            .boxed(),
        );
    }

    /// An acquire was answered, if only with its place in the queue: another has its turn.
    pub(super) fn came_back(&mut self, request_id: u64) {
        if let Some(acquiring) = self.acquiring.get_mut(&request_id)
            && std::mem::take(&mut acquiring.at_the_store)
        {
            self.turns.share.came_back();
        }
    }

    /// Lets go of the acquires that wait for their turn; gives their request ids.
    pub(super) fn leave_the_line(&mut self) -> impl Iterator<Item = u64> + use<W> {
        self.turns.clear()
    }

    /// Leaves the way to the store to others, whatever is still on it.
    pub(super) fn leave_the_crowd(&mut self) {
        drop(self.turns.clear());
        for acquiring in self.acquiring.values_mut() {
            if std::mem::take(&mut acquiring.at_the_store) {
                self.turns.share.came_back();
            }
        }
    }
}
