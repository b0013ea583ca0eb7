//! Redirection of commands that a node did not carry out.

use std::{sync::Weak, time::Duration};

use redis::{Cmd, Value};
use tokio::time::sleep;

use super::{
    super::super::{
        address::Address,
        batch::{Item, fail},
        errors::{call_error, link_error},
        reroute::Refusal,
    },
    Router,
};
use crate::{clock, store::unanswered};
use leasehold_core::failure::StoreError;

/// Pause of a command that can't be executed now.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of redirections in a row after which a command pauses before each further one: nodes that redirect it to each other
/// have not agreed yet.
const REDIRECTIONS: u32 = 3;

impl Router {
    /// Takes back items of one slot that a node did not carry out.
    ///
    /// Others of the same lock may be executed before them: a renewal names only existing keys, and must not wait for an
    /// acquire that can't be executed while the slot is being moved. A command that was given up meanwhile has no effect,
    /// because it keeps its first deadline.
    pub(super) fn redirect(&self, mut items: Vec<Item>, refusal: Refusal, by: &Address) {
        let Some(first) = items.first() else { return };
        let slot = first.keys.slot;
        let now = clock::now();
        let timeout = self.common.options.timeout;
        let expired = |item: &mut Item| {
            let since = item.journey.as_deref().map(|journey| journey.since);
            since.is_none_or(|since| since.until(now) >= timeout)
        };
        let late: Vec<Item> = items.extract_if(.., expired).collect();
        fail(
            late,
            &refusal.clone().into_error(),
            &self.common.options.meter,
        );
        let is_alone = items.len() == 1;
        for journey in items
            .iter_mut()
            .filter_map(|item| item.journey.as_deref_mut())
        {
            journey.asking = false;
            journey.alone |= matches!(refusal, Refusal::TryAgain | Refusal::Ask(_));
        }
        let goes_round = items
            .iter()
            .filter_map(|item| item.journey.as_deref())
            .any(|journey| journey.returns > REDIRECTIONS);
        match refusal {
            Refusal::Moved(to) => {
                let Some(to) = Address::read(&to, by) else {
                    return fail(
                        items,
                        &Refusal::Moved(to).into_error(),
                        &self.common.options.meter,
                    );
                };
                self.moved(slot, &to);
                if goes_round {
                    self.pause(items);
                } else {
                    items.into_iter().for_each(|item| self.forward(item));
                }
            }
            Refusal::Ask(to) => {
                let node = Address::read(&to, by).and_then(|to| self.node_at(&to));
                let Some(node) = node else {
                    return fail(
                        items,
                        &Refusal::Ask(to).into_error(),
                        &self.common.options.meter,
                    );
                };
                if !node.is_ready() {
                    return self.pause(items);
                }
                for mut item in items {
                    if let Some(journey) = item.journey.as_deref_mut() {
                        journey.asking = true;
                    }
                    node.lanes.push(item);
                }
            }
            // Each may succeed alone where they failed together.
            Refusal::TryAgain if !is_alone => {
                items.into_iter().for_each(|item| self.forward(item));
            }
            Refusal::TryAgain => self.pause(items),
            Refusal::NotNow(_) => {
                self.stale.notify_one();
                self.pause(items);
            }
            Refusal::Down(error) => {
                self.stale.notify_one();
                if self.state().map.owner(slot).is_none_or(|owner| owner == by) {
                    fail(items, &error, &self.common.options.meter);
                } else {
                    items.into_iter().for_each(|item| self.forward(item));
                }
            }
        }
    }

    /// Sends items on after a pause.
    fn pause(&self, items: Vec<Item>) {
        let mut paused = self.paused();
        let is_first = paused.is_empty();
        paused.extend(items);
        drop(paused);
        if is_first {
            let router = Weak::clone(&self.me);
            tokio::spawn(async move {
                sleep(PAUSE).await;
                if let Some(router) = router.upgrade() {
                    let paused = std::mem::take(&mut *router.paused());
                    paused.into_iter().for_each(|item| router.forward(item));
                }
            });
        }
    }

    /// Executes a command that belongs to no lock, on the node of a slot, with the same redirections.
    pub(in crate::redis) async fn execute(
        &self,
        slot: u16,
        command: Cmd,
    ) -> Result<Value, StoreError> {
        let since = clock::now();
        let mut asked = None;
        loop {
            let (node, mut commands) = match asked.take() {
                Some(node) => (Some(node), vec![redis::cmd("ASKING")]),
                None => (self.node_of(slot), Vec::new()),
            };
            let Some(node) = node else {
                return Err(self.nobody(&format!("hash slot {slot}")));
            };
            commands.push(command.clone());
            let (refusal, error) = match node.execute(commands).await {
                Ok(mut replies) => match replies.items.pop() {
                    Some(Ok(value)) => return Ok(value),
                    Some(Err(error)) => (Refusal::of_call(&error), call_error(&error)),
                    None => return Err(unanswered()),
                },
                Err(error) => (Refusal::of_link(&error), link_error(&error)),
            };
            if since.until(clock::now()) >= self.common.options.timeout {
                return Err(refusal.map_or(error, Refusal::into_error));
            }
            match refusal {
                Some(Refusal::Moved(to)) => {
                    if let Some(to) = Address::read(&to, &node.address) {
                        self.moved(slot, &to);
                    }
                }
                Some(Refusal::Ask(to)) => {
                    asked = Address::read(&to, &node.address).and_then(|to| self.node_at(&to));
                    continue;
                }
                Some(Refusal::TryAgain | Refusal::NotNow(_)) => {}
                Some(Refusal::Down(_)) | None => return Err(error),
            }
            sleep(PAUSE).await;
        }
    }
}
