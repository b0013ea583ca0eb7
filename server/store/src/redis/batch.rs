//! Batches: commands in flight, and the calls that they share.

use std::collections::HashMap;

use leasehold_core::{command::Command, time::Moment};

use super::keys::LockKeys;
use crate::{
    measure::{Meter, Script},
    store::Answer,
};
use leasehold_core::failure::StoreError;

/// Command with the destination of its answer.
pub(super) struct Item {
    pub(super) command: Command,
    pub(super) keys: LockKeys,
    /// Whether it is sent for the second time, because it seemed late.
    pub(super) again: bool,
    pub(super) answer: Answer,
    /// Its redirections so far, if any.
    pub(super) journey: Option<Box<Journey>>,
}

/// Redirections of a command that a node did not carry out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journey {
    /// Time at which it was sent first.
    pub(super) since: Moment,
    /// Number of times that it came back.
    pub(super) returns: u32,
    /// Whether it shares its call with no other command.
    pub(super) alone: bool,
    /// Whether it must be sent with `ASKING`.
    pub(super) asking: bool,
}

/// Items that are sent as one script call.
pub(super) struct Call {
    pub(super) nonce: u64,
    pub(super) items: Vec<Item>,
}

impl Item {
    pub(super) fn new(command: Command, keys: LockKeys, answer: Answer) -> Self {
        Self {
            command,
            keys,
            again: false,
            answer,
            journey: None,
        }
    }

    /// Returns its script.
    pub(super) fn script(&self) -> Script {
        Script::of(&self.command.op)
    }

    /// Answers with an error.
    pub(super) fn fail(self, error: StoreError, meter: &Meter) {
        meter.failed(self.script(), &error);
        self.answer.give(Err(error));
    }
}

impl Call {
    /// Returns whether it must be sent with `ASKING`.
    pub(super) fn asks(&self) -> bool {
        self.items
            .first()
            .and_then(|item| item.journey.as_deref())
            .is_some_and(|journey| journey.asking)
    }
}

/// Splits a batch into calls, one for each slot, which keep the order within a slot. `nonce` gives each its number.
pub(super) fn by_slot(batch: Vec<Item>, nonce: impl Fn() -> u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut last_of_slot: HashMap<u16, usize> = HashMap::with_capacity(batch.len());
    for item in batch {
        let slot = item.keys.slot;
        let alone = item
            .journey
            .as_deref()
            .is_some_and(|journey| journey.alone || journey.asking);
        match last_of_slot.get(&slot) {
            Some(&call) if !alone => calls[call].items.push(item),
            _ => {
                if alone {
                    last_of_slot.remove(&slot);
                } else {
                    last_of_slot.insert(slot, calls.len());
                }
                calls.push(Call {
                    nonce: nonce(),
                    items: vec![item],
                });
            }
        }
    }
    calls
}

pub(super) fn fail(batch: Vec<Item>, error: &StoreError, meter: &Meter) {
    for item in batch {
        item.fail(error.clone(), meter);
    }
}
