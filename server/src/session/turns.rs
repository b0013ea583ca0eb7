//! Whose turn it is among a session's own acquires, while it has no more room on the way to the store (see [`crate::crowd`]).
//!
//! What waits for its turn does so here, and not in the stream, so that what its client says after it (a heartbeat, above all) is
//! heard.

use std::{collections::VecDeque, sync::Arc};

use futures_util::FutureExt;
use leasehold_core::{command::Acquire, name::LockName};
use tokio::{sync::oneshot, time::Instant};

use super::{
    acquires::{Stage, fresh_owner, told_queued},
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

/// A session's acquires that wait for their turn, the oldest first.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: VecDeque<Turn>,
    share: Share,
}

#[derive(Debug)]
struct Turn {
    request_id: u64,
    ask: Ask,
    since: Instant,
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
            waiting: VecDeque::new(),
            share,
        }
    }

    /// An acquire lines up behind those that wait.
    pub(super) fn line_up(&mut self, request_id: u64, ask: Ask) {
        let since = Instant::now();
        self.waiting.push_back(Turn {
            request_id,
            ask,
            since,
        });
    }

    /// None waits any more; gives the request ids of those that did.
    fn clear(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.share.set_waiting(false);
        std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|turn| turn.request_id)
    }
}

impl<W: Wire> Session<W> {
    /// Sends the acquires whose turn it is.
    pub(super) fn take_turns(&mut self) {
        while let Some(next) = self.turns.waiting.front() {
            let acquiring = self.acquiring.get(&next.request_id);
            let is_cancelled =
                acquiring.is_none_or(|acquiring| matches!(acquiring.stage, Stage::Cancelled));
            // While the store is out of reach, each is told so at once, and not after those before it.
            if !is_cancelled && !self.turns.share.has_room() && self.store_is_up() {
                break;
            }
            let Some(Turn {
                request_id,
                ask,
                since,
            }) = self.turns.waiting.pop_front()
            else {
                break;
            };
            if is_cancelled {
                // Nobody but this session knew of it.
                self.on_acquired(request_id, Ok(Acquired::<[Hold; 0]>::Cancelled));
            } else {
                self.take_turn(request_id, ask, since);
            }
        }
        let is_waiting = !self.turns.waiting.is_empty();
        self.turns.share.set_waiting(is_waiting);
    }

    fn take_turn(&mut self, request_id: u64, ask: Ask, since: Instant) {
        let Some(acquiring) = self.acquiring.get_mut(&request_id) else {
            return;
        };
        acquiring.at_the_store = true;
        self.turns.share.went();
        self.outbox.following.script(request_id);
        let holding = self.actors.holds_any(acquiring.wanted.actor);
        let waited = since.elapsed();
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
                let asked =
                    self.coordinator
                        .ask(name, acquire, wait.after(waited), holding, answer);
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
