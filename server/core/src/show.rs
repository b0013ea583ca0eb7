//! Views of a lock's state: for people, and for the detector of deadlocks.

use crate::{
    lock::LockState,
    mode::Taken,
    queue::Waiter,
    time::StoreTime,
    view::{EDGES, HOLDERS_SHOWN, HolderView, NameEdges, NameView, WaitEdge, WaiterView},
};

impl LockState {
    /// Returns the view for people, with at most this many waiters.
    pub(crate) fn view(&self, waiters: usize, now: StoreTime) -> NameView {
        NameView {
            holders: self
                .holders
                .iter()
                .take(HOLDERS_SHOWN)
                .map(|hold| HolderView::Ours(Box::new(hold.view(now))))
                .collect(),
            holder_count: self.holders.len() as u64,
            closed_for: self.holders.closed_for(now),
            limit: self.limit(),
            permits_taken: match self.holders.taken() {
                Taken::Permits { number, .. } => number,
                _ => 0,
            },
            token: self.token.map(|record| record.last),
            waiters: self.queue.iter().take(waiters).map(Waiter::view).collect(),
            waiter_count: self.queue.len() as u64,
        }
    }

    /// Returns the edges for the detector of deadlocks.
    pub(crate) fn edges(&self, now: StoreTime) -> NameEdges {
        let complete = self.holders.len() <= EDGES;
        let holders = self.holders.iter().filter(|_| complete);
        NameEdges {
            holders: holders.map(|hold| hold.edge()).collect(),
            waiters: self.queue.living(now).take(EDGES).map(edge).collect(),
            limit: self.limit(),
            complete,
        }
    }
}

impl Waiter {
    /// Returns its view.
    pub(crate) fn view(&self) -> WaiterView {
        WaiterView {
            session: self.acquire.session,
            predecessors: self.predecessors.clone(),
            actor: self.acquire.actor,
            client_name: self.acquire.client_name.clone(),
            mode: self.acquire.mode,
            coordinator: self.coordinator.clone(),
            since: self.since,
            number: self.number,
        }
    }
}

fn edge(waiter: &Waiter) -> WaitEdge {
    WaitEdge {
        owner: waiter.acquire.owner,
        session: waiter.acquire.session,
        actor: waiter.acquire.actor,
        client_name: waiter.acquire.client_name.clone(),
        mode: waiter.acquire.mode,
        since: waiter.since,
    }
}
