//! Disturbances of connections and coordinators in the simulated world.

use super::{
    super::{Response, wire_ms},
    STOPPED, TTL, World,
};
use crate::proto::v1;

impl World {
    pub(super) fn disturb(&mut self, index: usize) {
        let until = self.now + self.dice.below(2 * TTL);
        if self.dice.once_in(4_000) {
            self.clients[index].black_hole_until = until;
        }
        if self.dice.once_in(2_000) {
            self.clients[index].asleep_until = until;
        }
        // Just about a TTL: the lease may run out although the stream lives on.
        if self.dice.once_in(2_000) {
            self.clients[index].deaf_until = self.now + TTL - 350 + self.dice.below(400);
        }
        let connections = self.clients[index].connections.len() as u64;
        if connections == 0 {
            return;
        }
        let at = self.dice.below(connections) as usize;
        let connection = self.clients[index].connections[at].1;
        // Only on the way to one coordinator.
        if self.dice.once_in(2_000) {
            self.connections[connection].hole_until = until;
        }
        if self.dice.once_in(2_000) {
            // The coordinator cuts the connection; that leaves its locks to expire.
            self.end_session(connection);
        } else if self.dice.once_in(2_000) {
            // Something in between does, and what is on its way is lost. The coordinator, which takes it for its peer's
            // doing, hears of it after the client.
            self.connections[connection].down.0.clear();
            self.connections[connection].down.push(self.now, 0, None);
        }
    }

    pub(super) fn disturb_coordinator(&mut self) {
        let index = self.dice.below(2) as usize;
        let until = self.now + self.dice.below(2 * TTL);
        if self.now < self.coordinators[index].down_until {
            return;
        }
        if self.dice.once_in(4_000) {
            self.coordinators[index].hung_until = until;
        }
        if self.dice.once_in(2_000) && self.coordinators[index].drained_at.is_none() {
            let deadline = self.dice.below(2 * TTL);
            self.coordinators[index].drained_at = Some(self.now + deadline);
            let draining = v1::SessionDraining {
                deadline: wire_ms(deadline),
            };
            for connection in self.sessions(index) {
                let draining = Response::Draining(draining);
                self.answer(connection, 0, draining);
            }
        }
        if self.dice.once_in(6_000) {
            self.stop(index);
        }
    }

    pub(super) fn run_coordinator(&mut self, index: usize) {
        let drained_at = self.coordinators[index].drained_at;
        if drained_at.is_some_and(|at| at <= self.now || self.calm) {
            self.stop(index);
        }
    }

    /// It ends, and what it held is left to expire. It says so if it has drained, and not if it crashes.
    fn stop(&mut self, index: usize) {
        let says_so = self.coordinators[index].drained_at.take().is_some();
        self.coordinators[index].down_until = self.now + self.dice.below(TTL);
        for connection in self.sessions(index) {
            if says_so {
                self.fail(connection, STOPPED, "DRAINING");
            }
            self.end_session(connection);
        }
    }

    fn sessions(&self, coordinator: usize) -> Vec<usize> {
        let connections = self.connections.iter().enumerate();
        connections
            .filter(|(_, other)| other.coordinator == coordinator && other.heard.is_some())
            .map(|(index, _)| index)
            .collect()
    }
}
