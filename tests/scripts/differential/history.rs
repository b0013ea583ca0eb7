//! Random histories of several locks side by side.
//!
//! Redis's clock stands still between commands, and is moved to where no deadline is near: milliseconds in Redis and microseconds
//! by the rules may differ there. So a seed always gives the same history, on a busy machine too.

use std::{collections::VecDeque, time::Duration};

use leasehold_core::{
    command::{Acquire, Caller, Command, Executed, One, Op, Reply},
    id::{FeedId, OwnerId},
    lock::LockState,
    name::LockName,
    time::StoreTime,
    view::NameView,
    watch::Telling,
};
use leasehold_store::{Store, Told};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::caller,
    differential::{compare::compare, random, seen::Seen, server::Server, told::Ears},
};

/// Locks of a group. Their commands go to Redis together, as those of many sessions do.
const LOCKS: usize = 16;
/// No command is sent this near to a deadline.
const MARGIN: Duration = Duration::from_millis(2);
/// Time between groups, when nothing of the former is left.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Callers, and the course of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Most callers come in time, and their terms are the same.
    Usual,
    /// Floors run ahead of the clock, and memories are short.
    Ahead,
    /// The same, and the clock also steps back. Then nothing is resumed, no wait ended by force, and no limit has a revision: Redis
    /// keeps void owner ids and limits that it had not yet swept when the clock had passed their time, which is harmless, and the
    /// rules do not.
    Back,
}

/// Counts of what the histories have met.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Commands that were answered alike.
    pub(crate) commands: usize,
    /// Commands whose events were alike.
    pub(crate) told: usize,
    /// Tokens that were minted ahead of the clock.
    pub(crate) ahead: usize,
    /// Commands that met a record when the memory had passed since its last use, since its token was still ahead.
    pub(crate) outlived: usize,
    pub(crate) seen: Seen,
}

impl Met {
    pub(crate) fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.told += other.told;
        self.ahead += other.ahead;
        self.outlived += other.outlived;
        self.seen.add(&other.seen);
    }
}

/// Locks that share a clock.
pub(crate) struct Group<'a> {
    server: &'a mut Server,
    store: &'a Store,
    ears: Option<&'a mut Ears>,
    kind: Kind,
    seed: u64,
    random: StdRng,
    locks: Vec<Lock>,
}

/// One of them, by the rules.
struct Lock {
    name: LockName,
    random: StdRng,
    state: LockState,
    /// The time at which the record would have ended if the memory counted from its last use alone.
    memory_passed_at: StoreTime,
    /// Events that have come, and were not compared yet.
    told: VecDeque<Told>,
}

/// A command, and its effects by the rules.
struct Step {
    lock: usize,
    command: Command,
    expected: Executed,
    telling: Telling,
}

impl<'a> Group<'a> {
    pub(crate) async fn new(
        server: &'a mut Server,
        store: &'a Store,
        mut ears: Option<&'a mut Ears>,
        kind: Kind,
        seed: u64,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        // Between milliseconds, too.
        let micros = match kind {
            Kind::Usual => random.random_range(0..1000),
            Kind::Ahead | Kind::Back => 0,
        };
        let day = server.now().as_micros() / 1000 * 1000 + micros;
        server.set(StoreTime::from_micros(day).after(DAY));
        let mut locks = Vec::new();
        for number in 0..LOCKS {
            // Braces, spaces and glob characters too: names are matched whole.
            let name = format!("history {seed}.{number} {{a}}*}}{{");
            let name = LockName::parse(&name).unwrap();
            if let Some(ears) = &mut ears {
                ears.listen_to(&name).await;
            }
            locks.push(Lock {
                name,
                random: StdRng::seed_from_u64(random.random()),
                state: LockState::default(),
                memory_passed_at: StoreTime::from_micros(i64::MAX),
                told: VecDeque::new(),
            });
        }
        Self {
            server,
            store,
            ears,
            kind,
            seed,
            random,
            locks,
        }
    }

    /// Has every lock carry out so many commands.
    pub(crate) async fn run(&mut self, rounds: usize) -> Met {
        let mut met = Met::default();
        for round in 0..rounds {
            let has_passed = self.pass_time();
            let steps = self.steps(has_passed, &mut met);
            let commands = steps.iter().map(|step| step.command.clone());
            let answers = self.store.execute_all(commands.collect()).await;
            self.listen(&steps).await;
            for (step, answer) in steps.iter().zip(answers) {
                if let Err(what) = self.compare(step, &answer.unwrap().executed) {
                    panic!(
                        "{:?} of seed {}, lock {}, round {round}, {:?}: {what}",
                        self.kind, self.seed, step.lock, step.command
                    );
                }
                met.commands += 1;
            }
        }
        met
    }

