//! Model of one name as its clients and operators know it: holders, waiters, and the view that follows.

use std::time::Duration;

use leasehold_core::{
    id::{FencingToken, Predecessors},
    mode::{Limit, Mode},
    time::StoreTime,
    view::{
        EDGES, HOLDERS_SHOWN, HoldEdge, HoldView, HolderView, NameEdges, NameView, WaitEdge,
        WaiterView,
    },
};

use crate::locks::{
    history::{Asked, Deed, Event, Found, Owner},
    hold::{Grant, Hold},
    ledger::Ledger,
    line::{Line, Waiting},
    operations::value_of,
    steps::NAMES,
    world::coordinator,
};

/// One name, from the replies alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) ledger: Ledger,
    pub(crate) line: Line,
}

impl Model {
    pub(crate) fn of_all_names() -> [Self; NAMES] {
        std::array::from_fn(|_| Self::default())
    }

    /// Drops what is over.
    pub(crate) fn pass(&mut self, now: StoreTime) {
        self.ledger.pass(now);
        self.line.pass(now);
    }

    /// Enters an event, and gives the grants that it made, in order. To be called with each event of this name.
    pub(crate) fn enter(&mut self, event: &Event, asked: &[Asked]) -> Vec<Grant> {
        self.pass(event.at);
        let direct = match event.deed {
            Deed::Acquire(owner, false) => !self.line.living(event.at).any(|w| w.owner == owner),
            _ => self.line.waiters.is_empty(),
        };
        let found = self.found(event);
        let grants = self.ledger.enter(event, asked, direct, found);
        self.line.enter(event, asked, &grants, found);
        grants
    }

    /// Returns the target of a resume.
    fn found(&self, event: &Event) -> Found {
        let Deed::Resume(resumption) = event.deed else {
            return Found::Nothing;
        };
        let (by, next) = (event.by, resumption.next);
        if let Some(hold) = self.ledger.get(next) {
            return match hold.coordinator == by {
                true => Found::Hold(next),
                false => Found::Nothing,
            };
        }
        if let Some(waiter) = self.line.get(next) {
            return match waiter.coordinator == by {
                true => Found::Place(next),
                false => Found::Nothing,
            };
        }
        if self.ledger.is_replaced(next) {
            return Found::Nothing;
        }
        let held = resumption.former().find(|o| self.ledger.get(*o).is_some());
        let waits = resumption.former().find(|o| self.line.get(*o).is_some());
        match (held, waits) {
            (Some(owner), _) => Found::Hold(owner),
            (None, Some(owner)) => Found::Place(owner),
            (None, None) => Found::Nothing,
        }
    }

    /// Returns whether the next living waiter could be granted the name.
    pub(crate) fn next_fits(&self, now: StoreTime) -> bool {
        let next = self.line.first_living(now);
        next.is_some_and(|next| self.ledger.fits(next.mode))
    }

    /// Permits that are taken, and of how many, if it is held as a semaphore.
    pub(crate) fn permits(&self) -> (u64, Option<Limit>) {
        let holds = self.ledger.holds.iter().map(|hold| hold.mode);
        let ghosts = self.ledger.ghosts.iter().map(|ghost| ghost.mode);
        let modes: Vec<Mode> = holds.chain(ghosts).collect();
        let number = modes.iter().map(|mode| u64::from(mode.permits())).sum();
        (number, modes.iter().find_map(|mode| mode.limit()))
    }

    /// Returns the limit that all users of the name must name.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.permits().1.or(self.line.limit)
    }

    /// Returns the time until the first hold or lock-delay that blocks it runs out.
    pub(crate) fn expires_in(&self, now: StoreTime) -> Option<Duration> {
        let holds = self.ledger.holds.iter().map(Hold::over);
        let ghosts = self.ledger.ghosts.iter().map(|ghost| ghost.until);
        holds.chain(ghosts).min().map(|first| now.until(first))
    }

    /// Returns the holders, the first to run out first.
    pub(crate) fn holders(&self) -> Vec<Hold> {
        let mut holds = self.ledger.holds.clone();
        holds.sort_unstable_by_key(|hold| (hold.over(), hold.owner));
        holds
    }

    /// Returns the view that an operator should see.
    pub(crate) fn view(
        &self,
        asked: &[Asked],
        token: Option<FencingToken>,
        now: StoreTime,
    ) -> NameView {
        let holders = self.holders();
        let (permits_taken, _) = self.permits();
        let closed_until = self.ledger.ghosts.iter().map(|ghost| ghost.until).max();
        NameView {
            holders: holders
                .iter()
                .take(HOLDERS_SHOWN)
                .map(|hold| HolderView::Ours(Box::new(hold_view(hold, asked, now))))
                .collect(),
            holder_count: holders.len() as u64,
            closed_for: closed_until.map(|until| now.until(until)),
            limit: self.limit(),
            permits_taken,
            token,
            waiters: self
                .line
                .waiters
                .iter()
                .map(|w| waiter_view(w, asked))
                .collect(),
            waiter_count: self.line.waiters.len() as u64,
        }
    }

    /// Returns the edges that the deadlock detector should see.
    pub(crate) fn edges(&self, asked: &[Asked], now: StoreTime) -> NameEdges {
        let holders = self.holders();
        let complete = holders.len() <= EDGES;
        let shown: &[Hold] = if complete { &holders } else { &[] };
        let waiters = self.line.living(now).take(EDGES);
        NameEdges {
            holders: shown
                .iter()
                .map(|hold| HoldEdge {
                    owner: hold.owner.id(),
                    session: session_of(hold.owner, asked),
                    actor: asked[hold.owner.0].actor,
                    client_name: hold.client_name(),
                    mode: hold.mode,
                })
                .collect(),
            waiters: waiters
                .map(|waiter| WaitEdge {
                    owner: waiter.owner.id(),
                    session: session_of(waiter.owner, asked),
                    actor: asked[waiter.owner.0].actor,
                    client_name: waiter.owner.client_name(),
                    mode: waiter.mode,
                    since: waiter.since,
                })
                .collect(),
            limit: self.limit(),
            complete,
        }
    }
}

fn session_of(owner: Owner, asked: &[Asked]) -> Option<leasehold_core::id::SessionId> {
    (!asked[owner.0].ask.unary).then(|| owner.session())
}

fn hold_view(hold: &Hold, asked: &[Asked], now: StoreTime) -> HoldView {
    HoldView {
        session: session_of(hold.owner, asked),
        predecessors: Predecessors::default(),
        actor: asked[hold.owner.0].actor,
        client_name: hold.client_name(),
        mode: hold.mode,
        count: hold.count,
        coordinator: coordinator(hold.coordinator),
        token: hold.token,
        acquired_at: hold.from,
        expires_in: now.until(hold.until),
        lock_delay: hold.lock_delay,
        max_hold: None,
        value: value_of(hold.value),
    }
}

fn waiter_view(waiter: &Waiting, asked: &[Asked]) -> WaiterView {
    WaiterView {
        session: session_of(waiter.owner, asked),
        predecessors: Predecessors::default(),
        actor: asked[waiter.owner.0].actor,
        client_name: waiter.owner.client_name(),
        mode: waiter.mode,
        coordinator: coordinator(waiter.coordinator),
        since: waiter.since,
        number: waiter.number,
    }
}
