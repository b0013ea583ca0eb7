//! Lanes that coalesce commands to Redis.
//!
//! Each connection is a lane. An idle lane sends a command at once; commands that come while enough calls are in flight wait
//! for the next one, and go together: the busier the lane, the larger and the fewer the calls. A task of the lane sends, so
//! that a caller may be dropped at any point without losing the result of its command.
//!
//! To a node of a cluster, a batch is a pipeline with a call for each slot. Commands that the node did not carry out go back
//! to the router.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Command, Op, Reply},
    time::{Moment, StoreTime},
};
use redis::{Cmd, RedisResult, Value};
use tokio::time::sleep;

use super::{
    acknowledge::Acknowledger,
    address::Address,
    batch::{Call, Item, Journey, by_slot, fail},
    blocked,
    decode::decode,
    encode::{LockScript, encode},
    ended,
    errors::{call_error, link_error, server_error},
    keys::LockKeys,
    link::{ConnectionId, Link, LinkOptions},
    pending::{Pending, has_to_wait, take_handed},
    place::Place,
    reroute::{Refusal, Reroute},
    server_clock::ServerClock,
};
use crate::{
    clock,
    lane::Lane,
    measure::{Meter, Script},
    store::{Answer, Observer, Options, Stamped},
};

/// Calls in flight on a lane: one travels to Redis while the other is executed.
const IN_FLIGHT: usize = 2;

/// Pause before a server that is up, but did not report its time, is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Observer that the lanes of several servers share, once it is set.
pub(super) type SharedObserver = Arc<OnceLock<Observer>>;

/// Lanes of a store.
pub(super) struct Lanes {
    link: Link,
    lanes: Vec<Lane<Item>>,
    timeout: Duration,
    script: LockScript,
    meter: Meter,
    observer: SharedObserver,
    /// The router, and the address of this server, if it is one of many.
    router: Option<(Weak<dyn Reroute>, Address)>,
    /// Asks replicas to acknowledge, if they must.
    acknowledger: Option<Arc<Acknowledger>>,
    nonce: AtomicU64,
    server_clock: ServerClock,
}

impl Lanes {
    /// Opens connections to a server, and a lane for each. They load the script, and give up a command without an answer within
    /// the options' time-out. `router` has the router and this server's address, if it is one of many, which share an observer.
    pub(super) fn open(
        place: Place,
        script: LockScript,
        options: &Options,
        router: Option<(Weak<dyn Reroute>, Address)>,
        observer: SharedObserver,
    ) -> Arc<Self> {
        let acknowledger = options.acknowledgement.map(|wanted| {
            let link = Link::start_at(place.clone(), wanted.link_options(options));
            Arc::new(Acknowledger::new(link, wanted, options.coordinator.clone()))
        });
        let link = Link::start_at(
            place,
            LinkOptions {
                connections: options.connections,
                command_timeout: options.timeout,
                meter: options.meter.clone(),
                scripts: vec![
                    script.text(),
                    Arc::from(blocked::SCRIPT),
                    Arc::from(ended::SCRIPT),
                ],
                ..LinkOptions::default()
            },
        );
        let lanes = link.connections();
        Arc::new(Self {
            link,
            lanes: (0..lanes).map(|_| Lane::new(IN_FLIGHT)).collect(),
            timeout: options.timeout,
            script,
            meter: options.meter.clone(),
            observer,
            router,
            acknowledger,
            nonce: AtomicU64::new(1),
            server_clock: ServerClock::default(),
        })
    }

    /// Returns the link, and the meter, for calls that do not concern a single lock.
    pub(super) fn measured_link(&self) -> (&Link, &Meter) {
        (&self.link, &self.meter)
    }

    /// Returns the link.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a command. Redis executes commands of one lock in the order of sending.
    pub(super) fn send(self: &Arc<Self>, command: Command, keys: LockKeys, answer: Answer) {
        self.push(Item::new(command, keys, answer));
    }

    pub(super) fn push(self: &Arc<Self>, item: Item) {
        let index = usize::from(item.keys.slot) % self.lanes.len();
        self.meter.queued();
        if self.lanes[index].push(item) {
            let lanes = Arc::clone(self);
            tokio::spawn(async move {
                let lane = &lanes.lanes[index];
                lane.drive(|batch| lanes.call(index, batch)).await;
            });
        }
    }

