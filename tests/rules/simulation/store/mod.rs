//! Store of the simulated world: the rules, behind ways that are slow and lose replies.

mod clean_ups;
mod operators;
mod wake_ups;

use std::{collections::BTreeMap, ops::Range, time::Duration};

use leasehold_core::{
    command::{CLAIM_TIME, Caller, Command, Executed, Op, Reply, Stamped, WakeUp},
    ended::EndedSessions,
    failure::StoreError,
    id::{CoordinatorId, FencingToken, OwnerId},
    mode::Mode,
    name::LockName,
    session::{CommandId, PendingCleanup},
    table::LockTable,
    time::{Moment, StoreTime},
    view::NameView,
};

use crate::{
    dice::MS,
    promises::holds,
    weather::IMPOSED,
    world::{LONGEST_TTL, NAMES, TOKEN_MEMORY, World, micros, name},
};

/// The store's time at the world's beginning.
const BEGAN: i64 = 1_700_000_000_000_000;

/// Longest time for which a replica may have missed writes.
const MOST_LOST: u64 = 2_000 * MS;

/// Run of a coordinator: its number, and how many times it was started before.
pub(crate) type Run = (usize, u64);

/// Something that happens at its time, and is no message of a stream.
pub(crate) enum Event {
    /// A command arrives.
    Execute(Box<Sent>),
    /// A reply arrives, or the time for it is over.
    Reply(Box<Sent>, Result<Stamped, StoreError>),
    /// A wake-up arrives.
    WakeUp(Run, WakeUp),
    /// A release in the background is due.
    CleanUp(Run, PendingCleanup),
}

/// A command on its way.
pub(crate) struct Sent {
    pub(crate) by: Run,
    pub(crate) to: Destination,
    pub(crate) command: Command,
    pub(crate) sent_at: Moment,
    /// When its reply arrives; `None` if it is lost.
    reply_at: Option<u64>,
}

/// Destination of a reply.
#[derive(Clone)]
pub(crate) enum Destination {
    /// The session on this stream.
    Session(usize, CommandId),
    /// The clean-up.
    CleanUp(PendingCleanup),
    /// The contended names.
    Contention(CommandId),
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) table: LockTable,
    pub(crate) ended: EndedSessions,
    pub(crate) agenda: BTreeMap<(u64, u64), Event>,
    events: u64,
    /// When the last command of a coordinator to a name arrives, and its last reply.
    lanes: BTreeMap<(Run, LockName), (u64, u64)>,
    /// When many commands fail, and until when all are slow.
    pub(crate) storm: Range<u64>,
    pub(crate) slow_until: u64,
    /// The coordinator whose command for each owner id was carried out last.
    pub(crate) had_by: BTreeMap<OwnerId, Run>,
    /// Who holds each name, as far as that was looked up since the last command to it.
    held: [Option<Vec<Held>>; NAMES.len()],
    /// A replica's locks, and since when it has missed all writes.
    replica: Option<(u64, LockTable)>,
}

/// A hold.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) token: i64,
    pub(crate) client: String,
    pub(crate) mode: Mode,
    /// When it ends unless it is renewed.
    pub(crate) ends_at: u64,
    /// Time at which it ends although it is renewed. A hand-off may be confirmed, or found, that much after it was made: within the claim
    /// time at another coordinator, and within its TTL if the reply was lost.
    pub(crate) bound: Option<u64>,
}

impl Store {
    pub(crate) fn plan(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.agenda.insert((at, self.events), event);
    }

    /// Returns who holds a name, as it was looked up.
    pub(crate) fn held(&self, number: usize) -> &[Held] {
        self.held[number].as_deref().expect("it was looked up")
    }

    pub(crate) fn due(&self) -> Option<u64> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }
}

pub(crate) fn unavailable() -> StoreError {
    StoreError::Unavailable {
        reason: "down".to_owned(),
    }
}

/// A command of somebody who is no simulated coordinator.
pub(crate) fn command_of(by: &str, name: &LockName, op: Op) -> Command {
    Command {
        name: name.clone(),
        caller: Caller {
            coordinator: CoordinatorId::new(by),
            floor: FencingToken::new(0),
            token_memory: TOKEN_MEMORY,
            not_after: None,
        },
        op,
    }
}

