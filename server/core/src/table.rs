//! Table of all names of a store in memory.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use crate::{
    command::{Caller, Command, Executed, Op},
    lock::LockState,
    name::LockName,
    time::StoreTime,
    watch::Telling,
};

/// Number of possibly expired names that each command checks: more than one, so that the table shrinks.
const SWEEP: usize = 4;

/// State machines of all names, each dropped when nothing is left of it.
#[derive(Clone, Debug, Default)]
pub struct LockTable {
    locks: HashMap<LockName, LockState>,
    forgettable: BinaryHeap<Reverse<(StoreTime, LockName)>>,
}

impl LockTable {
    /// Executes a command at a time that is not before that of the previous command.
    pub fn apply(&mut self, command: &Command, now: StoreTime) -> Executed {
        self.on(command, now, LockState::apply)
    }

    /// Executes a command, and returns the changes for watchers.
    pub fn apply_and_tell(&mut self, command: &Command, now: StoreTime) -> (Executed, Telling) {
        self.on(command, now, LockState::apply_and_tell)
    }

    fn on<T>(
        &mut self,
        command: &Command,
        now: StoreTime,
        apply: impl FnOnce(&mut LockState, &Caller, &Op, StoreTime) -> T,
    ) -> T {
        self.sweep(now);
        let is_new = !self.locks.contains_key(&command.name);
        let state = self.locks.entry(command.name.clone()).or_default();
        let executed = apply(state, &command.caller, &command.op, now);
        match state.forgettable_at() {
            None => {
                self.locks.remove(&command.name);
            }
            // One entry for each name: when it is due, the name is forgotten or queued again.
            Some(at) if is_new => self.forgettable.push(Reverse((at, command.name.clone()))),
            Some(_) => {}
        }
        executed
    }

    /// Returns how many names are remembered.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Returns whether no name is remembered.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Returns the names that begin with `prefix` and are held, closed or waited for, sorted, after `after`.
    pub fn names(&self, prefix: &str, after: Option<&str>, now: StoreTime) -> Vec<LockName> {
        let mut names: Vec<LockName> = self
            .locks
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(prefix))
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .filter(|(_, state)| state.in_use(now))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    fn sweep(&mut self, now: StoreTime) {
        for _ in 0..SWEEP {
            match self.forgettable.peek() {
                Some(Reverse((at, _))) if *at <= now => {}
                _ => return,
            }
            let Some(Reverse((_, name))) = self.forgettable.pop() else {
                return;
            };
            let Some(state) = self.locks.get_mut(&name) else {
                continue;
            };
            if state.is_forgotten(now) {
                self.locks.remove(&name);
            } else if let Some(at) = state.forgettable_at() {
                self.forgettable.push(Reverse((at.max(now), name)));
                // For waiters that are refreshed, now is the best guess: a later command checks again.
                return;
            }
        }
    }
}