    /// Sends a batch, and processes its answers.
    async fn call(self: &Arc<Self>, index: usize, batch: Vec<Item>) {
        let sent_at = clock::now();
        let tally = self.meter.sent(batch.iter().map(Item::script));
        let nonce = || self.nonce.fetch_add(1, Ordering::Relaxed);
        let calls = match &self.router {
            Some(_) => by_slot(batch, nonce),
            None => vec![Call {
                nonce: nonce(),
                items: batch,
            }],
        };
        if self.router.is_some() && !self.knows_time() {
            // A command that was sent before needs a deadline, for which the server's time must be known.
            let reason = format!("{} is not ready yet", self.link);
            let refusal = Refusal::NotNow(StoreError::Unavailable { reason });
            self.meter.answered(tally, None);
            return calls
                .into_iter()
                .for_each(|call| self.give_back(call.items, refusal.clone(), sent_at));
        }
        let commands = self.commands(&calls, sent_at);
        let replies = match self.link.execute(index, commands).await {
            Ok(replies) => replies,
            Err(error) => {
                self.meter.answered(tally, None);
                let refusal = self.refusal(Refusal::of_link(&error));
                for call in calls {
                    match refusal.clone() {
                        Some(refusal) => self.give_back(call.items, refusal, sent_at),
                        None => self.fail_unanswered(call.items, &link_error(&error), sent_at),
                    }
                }
                return;
            }
        };
        self.meter
            .answered(tally, Some(sent_at.until(clock::now())));
        let connection = replies.connection;
        let mut replies = replies.items.into_iter();
        for call in calls {
            if call.asks() {
                // The call's own reply repeats what this one says.
                replies.next();
            }
            self.take(call, replies.next(), connection, sent_at);
        }
    }

    fn commands(&self, calls: &[Call], sent_at: Moment) -> Vec<Cmd> {
        let mut commands = Vec::with_capacity(calls.len());
        for call in calls {
            if call.asks() {
                commands.push(redis::cmd("ASKING"));
            }
            commands.push(encode(
                call.items.iter().map(|item| (&item.command, &item.keys)),
                call.nonce,
                self.not_after(call.since(sent_at)),
                &self.script,
            ));
        }
        commands
    }