fn indeterminate() -> StoreError {
    StoreError::Indeterminate {
        reason: "lost".to_owned(),
    }
}

impl World {
    pub(crate) fn store_time(&self) -> StoreTime {
        let now = i64::try_from(self.now).unwrap();
        let drift = now * self.drift / 1_000_000;
        StoreTime::from_micros(BEGAN + now + drift + self.stepped_by)
    }

    /// Returns when this much of the store's time has passed, rounded down.
    fn after_store_time(&self, time: Duration) -> u64 {
        let time = i64::try_from(time.as_micros()).unwrap();
        self.now + u64::try_from(time * 1_000_000 / (1_000_000 + self.drift)).unwrap()
    }

    /// Sends a command, and decides what becomes of it.
    pub(crate) fn send(&mut self, by: Run, to: Destination, name: LockName, op: Op) {
        let now = self.now;
        let coordinator = &self.coordinators[by.0];
        let mut sent = Box::new(Sent {
            by,
            to,
            sent_at: self.moment(),
            reply_at: None,
            command: Command {
                name: name.clone(),
                caller: Caller {
                    coordinator: coordinator.id.clone(),
                    floor: FencingToken::new(coordinator.floor),
                    token_memory: TOKEN_MEMORY,
                    // It may be queued for as long as it may take.
                    not_after: Some(self.store_time().after(2 * self.store_timeout)),
                },
                op,
            },
        });
        let timeout = micros(self.store_timeout);
        if !coordinator.is_store_up {
            let at = now + self.dice.between(10, MS);
            return self.store.plan(at, Event::Reply(sent, Err(unavailable())));
        }
        let (arrived, answered) = self.lane(by, &name);
        let is_stormy = self.store.storm.contains(&now);
        let is_slow = now < self.store.slow_until && !self.is_calm;
        let fate = match (self.is_well(), is_stormy) {
            (true, _) => 100,
            (false, true) => self.dice.below(12),
            (false, false) => self.dice.below(120),
        };
        let mut arrives = arrived.max(now + self.dice.between(30, 2 * MS));
        match fate {
            // It fails before it is sent.
            0 | 1 => {
                self.seen.not_carried_out += 1;
                let at = answered.max(now + self.dice.between(10, 5 * MS));
                return self.store.plan(at, Event::Reply(sent, Err(unavailable())));
            }
            // It is lost on its way.
            2 => {
                self.seen.not_carried_out += 1;
                let at = now + timeout;
                return self
                    .store
                    .plan(at, Event::Reply(sent, Err(indeterminate())));
            }
            3 | 4 => self.seen.lost_replies += 1,
            // It arrives when its sender has given up, or almost.
            5 => {
                self.seen.late += 1;
                arrives = arrived.max(now + self.dice.between(timeout / 2, timeout * 5 / 2));
            }
            6 => arrives = arrived.max(now + self.dice.between(MS, timeout / 2)),
            _ if is_slow => arrives = arrived.max(now + self.dice.between(MS, timeout / 2)),
            _ => {}
        }
        let back = match is_slow {
            true => self.dice.between(MS, timeout / 2),
            false => self.dice.between(30, 2 * MS),
        };
        let replied = answered.max(arrives + back);
        sent.reply_at = (!matches!(fate, 3 | 4) && replied < now + timeout).then_some(replied);
        let lane = self.store.lanes.entry((by, name)).or_default();
        lane.0 = arrives;
        if sent.reply_at.is_some() {
            lane.1 = replied;
        } else {
            // Its sender waits no longer than this, whether it arrives or not.
            let given_up = Box::new(Sent {
                by,
                to: sent.to.clone(),
                command: sent.command.clone(),
                ..*sent
            });
            let at = now + timeout;
            self.store
                .plan(at, Event::Reply(given_up, Err(indeterminate())));
        }
        self.store.plan(arrives, Event::Execute(sent));
    }

    fn lane(&self, by: Run, name: &LockName) -> (u64, u64) {
        let lane = self.store.lanes.get(&(by, name.clone()));
        lane.copied().unwrap_or_default()
    }

