//! Move of a slot from one master to another, step by step, as `redis-cli --cluster reshard` does it.

use redis::Connection;

use super::{Cluster, cluster, run};

impl Cluster {
    /// Announces that a slot moves: from here on its keys may be moved, the old master answers for those that it still
    /// has, and sends clients to the new one (ASK) for others.
    ///
    /// # Panics
    ///
    /// If a node refuses, like the other steps.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let mut old = self.nodes[from].connection();
        let mut new = self.nodes[to].connection();
        run(&mut new, &["SETSLOT", &slot, "IMPORTING", &self.ids[from]]);
        run(&mut old, &["SETSLOT", &slot, "MIGRATING", &self.ids[to]]);
    }

    /// Moves up to `limit` keys of the slot, and returns how many there were to move.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, limit: usize) -> usize {
        let mut old = self.nodes[from].connection();
        let keys = self.keys_in(&mut old, slot, limit);
        self.migrate(&mut old, to, &keys);
        keys.len()
    }

    /// Moves one key.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn move_key(&self, key: &[u8], from: usize, to: usize) {
        self.migrate(&mut self.nodes[from].connection(), to, &[key.to_vec()]);
    }

    /// Returns the keys of a slot that a node has.
    ///
    /// # Panics
    ///
    /// If the node does not answer.
    pub fn keys_of(&self, slot: u16, node: usize) -> Vec<Vec<u8>> {
        self.keys_in(&mut self.nodes[node].connection(), slot, 100_000)
    }

    /// Ends the move: the slot belongs to its new master alone. The keys must have been moved.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let words = ["SETSLOT", &slot, "NODE", &self.ids[to]];
        // The new master first: if that one did not know, nobody would serve the slot. The others hear it from it.
        for node in [to, from] {
            run(&mut self.nodes[node].connection(), &words);
        }
    }

    /// Moves a slot with all its keys, while clients may go on using it.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        while self.move_keys(slot, from, to, 100) > 0 {}
        self.end_move(slot, from, to);
    }

    fn keys_in(&self, connection: &mut Connection, slot: u16, limit: usize) -> Vec<Vec<u8>> {
        cluster(&["GETKEYSINSLOT", &slot.to_string(), &limit.to_string()])
            .query(connection)
            .expect("a node tells the keys of a slot")
    }

    fn migrate(&self, old: &mut Connection, to: usize, keys: &[Vec<u8>]) {
        if keys.is_empty() {
            return;
        }
        let address = self.nodes[to].address();
        let mut command = redis::cmd("MIGRATE");
        command
            .arg(address.ip().to_string())
            .arg(address.port())
            .arg("")
            .arg(0)
            .arg(5_000);
        if let Some(password) = &self.password {
            command.arg("AUTH").arg(password);
        }
        command.arg("KEYS").arg(keys);
        // NOKEY: they have expired meanwhile.
        let moved: String = command.query(old).expect("keys can be moved");
        assert!(["OK", "NOKEY"].contains(&&*moved), "{moved}");
    }
}
