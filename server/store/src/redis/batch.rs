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

impl Journey {
    /// Returns that of a command that was sent first at this time, before it comes back.
    pub(super) fn begun(since: Moment) -> Box<Self> {
        Box::new(Self {
            since,
            returns: 0,
            alone: false,
            asking: false,
        })
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

    /// Returns the time from which callers count, if it is sent now: that at which the first of its commands was sent first.
    pub(super) fn since(&self, now: Moment) -> Moment {
        let journeys = self.items.iter().filter_map(|item| item.journey.as_deref());
        journeys.map(|journey| journey.since).fold(now, Moment::min)
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

#[cfg(test)]
mod tests {
    use leasehold_core::{
        command::{Caller, Op},
        id::{CoordinatorId, FencingToken},
        name::LockName,
    };
    use std::time::Duration;
    use tokio::sync::oneshot;

    use super::*;
    use crate::redis::keys::Keys;

    #[test]
    fn callers_count_from_when_a_redirected_command_was_sent_first() {
        let name = LockName::parse("a").unwrap();
        let keys = Keys::new("").of(&name);
        let command = Command {
            name,
            caller: Caller {
                coordinator: CoordinatorId::new("here"),
                floor: FencingToken::new(1),
                token_memory: Duration::ZERO,
                not_after: None,
            },
            op: Op::ForceRelease,
        };
        let item = |since: Option<u64>| {
            let answer = Answer::once(oneshot::channel().0);
            let mut item = Item::new(command.clone(), keys.clone(), answer);
            item.journey = since.map(|since| Journey::begun(Moment::from_micros(since)));
            item
        };
        let items = vec![item(None), item(Some(7)), item(Some(8))];
        let call = Call { nonce: 1, items };
        assert_eq!(call.since(Moment::from_micros(9)), Moment::from_micros(7));
    }
}