    /// Carries a command out.
    pub(crate) fn execute(&mut self, sent: Box<Sent>) {
        let executed = self.apply(&sent.command);
        self.tell(|| format!("store: {:?} {:?} -> {executed:?}", sent.by, sent.command));
        let owner = match (&sent.command.op, &executed.reply) {
            // Somebody else may have it: hostile clients name the owner ids of others.
            (_, Reply::Lost(_) | Reply::Late) => None,
            (Op::Acquire(acquire), _) => Some(acquire.owner),
            (Op::Resume(resume), _) => Some(resume.next),
            _ => None,
        };
        let had = owner.map(|owner| (owner, sent.by));
        self.store.had_by.extend(had);
        self.publish(&sent.command, &executed);
        if let Some(at) = sent.reply_at {
            // A step of the clock made it look late.
            let result = match executed.reply == Reply::Late {
                true => Err(unavailable()),
                false => Ok(Stamped {
                    executed,
                    sent_at: sent.sent_at,
                }),
            };
            self.store.plan(at, Event::Reply(sent, result));
        }
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Executed {
        let before = self.before(command);
        self.store.held[before.name] = None;
        let at = self.store_time();
        let (executed, telling) = self.store.table.apply_and_tell(command, at);
        self.feed(&command.name, &command.op, at, &telling);
        self.after(command, &executed, telling, &before);
        executed
    }

    /// The clock of the store steps.
    pub(crate) fn step_clock(&mut self, by: i64) {
        self.tell(|| format!("the store's clock steps by {by} µs"));
        self.seen.clock_steps += 1;
        self.forget_delays();
        self.stepped_by += by;
        self.stepped_at = self.now;
        if by > 0 {
            self.lost_at = self.now;
        }
        self.store.held = Default::default();
        let ended_by = self.now + 2 * micros(LONGEST_TTL);
        self.strange_until = self.strange_until.max(ended_by) + by.unsigned_abs();
    }

    /// A replica falls behind, or takes over without the writes that it has missed.
    pub(crate) fn fail_over(&mut self) {
        let now = self.now;
        match self.store.replica.take() {
            Some((since, table)) if now < since + MOST_LOST => {
                self.tell(|| {
                    format!("a replica takes over that has missed all writes since {since}")
                });
                self.seen.fail_overs += 1;
                self.store.table = table;
                self.store.held = Default::default();
                self.newest = Default::default();
                (self.lost_at, self.failed_over_at) = (now, now);
                self.strange_until = self.strange_until.max(now + 2 * micros(LONGEST_TTL));
                self.forget_writes();
                for number in 0..self.coordinators.len() {
                    self.break_feed(number, now);
                }
            }
            _ => self.store.replica = Some((now, self.store.table.clone())),
        }
    }

    /// Looks up who holds a name, by its number.
    pub(crate) fn look_up(&mut self, number: usize) {
        if self.store.held[number].is_none() {
            let view = self.view(&name(NAMES[number]));
            let held = holds(&view).map(|hold| Held {
                token: hold.token.get(),
                client: hold.client_name.as_str().to_owned(),
                mode: hold.mode,
                ends_at: self.after_store_time(hold.expires_in),
                bound: hold.max_hold.map(|max_hold| {
                    let mut time = max_hold + CLAIM_TIME.max(LONGEST_TTL);
                    if max_hold == IMPOSED {
                        // Its client does not know of it until it is told.
                        time += LONGEST_TTL;
                    }
                    self.after_store_time(self.store_time().until(hold.acquired_at.after(time)))
                }),
            });
            self.store.held[number] = Some(held.collect());
        }
    }

    /// Shows a name.
    pub(crate) fn view(&mut self, name: &LockName) -> NameView {
        match self.look(name, Op::view(100)) {
            Reply::Seen(view) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// Carries out at once what changes nothing.
    pub(crate) fn look(&mut self, name: &LockName, op: Op) -> Reply {
        let command = command_of("nobody", name, op);
        self.store.table.apply(&command, self.store_time()).reply
    }
}