    /// Processes the reply to a call.
    fn take(
        self: &Arc<Self>,
        call: Call,
        reply: Option<RedisResult<Value>>,
        connection: ConnectionId,
        sent_at: Moment,
    ) {
        let value = match reply {
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                return match self.refusal(Refusal::of_call(&error)) {
                    Some(refusal) => self.give_back(call.items, refusal, sent_at),
                    None => fail(call.items, &call_error(&error), &self.meter),
                };
            }
            None => Value::Nil,
        };
        let results = match decode(value, call.nonce, call.items.len()) {
            Ok(results) => results,
            Err(garbled) => {
                let error = self.link.garbled(connection, garbled);
                return fail(call.items, &error, &self.meter);
            }
        };
        let now = clock::now();
        let mut pending = Vec::new();
        for (item, result) in call.items.into_iter().zip(results) {
            match result {
                Ok(executed) => {
                    self.server_clock.observe(executed.at, sent_at, now);
                    self.settle(item, Stamped { executed, sent_at }, &mut pending);
                }
                Err(error) => match self.refusal(Refusal::of_command(&error)) {
                    Some(refusal) => self.give_back(vec![item], refusal, sent_at),
                    None => {
                        let error = server_error(&item.command.name, &error);
                        item.fail(error, &self.meter);
                    }
                },
            }
        }
        if !pending.is_empty() {
            tokio::spawn(Arc::clone(self).acknowledge(pending, connection));
        }
    }

    /// Fails items whose call got no answer. One that may be on its way, and would undo what its caller asks for next, fails only once
    /// the server would carry it out no more.
    fn fail_unanswered(&self, items: Vec<Item>, error: &StoreError, sent_at: Moment) {
        let left = clock::now().until(sent_at.after(self.timeout));
        let may_undo = !left.is_zero() && error.is_indeterminate();
        let (kept, items): (Vec<_>, Vec<_>) = items
            .into_iter()
            .partition(|item| may_undo && sets(&item.command.op));
        fail(items, error, &self.meter);
        if !kept.is_empty() {
            let (error, meter) = (error.clone(), self.meter.clone());
            tokio::spawn(async move {
                sleep(left).await;
                fail(kept, &error, &meter);
            });
        }
    }

    /// Answers at once unless replicas must acknowledge.
    fn settle(self: &Arc<Self>, item: Item, mut stamped: Stamped, pending: &mut Vec<Pending>) {
        if self.acknowledger.is_some() {
            let (name, slot) = (item.command.name.clone(), item.keys.slot);
            let wait = |stamped, item| Pending {
                name,
                slot,
                stamped,
                item,
            };
            if has_to_wait(&stamped.executed) {
                return pending.push(wait(stamped, Some(Box::new(item))));
            }
            pending.extend(take_handed(&mut stamped).map(|handed| wait(handed, None)));
        }
        self.answer(item, stamped);
    }

    /// Waits until replicas have acknowledged what was done over a connection, then answers.
    async fn acknowledge(self: Arc<Self>, pending: Vec<Pending>, connection: ConnectionId) {
        let (Some(acknowledger), Some(first)) = (&self.acknowledger, pending.first()) else {
            return;
        };
        let run = self.link.run(connection);
        let asked = acknowledger.confirm(first.slot, run);
        let mut result = self.meter.measure(Script::Wait, asked).await;
        if result.is_ok() && self.link.run(connection).is_none() {
            result = Err(StoreError::Indeterminate {
                reason: "the connection ended while replicas were asked to acknowledge it".into(),
            });
        }
        for pending in pending {
            if let Err(error) = &result {
                pending.fail(self.observer.get(), error, &self.meter);
            } else if let Some(item) = pending.item {
                self.answer(*item, pending.stamped);
            } else if let Some(observer) = self.observer.get() {
                observer.observe(&pending.name, &pending.stamped);
            }
        }
    }

    /// Returns the refusals to send on rather than to fail: none if there is only one server.
    fn refusal(&self, refusal: Option<Refusal>) -> Option<Refusal> {
        refusal.filter(|_| self.router.is_some())
    }

    /// Returns items that were not carried out to the router.
    fn give_back(&self, mut items: Vec<Item>, refusal: Refusal, sent_at: Moment) {
        let Some((router, address)) = &self.router else {
            return fail(items, &refusal.into_error(), &self.meter);
        };
        for item in &mut items {
            let begun = || Journey::begun(sent_at);
            item.journey.get_or_insert_with(begun).returns += 1;
        }
        // Without the router, the store is gone, and so are the callers.
        if let Some(router) = router.upgrade() {
            router.returned(items, refusal, address);
        }
    }

    fn answer(self: &Arc<Self>, mut item: Item, stamped: Stamped) {
        if stamped.executed.reply == Reply::Late && item.command.caller.not_after.is_none() {
            if !item.again {
                // After a step of the server's clock, a command looks late; the reply has the new time.
                item.again = true;
                return self.push(item);
            }
            let reason = "the command reached it only after its time-out".to_owned();
            item.fail(StoreError::Unavailable { reason }, &self.meter);
            return;
        }
        let router = self
            .router
            .as_ref()
            .and_then(|(router, _)| router.upgrade());
        if let Some(router) = router {
            router.answered(&item, &stamped);
        }
        if let Some(observer) = self.observer.get() {
            observer.observe(&item.command.name, &stamped);
        }
        // The caller may be gone; the observer has processed the result.
        item.answer.give(Ok(stamped));
    }

    /// Returns when this coordinator gives up a command that it sends now, by the server's clock. Unknown before the server's
    /// first reply.
    fn not_after(&self, now: Moment) -> Option<StoreTime> {
        self.server_clock.at(now).map(|at| at.after(self.timeout))
    }

    /// Asks for the server's time as soon as it is up, so that the first commands can have deadlines, and again whenever it has
    /// come back, as it may be another one with another clock. Until it has answered, the old time is used rather than none:
    /// where it makes a command look late, the reply has the new one and the command is sent again. Then calls `changed` with
    /// whether it is up.
    pub(super) fn attend(self: &Arc<Self>, changed: impl Fn(bool) + Send + 'static) {
        let mut status = self.link.status();
        let lanes = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let is_up = status.borrow_and_update().is_up();
                if is_up && let Some(lanes) = lanes.upgrade() {
                    lanes.ask_time().await;
                    if !lanes.knows_time() {
                        drop(lanes);
                        sleep(ASK_AGAIN).await;
                        continue;
                    }
                }
                changed(is_up);
                if status.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Returns whether the server's time is known.
    pub(super) fn knows_time(&self) -> bool {
        self.server_clock.is_known()
    }

    /// Asks for the server's time, which every reply has too.
    async fn ask_time(&self) {
        let sent_at = clock::now();
        let Ok(mut replies) = self.link.execute(0, vec![redis::cmd("TIME")]).await else {
            return;
        };
        if let Some(Ok(reply)) = replies.items.pop() {
            self.server_clock
                .observe_reply(reply, sent_at, clock::now());
        }
    }
}

/// Returns whether the caller of an operation may set the same to something else as soon as this one has failed. The renewals of
/// sessions, which name their token, are always for the same TTL.
fn sets(op: &Op) -> bool {
    matches!(op, Op::Renew { token: None, .. } | Op::SetValue { .. })
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}
