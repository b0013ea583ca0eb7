//! Random histories while the server's clock steps, floors run ahead and memories are short.
//!
//! The server's clock stands still between commands and is moved by the test, in whole milliseconds, to where no deadline is
//! near: so nothing depends on how fast the machine is.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, DEAD_AFTER, One, Op, PLACES_KEPT, Reply},
    id::{CoordinatorId, FeedId, FencingToken, OwnerId},
    lock::LockState,
    mode::Mode,
    name::LockName,
    time::StoreTime,
    view::NameView,
};
use leasehold_store::Store;
use leasehold_tests::{RedisServer, WallClock, report, wall_clock};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::differential::{
    compare::{Comparison, compare},
    connect,
    full::fill,
    pair::{Pair, acquire, owner, release},
    random,
};

/// Histories that are compared.
const HISTORIES: u64 = 60;
/// Commands of one history, unless it ends before.
const LENGTH: usize = 400;
/// Commands that must have been compared.
const COMMANDS: usize = 8_000;
/// Tokens that must have been minted ahead of the clock.
const AHEAD: usize = 300;
/// Records that must have been there when the memory had passed since their last use, since their token was still ahead.
const OUTLIVED: usize = 20;
/// No command is sent this near to a deadline.
const MARGIN: i64 = 2_000;
/// Longer than any TTL and lock-delay of a history together, so that no record ends before its hold.
const SHORTEST_MEMORY: i64 = 5_000;

struct Stepping<'a> {
    clock: &'a WallClock,
    now: StoreTime,
    random: StdRng,
    name: LockName,
    state: LockState,
    /// Whether the clock also steps back. Then nothing is resumed, no wait ended by force, and no limit has a revision: Redis
    /// keeps void owner ids and limits that it had not yet swept when the clock had passed their time, which is harmless, and
    /// the rules do not.
    steps_back: bool,
    /// The time at which the record would have ended if the memory counted from its last use alone.
    memory_passed_at: StoreTime,
}

#[derive(Default)]
struct Met {
    commands: usize,
    ahead: usize,
    outlived: usize,
}

