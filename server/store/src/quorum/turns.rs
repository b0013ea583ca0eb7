//! Acquires at the head of a queue: carries them out, and answers them and the ones behind.

use std::{sync::Arc, time::Duration};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{End, Handed, Loss, Reply},
    name::LockName,
    time::StoreTime,
    view::{HoldView, HolderView},
};

use super::{
    attempt::{Attempted, Granted},
    line::Place,
    round::stamped,
    store::Inner,
    waiting::{Asked, Told, Turn, place_number, turn},
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
        let mut told: Told = Vec::new();
        let mut unwanted = false;
        let mut handed = None;
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(name) else {
            // A line exists while an acquire is in flight.
            return (None, Ok(None));
        };
        let (mut next, mut came_to) = (false, Ok(None));
        match attempted {
            Attempted::Granted(granted) => {
                let (place, leaving) = line.granted(owner);
                match place.map(|place| place.asked.answer) {
                    Some(Some(answer)) => {
                        let reply = Reply::Granted {
                            token: granted.token,
                        };
                        told.push((answer, Ok(stamped(reply, granted.at, granted.sent_at))));
                    }
                    Some(None) => handed = Some(granted),
                    None => {
                        unwanted = true;
                        next = true;
                    }
                }
                let holder = HolderView::Ours(Box::new(view(tried, granted)));
                told_busy(&mut told, leaving, Some(&holder), granted.at);
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
                told_busy(&mut told, leaving, holder.as_ref(), at);
                for (position, place) in line.iter_mut().enumerate() {
                    if let Some(answer) = place.asked.answer.take() {
                        let reply = Reply::Queued {
                            position: place_number(position),
                            expires_in,
                        };
                        told.push((answer, Ok(stamped(reply, at, clock::now()))));
                    }
                }
            }
            Attempted::Resumed(at) => {
                let (place, leaving) = line.granted(owner);
                // It has lost its place: the one behind it is next.
                next = true;
                if let Some(answer) = place.and_then(|place| place.asked.answer) {
                    let reply = Reply::Lost(Loss::Resumed);
                    told.push((answer, Ok(stamped(reply, at, clock::now()))));
                }
                told_busy(&mut told, leaving, None, at);
            }
            Attempted::Failed(error) => {
                let (leaving, _) = line.blocked();
                let mut refused = leaving;
                let is_told = |place: &Place<Asked>| place.asked.answer.is_some();
                if line
                    .iter()
                    .any(|place| place.owner == *owner && is_told(place))
                {
                    refused.extend(line.leave(owner));
                }
                for place in refused {
                    if let Some(answer) = place.asked.answer {
                        told.push((answer, Err(error.clone())));
                    }
                }
                came_to = Err(error);
            }
        }
        if unwanted {
            // It has left meanwhile. Later commands follow this release at every master.
            self.masters
                .give_back(name, &tried.caller, *owner, End::Clean);
        }
        if let Some(granted) = handed {
            // Before another task can find that it has left the queue.
            self.hand(name, tried, granted);
        }
        let next = if next { line.begin().map(turn) } else { None };
        if line.is_over() {
            lines.remove(name);
        }
        drop(lines);
        self.tell(name, told);
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
            inner.tell(&name, vec![(answer, result)]);
        });
    }
}

fn told_busy(
    told: &mut Told,
    leaving: Vec<Place<Asked>>,
    holder: Option<&HolderView>,
    at: StoreTime,
) {
    for place in leaving {
        if let Some(answer) = place.asked.answer {
            let reply = Reply::Busy {
                holder: holder.cloned(),
            };
            told.push((answer, Ok(stamped(reply, at, clock::now()))));
        }
    }
}

fn view(turn: &Turn, granted: Granted) -> HoldView {
    let Turn { acquire, caller } = turn;
    HoldView {
        session: acquire.session,
        actor: acquire.actor,
        client_name: acquire.client_name.clone(),
        mode: acquire.mode,
        count: 1,
        coordinator: caller.coordinator.clone(),
        token: granted.token,
        acquired_at: granted.at,
        expires_in: acquire.ttl,
        lock_delay: acquire.lock_delay,
        value: acquire.value.clone(),
    }
}
