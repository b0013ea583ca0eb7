//! Acquires at the head of a queue: carries them out, and answers them and the ones behind.

use std::{sync::Arc, time::Duration};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{End, Handed, Loss, Reply},
    id::Predecessors,
    name::LockName,
    time::StoreTime,
    view::{HoldView, HolderView},
};

use super::{
    attempt::{Attempted, Granted},
    line::{Place, Turn},
    round::stamped,
    waiting::{Inner, place_number},
};
use crate::{clock, store::Answer};

impl Inner {
    /// Carries out acquires of a name, one after the other, as long as one may succeed. Returns when the holder that blocks the
    /// next one expires.
    pub(super) async fn drive(
        self: &Arc<Self>,
        name: &LockName,
        mut next: Turn,
    ) -> Result<Option<Duration>, StoreError> {
        loop {
            let Turn { acquire, caller } = &next;
            let attempted = match self.board.refused(&self.masters) {
                Some(reason) => Attempted::Failed(StoreError::Unavailable { reason }),
                None => self.masters.attempt(name, caller, acquire).await,
            };
            match self.settle(name, &next, attempted) {
                (Some(turn), _) => next = turn,
                (None, came_to) => return came_to,
            }
        }
    }

    /// Processes the result of an acquire; returns the next one, if it is to begin at once.
    fn settle(
        self: &Arc<Self>,
        name: &LockName,
        tried: &Turn,
        attempted: Attempted,
    ) -> (Option<Turn>, Result<Option<Duration>, StoreError>) {
        let owner = &tried.acquire.owner;
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(name) else {
            // A line exists while an acquire is in flight.
            return (None, Ok(None));
        };
        let (mut next, mut came_to) = (false, Ok(None));
        match attempted {
            Attempted::Granted(granted) => {
                let (place, leaving) = line.granted(owner);
                match place.map(|place| place.answer) {
                    Some(Some(answer)) => {
                        let reply = Reply::Granted {
                            token: granted.token,
                            permits: None,
                        };
                        let result = Ok(stamped(reply, granted.at, granted.sent_at));
                        self.tell(name, answer, result);
                    }
                    // Before another task can find that it has left the queue.
                    Some(None) => self.hand(name, tried, granted),
                    None => {
                        // It has left meanwhile. Later commands follow this release at every master.
                        self.masters
                            .give_back(name, &tried.caller, *owner, End::Clean);
                        next = true;
                    }
                }
                let holder = HolderView::Ours(Box::new(view(tried, granted)));
                self.tell_leaving(name, leaving, Some(&holder), granted.at);
            }
            Attempted::Held {
                holder,
                expires_in,
                at,
                ..
            } => {
                let (leaving, again) = line.blocked();
                next = again;
                came_to = Ok(expires_in);
                self.tell_leaving(name, leaving, holder.as_ref(), at);
                for (position, place) in line.iter_mut().enumerate() {
                    if let Some(answer) = place.answer.take() {
                        let reply = Reply::Queued {
                            position: place_number(position),
                            expires_in,
                        };
                        self.tell(name, answer, Ok(stamped(reply, at, clock::now())));
                    }
                }
            }
            Attempted::Resumed(at) => {
                let (place, leaving) = line.granted(owner);
                // It has lost its place: the one behind it is next.
                next = true;
                if let Some(answer) = place.and_then(|place| place.answer) {
                    let reply = Reply::Lost(Loss::Resumed);
                    self.tell(name, answer, Ok(stamped(reply, at, clock::now())));
                }
                self.tell_leaving(name, leaving, None, at);
            }
            Attempted::Failed(error) => {
                let (mut refused, _) = line.blocked();
                let is_first = |place: &Place| place.owner() == *owner && place.answer.is_some();
                if line.iter().any(is_first) {
                    refused.extend(line.leave(owner));
                }
                for answer in refused.into_iter().filter_map(|place| place.answer) {
                    self.tell(name, answer, Err(error.clone()));
                }
                came_to = Err(error);
            }
        }
        let next = if next { line.begin() } else { None };
        if line.is_over() {
            lines.remove(name);
        }
        (next, came_to)
    }

    /// Delivers a grant to a waiter that was answered "queued".
    fn hand(&self, name: &LockName, turn: &Turn, granted: Granted) {
        let reply = Reply::Refreshed {
            current: Vec::new(),
            expires_in: None,
            attached: true,
        };
        let mut stamped = stamped(reply, granted.at, granted.sent_at);
        stamped.executed.handed.push(Handed {
            owner: turn.acquire.owner,
            token: granted.token,
            permits: None,
            coordinator: turn.caller.coordinator.clone(),
            of_session: turn.acquire.session.is_some(),
        });
        self.observe(name, &stamped);
    }

    /// Answers an acquire that does not wait with the holder.
    pub(super) fn tell_busy(self: &Arc<Self>, name: LockName, answer: Answer) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let seen = inner.masters.look(&name).await;
            let result = seen.map(|seen| {
                let holder = seen.holder();
                stamped(Reply::Busy { holder }, seen.round.at, clock::now())
            });
            inner.tell(&name, answer, result);
        });
    }

    /// Answers acquires that do not wait, and have left the queue, with the holder.
    fn tell_leaving(
        &self,
        name: &LockName,
        leaving: Vec<Place>,
        holder: Option<&HolderView>,
        at: StoreTime,
    ) {
        for answer in leaving.into_iter().filter_map(|place| place.answer) {
            let reply = Reply::Busy {
                holder: holder.cloned(),
            };
            self.tell(name, answer, Ok(stamped(reply, at, clock::now())));
        }
    }
}

fn view(turn: &Turn, granted: Granted) -> HoldView {
    let Turn { acquire, caller } = turn;
    HoldView {
        session: acquire.session,
        predecessors: Predecessors::default(),
        actor: acquire.actor,
        client_name: acquire.client_name.clone(),
        mode: acquire.mode,
        count: 1,
        coordinator: caller.coordinator.clone(),
        token: granted.token,
        acquired_at: granted.at,
        expires_in: acquire.ttl,
        lock_delay: acquire.lock_delay,
        max_hold: acquire.max_hold,
        value: acquire.value.clone(),
    }
}