impl Stepping<'_> {
    /// Carries commands out in Redis and by the rules, until they are enough or the record of a hold that was only ever
    /// taken again has run out before it.
    async fn run(&mut self, store: &Store, met: &mut Met) {
        for _ in 0..LENGTH {
            if self.pass_time() {
                // Has Redis drop what is over, so that a step back revives the same in both.
                self.execute(store, &Op::View { waiters: 100 }, met).await;
            }
            let view = self.view();
            if !view.holders.is_empty() && view.token.is_none() {
                return;
            }
            let owners = self.owners();
            let op = random::op(&mut self.random, &owners, &view, FeedId::new(0));
            match op {
                Op::Resume(_) | Op::ForceReleaseOne(One::Waiter(_)) if self.steps_back => continue,
                Op::Acquire(Acquire { mode, .. })
                    if self.steps_back && mode.limit().is_some_and(|limit| limit.revision > 0) =>
                {
                    continue;
                }
                Op::Look { .. } => continue,
                _ => {}
            }
            let before = view.token;
            let memory = self.execute(store, &op, met).await;
            met.commands += 1;
            let token = self.view().token;
            let is_ahead = token.is_some_and(|token| token.get() > self.now.as_micros() + 1000);
            met.ahead += usize::from(token != before && is_ahead);
            met.outlived += usize::from(before.is_some() && self.now > self.memory_passed_at);
            if token != before || matches!(op, Op::Renew { .. } | Op::Resume(_)) {
                self.memory_passed_at = self.now.after(memory);
            }
        }
    }

    /// Gives for how long the caller remembers tokens.
    async fn execute(&mut self, store: &Store, op: &Op, met: &Met) -> Duration {
        let caller = self.caller();
        let command = Command {
            name: self.name.clone(),
            caller: caller.clone(),
            op: op.clone(),
        };
        let got = store.execute(command).await.unwrap().executed;
        assert_eq!(got.at, self.now, "the server goes by the test's clock");
        let expected = self.state.apply(&caller, op, self.now);
        match compare(&expected, &got) {
            Comparison::Same => {}
            Comparison::Apart(_, what) | Comparison::Different(what) => {
                panic!(
                    "{:?} after {} commands, {op:?} by {caller:?}: {what}",
                    self.name, met.commands
                )
            }
        }
        caller.token_memory
    }

    /// Moves the clock, mostly not at all; whether it did.
    fn pass_time(&mut self) -> bool {
        let millis = match self.random.random_range(0..100) {
            0..60 => return false,
            60..75 => self.random.random_range(1..200),
            75..90 => self.random.random_range(200..4_000),
            90..94 => self.random.random_range(4_000..40_000),
            94..97 if self.steps_back => -self.random.random_range(1..40_000),
            97..98 if self.steps_back => -3_600_000,
            _ => self.random.random_range(4_000..20_000),
        };
        let mut now = self.now.as_micros() + millis * 1000;
        let deadlines = self.state.deadlines();
        while deadlines
            .iter()
            .any(|deadline| (deadline.as_micros() - now).abs() <= MARGIN)
        {
            now += 1000;
        }
        self.now = StoreTime::from_micros(now);
        self.clock.stop_at(now);
        true
    }

    /// Returns a coordinator with a memory and a floor of its own.
    fn caller(&mut self) -> Caller {
        let now = self.now.as_micros();
        let floor = match self.random.random_range(0..10) {
            0 => now + self.random.random_range(0..20_000_000),
            1 => now + 23 * 3_600_000_000,
            2 => 9_007_199_254_740_000,
            _ => 0,
        };
        let memory = match self.random.random_range(0..4) {
            0 => 60_000,
            _ => self.random.random_range(SHORTEST_MEMORY..8_000),
        };
        Caller {
            coordinator: CoordinatorId::new(&format!("c{}", self.random.random_range(0..3))),
            floor: FencingToken::new(floor),
            token_memory: Duration::from_millis(memory.unsigned_abs()),
            not_after: Some(self.now.after(Duration::from_secs(60))),
        }
    }

    fn view(&self) -> NameView {
        match self.ask(Op::View { waiters: 100 }) {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered with {other:?}"),
        }
    }

    fn owners(&self) -> Vec<OwnerId> {
        match self.ask(Op::Edges) {
            Reply::Edges(edges) => {
                let holders = edges.holders.iter().map(|edge| edge.owner);
                holders
                    .chain(edges.waiters.iter().map(|edge| edge.owner))
                    .collect()
            }
            other => panic!("edges were answered with {other:?}"),
        }
    }

    fn ask(&self, op: Op) -> Reply {
        let nobody = Caller {
            coordinator: CoordinatorId::new("nobody"),
            floor: FencingToken::default(),
            token_memory: Duration::from_secs(60),
            not_after: None,
        };
        self.state.clone().apply(&nobody, &op, self.now).reply
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree_while_the_clock_steps() {
    let clock = WallClock::new();
    let redis = clock.of(RedisServer::options()).start();
    let store = connect(&redis).await;
    let mut met = Met::default();
    let mut now = wall_clock::machine_time() / 1000 * 1000;
    for seed in 0..HISTORIES {
        clock.stop_at(now);
        let mut history = Stepping {
            clock: &clock,
            now: StoreTime::from_micros(now),
            random: StdRng::seed_from_u64(seed),
            name: LockName::parse(&format!("stepping {seed}")).unwrap(),
            state: LockState::default(),
            steps_back: seed % 2 == 1,
            memory_passed_at: StoreTime::from_micros(i64::MAX),
        };
        history.run(&store, &mut met).await;
        now = history.now.as_micros();
    }
    let Met {
        commands,
        ahead,
        outlived,
    } = met;
    report(format_args!(
        "{commands} commands agreed while the clock stepped; {ahead} tokens were minted ahead of it, {outlived} commands met a \
         record that outlived the memory"
    ));
    assert!(commands > COMMANDS, "only {commands} commands");
    assert!(ahead > AHEAD, "only {ahead} tokens were ahead");
    assert!(outlived > OUTLIVED, "only {outlived} records outlived");
}

/// Has a lock held and two coordinators' waiters queued for it, in this order, and steps the clock back by an hour.
async fn step_back(clock: &WallClock, lock: &mut Pair) -> StoreTime {
    let start = StoreTime::from_micros(wall_clock::machine_time() / 1000 * 1000);
    clock.stop_at(start.as_micros());
    lock.run("holder", acquire(0, Mode::Exclusive)).await;
    lock.run("silent", acquire(1, Mode::Exclusive)).await;
    lock.run("living", acquire(2, Mode::Exclusive)).await;
    let stepped = start.before(Duration::from_secs(3600));
    clock.stop_at(stepped.as_micros());
    stepped
}

fn refresh(number: u16) -> Op {
    Op::Refresh {
        oldest: Some(owner(number)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_keep_their_order_across_a_step_back() {
    let clock = WallClock::new();
    let redis = clock.of(RedisServer::options()).start();
    let mut lock = Pair::new(&redis, "order").await;
    step_back(&clock, &mut lock).await;
    lock.run("living", refresh(2)).await;
    for next in 1..=2 {
        let handed = lock.execute("holder", release(next - 1)).await.handed;
        let owners: Vec<OwnerId> = handed.iter().map(|grant| grant.owner).collect();
        assert_eq!(owners, [owner(next)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_silent_from_a_step_back_on_is_taken_for_dead() {
    is_taken_for_dead(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_taken_for_dead_while_redis_is_full_too() {
    is_taken_for_dead(true).await;
}

async fn is_taken_for_dead(is_full: bool) {
    let clock = WallClock::new();
    let redis = clock.of(RedisServer::options()).start();
    let mut lock = Pair::new(&redis, "silent").await;
    let stepped = step_back(&clock, &mut lock).await;
    if is_full {
        fill(&redis).await;
    }
    lock.run("living", refresh(2)).await;
    let at = |after| stepped.after(after + Duration::from_millis(1));
    clock.stop_at(at(DEAD_AFTER).as_micros());
    lock.run("living", refresh(2)).await;
    let handed = lock.execute("holder", release(0)).await.handed;
    let owners: Vec<OwnerId> = handed.iter().map(|grant| grant.owner).collect();
    assert_eq!(owners, [owner(2)], "the silent coordinator's is skipped");

    clock.stop_at(at(PLACES_KEPT).as_micros());
    let seen = lock.run("living", Op::View { waiters: 100 }).await;
    let Reply::Seen(view) = seen else {
        panic!("a view was answered with {seen:?}");
    };
    assert_eq!(view.waiters, [], "its place is given up");
}