    /// Moves the clock, mostly not at all; whether it did.
    fn pass_time(&mut self) -> bool {
        let random = &mut self.random;
        let millis = match self.kind {
            Kind::Usual => match random.random_range(0..1000) {
                0..2 => random.random_range(10_001..11_000),
                2..8 => random.random_range(2_001..3_000),
                8..100 => random.random_range(200..1_500),
                100..300 => random.random_range(1..200),
                _ => return false,
            },
            Kind::Ahead | Kind::Back => match random.random_range(0..100) {
                0..60 => return false,
                60..75 => random.random_range(1..200),
                75..90 => random.random_range(200..4_000),
                90..94 => random.random_range(4_000..40_000),
                94..97 if self.kind == Kind::Back => -random.random_range(1..40_000),
                97..98 if self.kind == Kind::Back => -3_600_000,
                _ => random.random_range(4_000..20_000),
            },
        };
        let mut now = StoreTime::from_micros(self.server.now().as_micros() + millis * 1000);
        let deadlines = self.locks.iter().flat_map(|lock| lock.state.deadlines());
        let deadlines: Vec<StoreTime> = deadlines.collect();
        while deadlines
            .iter()
            .any(|deadline| now.until(*deadline).max(deadline.until(now)) <= MARGIN)
        {
            now = now.after(Duration::from_millis(1));
        }
        self.server.set(now);
        true
    }

    /// Has the rules carry out a command on each lock.
    fn steps(&mut self, has_passed: bool, met: &mut Met) -> Vec<Step> {
        let now = self.server.now();
        let feed = self.ears.as_ref().map(|ears| ears.id());
        let mut steps = Vec::new();
        for number in 0..self.locks.len() {
            let lock = &mut self.locks[number];
            let before = lock.view(now);
            // The record of a hold that was only ever taken again has run out before it, and what Redis knew of the hold.
            if !before.holders.is_empty() && before.token.is_none() {
                continue;
            }
            // After a step, Redis drops what is over, so that a step back revives the same in both.
            let op = match has_passed && self.kind == Kind::Back {
                true => Op::view(100),
                false => lock.op(&before, now, feed.unwrap_or(FeedId::new(0))),
            };
            if self.kind == Kind::Back && is_kept_too_long(&op) {
                continue;
            }
            let caller = match self.kind {
                Kind::Usual => random::caller(&mut lock.random, now),
                Kind::Ahead | Kind::Back => random::caller_ahead(&mut lock.random, now),
            };
            let (mut expected, telling) = lock.state.apply_and_tell(&caller, &op, now);
            if feed.is_none() && expected.reply == Reply::Looked {
                // The rules know of no feeds.
                expected.reply = Reply::Unheard;
            }
            let after = lock.view(now);
            met.seen.note(&op, &expected, &after);
            if feed.is_some() {
                met.seen.note_changes(&op, &telling);
                met.told += usize::from(count_told(&telling) > 0);
            }
            let is_new = after.token != before.token;
            let ahead =
                |token: leasehold_core::id::FencingToken| token.get() > now.as_micros() + 1000;
            met.ahead += usize::from(is_new && after.token.is_some_and(ahead));
            met.outlived += usize::from(before.token.is_some() && now > lock.memory_passed_at);
            if is_new || matches!(op, Op::Renew { .. } | Op::Resume(_)) {
                lock.memory_passed_at = now.after(caller.token_memory);
            }
            let name = lock.name.clone();
            steps.push(Step {
                lock: number,
                command: Command { name, caller, op },
                expected,
                telling,
            });
        }
        steps
    }

    /// Takes in as many events as there should be. Another one is found in its place.
    async fn listen(&mut self, steps: &[Step]) {
        let Some(ears) = &mut self.ears else {
            return;
        };
        for _ in 0..steps.iter().map(|step| count_told(&step.telling)).sum() {
            let told = ears.next(self.seed).await;
            let lock = self.locks.iter_mut().find(|lock| lock.name == told.name);
            lock.unwrap().told.push_back(told);
        }
    }

    fn compare(&mut self, step: &Step, got: &Executed) -> Result<(), String> {
        if got.at != self.server.now() {
            return Err(format!("Redis does not go by the test's clock: {got:?}"));
        }
        compare(&step.expected, got)?;
        match &self.ears {
            Some(ears) => {
                let told = &mut self.locks[step.lock].told;
                ears.compare(&step.command.name, got.at, &step.telling, told)
            }
            None => Ok(()),
        }
    }
}

impl Lock {
    /// Returns a random operation, often on a holder or waiter that is there.
    fn op(&mut self, view: &NameView, now: StoreTime, feed: FeedId) -> Op {
        let known = match self.ask(Op::Edges, now) {
            Reply::Edges(edges) => {
                let holders = edges.holders.iter().map(|edge| edge.owner);
                let waiters = edges.waiters.iter().map(|edge| edge.owner);
                holders.chain(waiters).collect::<Vec<OwnerId>>()
            }
            other => panic!("edges were answered with {other:?}"),
        };
        random::op(&mut self.random, &known, view, feed)
    }

    fn view(&self, now: StoreTime) -> NameView {
        match self.ask(Op::view(100), now) {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered with {other:?}"),
        }
    }

    /// Returns the answer of the rules to an operation, without a change here.
    fn ask(&self, op: Op, now: StoreTime) -> Reply {
        let nobody: Caller = caller("nobody");
        self.state.clone().apply(&nobody, &op, now).reply
    }
}

/// Returns whether Redis may know of what the operation leaves when the clock has stepped back, while the rules do not.
fn is_kept_too_long(op: &Op) -> bool {
    match op {
        Op::Resume(_) | Op::ForceReleaseOne(One::Waiter(_)) => true,
        Op::Acquire(Acquire { mode, .. }) => mode.limit().is_some_and(|limit| limit.revision > 0),
        _ => false,
    }
}

/// Returns the number of events of an operation.
fn count_told(telling: &Telling) -> usize {
    usize::from(!telling.changes.is_empty()) + usize::from(telling.looked.is_some())
}
