//! Wake-ups from one master: a connection that listens to the channels of those slots in which this coordinator waits for
//! something or keeps holds, and to one channel whose messages reach every node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use leasehold_core::{id::CoordinatorId, name::LockName};
use redis::{PushInfo, PushKind, Value};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    super::{
        dial::Full,
        keys::{slot_of, wake_channel, wake_channel_of_slot},
        link::Link,
        listening::{Heard, Listening},
        status::LinkStatus,
        wake_up,
    },
    Common,
};
use crate::store::WakeUp;

/// Time for which a slot is subscribed after its last known waiter. Waiters are refreshed once a second.
const REMEMBERED: Duration = Duration::from_secs(4);
/// Interval at which unneeded slots are forgotten, and failed subscriptions are tried again.
const TICK: Duration = Duration::from_millis(500);
/// Most wants that are processed at once.
const AT_ONCE: usize = 1024;

/// Reason to listen to the channel of a slot.
pub(super) enum Want {
    /// An acquire of this coordinator waits for a lock.
    Waits { slot: u16, name: LockName },
    /// A hold was renewed, and will be renewed again before this time is over. A hold that is never renewed does not count: most
    /// holds are so brief that a subscription would cost more than the rare message to every node.
    Holds { slot: u16, lasts: Duration },
}

/// Task for a master's wake-ups. It ends when all senders of wants are gone.
pub(super) struct Wakes {
    listening: Listening,
    coordinator: CoordinatorId,
    wake_ups: mpsc::Sender<WakeUp>,
    slots: HashMap<u16, Slot>,
    /// Whether the server supports channels of slots, as far as known.
    is_sharded: bool,
}

/// Slot with waiters or holds of this coordinator.
#[derive(Default)]
struct Slot {
    /// The locks with waiters, and when each was last reported.
    names: HashMap<LockName, Instant>,
    /// Time at which the last of the holds ends unless renewed.
    held_until: Option<Instant>,
    listened_to: bool,
}

impl Wakes {
    /// Starts to listen, and returns whether it does. Of the messages that reach every node, those are delivered that come while
    /// `is_home` says so.
    pub(super) fn start(
        link: &Link,
        common: &Common,
        is_home: impl Fn() -> bool + Send + Sync + 'static,
        wanted: mpsc::UnboundedReceiver<Want>,
    ) -> watch::Receiver<LinkStatus> {
        let (gone, slots_gone) = mpsc::unbounded_channel();
        let (keys, wake_ups) = (common.keys.clone(), common.wake_ups.clone());
        let listening = link.listen(
            "the wake-ups from",
            Heard {
                channels: vec![wake_channel(&common.options.coordinator).into_bytes()],
                ..Heard::default()
            },
            Arc::new(move |PushInfo { kind, data }| {
                let mut data = data.into_iter();
                let of_slot = kind == PushKind::SMessage;
                match (kind, data.next(), data.next()) {
                    (PushKind::SUnsubscribe, Some(Value::BulkString(channel)), _) => {
                        let _ = gone.send(channel);
                    }
                    (
                        PushKind::Message | PushKind::SMessage,
                        _,
                        Some(Value::BulkString(payload)),
                    ) if of_slot || is_home() => {
                        if let Some(wake_up) = wake_up::parse(&payload, &keys) {
                            // Full or closed: a refresh finds it.
                            let _ = wake_ups.try_send(wake_up);
                        }
                    }
                    _ => {}
                }
                Ok::<(), Full>(())
            }),
        );
        let status = listening.status();
        let wakes = Self {
            listening,
            coordinator: common.options.coordinator.clone(),
            wake_ups: common.wake_ups.clone(),
            slots: HashMap::new(),
            is_sharded: true,
        };
        tokio::spawn(wakes.run(wanted, slots_gone));
        status
    }

    async fn run(
        mut self,
        mut wanted: mpsc::UnboundedReceiver<Want>,
        mut slots_gone: mpsc::UnboundedReceiver<Vec<u8>>,
    ) {
        let mut status = self.listening.status();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wants = Vec::new();
        loop {
            select! {
                number = wanted.recv_many(&mut wants, AT_ONCE) => {
                    if number == 0 {
                        return;
                    }
                    let is_news = self.note(wants.drain(..));
                    if !is_news {
                        continue;
                    }
                }
                Ok(()) = status.changed() => {
                    // Up or down: a new connection listens to no slot.
                    status.mark_unchanged();
                    self.is_sharded = true;
                    self.slots.values_mut().for_each(|slot| slot.listened_to = false);
                }
                Some(channel) = slots_gone.recv() => {
                    // Most often, this task unsubscribed from it. Otherwise, the slot has moved to another node.
                    if let Some(slot) = self.slots.get_mut(&slot_of(&channel)) {
                        slot.listened_to = false;
                    }
                    continue;
                }
                _ = ticks.tick() => self.forget().await,
            }
            self.listen().await;
        }
    }

    /// Returns whether a slot needs a subscription that it lacks.
    fn note(&mut self, wants: impl Iterator<Item = Want>) -> bool {
        let now = Instant::now();
        let mut is_news = false;
        for want in wants {
            let (Want::Waits { slot, .. } | Want::Holds { slot, .. }) = want;
            let slot = self.slots.entry(slot).or_default();
            is_news |= !slot.listened_to;
            match want {
                Want::Waits { name, .. } => {
                    slot.names.insert(name, now);
                }
                Want::Holds { lasts, .. } => {
                    slot.held_until = slot.held_until.max(now.checked_add(lasts));
                }
            }
        }
        is_news
    }

    /// Subscribes to all wanted slots. Messages from before a subscription may have been missed, so their locks are refreshed.
    async fn listen(&mut self) {
        let new = self.slots.iter().filter(|(_, slot)| !slot.listened_to);
        let new: Vec<u16> = new.map(|(slot, _)| *slot).collect();
        if new.is_empty() || !self.is_sharded || !self.listening.status().borrow().is_up() {
            return;
        }
        let Some(replies) = self.ask("SSUBSCRIBE", &new).await else {
            return;
        };
        for (slot, reply) in new.into_iter().zip(replies) {
            if let Value::ServerError(error) = reply {
                // An unknown command before version 7. If the slot is another node's by now (MOVED), the next refresh there
                // subscribes at that node.
                self.is_sharded &= error.code() != "ERR";
            } else if let Some(slot) = self.slots.get_mut(&slot) {
                slot.listened_to = true;
                for name in slot.names.keys() {
                    let _ = self
                        .wake_ups
                        .try_send(WakeUp::Missed { name: name.clone() });
                }
            }
        }
    }

    /// Forgets locks without recent waiters, and slots without holds.
    async fn forget(&mut self) {
        let now = Instant::now();
        let mut idle = Vec::new();
        self.slots.retain(|number, slot| {
            slot.names.retain(|_, seen| seen.elapsed() < REMEMBERED);
            slot.held_until.take_if(|until| *until <= now);
            let is_used = !slot.names.is_empty() || slot.held_until.is_some();
            if !is_used && slot.listened_to {
                idle.push(*number);
            }
            is_used
        });
        if !idle.is_empty() {
            self.ask("SUNSUBSCRIBE", &idle).await;
        }
    }

    async fn ask(&self, command: &str, slots: &[u16]) -> Option<Vec<Value>> {
        let channels = slots
            .iter()
            .map(|slot| wake_channel_of_slot(*slot, &self.coordinator));
        let channels: Vec<_> = channels.collect();
        self.listening.ask_of_slots(command, &channels).await
    }
}
