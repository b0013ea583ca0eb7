//! One random history on one name.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, Reply},
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    lock::LockState,
    name::{ClientName, LockName, Value},
    time::{Moment, StoreTime},
};
use leasehold_store::{LockStore, Store, clock};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    compare::{Comparison, compare},
    interruptions::{Interruptions, Since},
};

/// No command is compared that falls closer than this to a deadline.
const MARGIN: Duration = Duration::from_millis(5);
/// Room to get there: a command is not even sent if a deadline is this near.
const APPROACH: Duration = Duration::from_millis(9);
/// Coordinators that take part.
const COORDINATORS: usize = 3;
/// Owner ids that take part at a time.
const OWNERS: u8 = 8;

/// How a history ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Every answer was the same.
    Agreed,
    /// A command fell too close to a deadline to tell.
    Ambiguous,
    /// An answer was not the same.
    Differed(String),
}

/// What the histories came by, so that it can be seen that they are worth something.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn note(&mut self, op: &Op, reply: &Reply, handed: bool) {
        let what = match reply {
            Reply::Granted { .. } => "granted",
            Reply::Queued { .. } => "queued",
            Reply::Busy { .. } => "busy",
            Reply::Late => "late",
            Reply::Renewed => "renewed",
            Reply::Lost(leasehold_core::command::Loss::Expired) => {
                "renewal refused in the lock-delay"
            }
            Reply::Lost(_) => "lost",
            Reply::Released {
                closed_for: Some(_),
                ..
            } => "closed",
            Reply::Released { held: true, .. } => "released",
            Reply::Released { waited: true, .. } => "cancelled",
            Reply::Released { .. } => "nothing to release",
            Reply::Refreshed {
                current: Some(_), ..
            } => "refresh found a grant",
            Reply::Refreshed { .. } => "refreshed",
            Reply::Forced { released: true, .. } => "forced",
            Reply::Forced { .. } => "nothing to force",
            Reply::ValueSet(true) => "value set",
            Reply::ValueSet(false) => "value not set",
            Reply::Seen(_) => "seen",
        };
        *self.0.entry(what).or_default() += 1;
        if handed {
            let what = match op {
                Op::Acquire(_) => "handed on by an acquire",
                Op::Release { .. } => "handed on by a release",
                Op::Refresh { .. } => "handed on by a refresh",
                _ => "handed on by force",
            };
            *self.0.entry(what).or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn assert_everything_happened(&self) {
        for what in [
            "granted",
            "queued",
            "busy",
            "late",
            "renewed",
            "renewal refused in the lock-delay",
            "lost",
            "closed",
            "released",
            "cancelled",
            "nothing to release",
            "refresh found a grant",
            "refreshed",
            "forced",
            "nothing to force",
            "value set",
            "value not set",
            "seen",
            "handed on by an acquire",
            "handed on by a release",
            "handed on by a refresh",
            "handed on by force",
        ] {
            assert!(
                self.0.contains_key(what),
                "no history came by {what:?}: {:?}",
                self.0
            );
        }
    }
}

pub(crate) struct History {
    name: LockName,
    random: StdRng,
    state: LockState,
    /// The server's clock less ours, when it was last heard from.
    ahead: i64,
    commands: usize,
    seen: Seen,
    seed: u64,
    began: Since,
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        // Braces, spaces and glob characters too: names are matched whole.
        let name = LockName::parse(&format!("history {seed} {{a}}*}}{{")).unwrap();
        let random = StdRng::seed_from_u64(seed);
        let state = LockState::default();
        Self {
            name,
            random,
            state,
            ahead: 0,
            commands: 0,
            seen: Seen::default(),
            seed,
            began: Since::START,
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) async fn run(
        mut self,
        store: Store,
        interruptions: Interruptions,
        length: usize,
    ) -> (Self, Verdict) {
        self.began = interruptions.now().await;
        // The first command only tells the server's time.
        let mut op = Op::View { waiters: 100 };
        loop {
            if let Err(verdict) = self.step(&store, &interruptions, op).await {
                return (self, verdict);
            }
            if self.commands == length {
                return (self, Verdict::Agreed);
            }
            self.rest().await;
            op = self.random_op();
        }
    }

    /// Sends one command and compares what it did.
    async fn step(
        &mut self,
        store: &Store,
        interruptions: &Interruptions,
        op: Op,
    ) -> Result<(), Verdict> {
        self.avoid_deadlines().await;
        let caller = self.random_caller();
        let command = Command {
            name: self.name.clone(),
            caller: caller.clone(),
            op: op.clone(),
        };
        let stamped = store.execute(command).await.unwrap();
        let at = stamped.executed.at;
        self.ahead = at.as_micros() - micros(clock::now());
        let deadlines = self.state.deadlines();
        if deadlines.iter().any(|deadline| near(*deadline, at, MARGIN)) {
            return Err(Verdict::Ambiguous);
        }
        let expected = self.state.apply(&caller, &op, at);
        self.commands += 1;
        self.seen
            .note(&op, &expected.reply, expected.handed.is_some());
        // If Redis was interrupted in a script, expiries may be off by as long as that took.
        let (difference, excused) = match compare(&expected, &stamped.executed) {
            Comparison::Same => return Ok(()),
            Comparison::Apart(apart, difference) => {
                let interrupted = interruptions.longest(self.began).await;
                (difference, apart <= interrupted + MARGIN)
            }
            Comparison::Different(difference) => {
                let margin = interruptions.longest(self.began).await + MARGIN;
                let excused = deadlines.iter().any(|deadline| near(*deadline, at, margin));
                (difference, excused && margin > 2 * MARGIN)
            }
        };
        if excused {
            return Err(Verdict::Ambiguous);
        }
        let (number, from) = (self.commands, &caller.coordinator);
        let what = format!("command {number}, {op:?} from {from}: {difference}");
        Err(Verdict::Differed(what))
    }

    /// Mostly no time passes; now and then enough for a lease to run out, or for a coordinator to be taken for dead.
    async fn rest(&mut self) {
        let millis = match self.random.random_range(0..1000) {
            0..1 => 10_100,
            1..4 => 2_100,
            4..40 => self.random.random_range(1..160),
            _ => return,
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn avoid_deadlines(&self) {
        loop {
            let now = StoreTime::from_micros(micros(clock::now()) + self.ahead);
            let deadlines = self.state.deadlines();
            if !deadlines
                .iter()
                .any(|deadline| near(*deadline, now, APPROACH))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn random_op(&mut self) -> Op {
        let owner = self.random_owner();
        let random = &mut self.random;
        match random.random_range(0..100) {
            0..38 => Op::Acquire(self.random_acquire(owner)),
            38..52 => Op::Renew {
                owner,
                ttl: Duration::from_millis(random.random_range(40..400)),
            },
            52..76 => Op::Release {
                owner,
                end: if random.random_bool(0.5) {
                    End::Clean
                } else {
                    End::Unclean
                },
            },
            76..88 => Op::Refresh {
                oldest: random.random_bool(0.7).then_some(owner),
            },
            88..91 => Op::ForceRelease,
            91..95 => Op::SetValue {
                owner,
                value: random_value(random),
            },
            _ => Op::View {
                waiters: *[0, 1, 3, 100].choose(random).unwrap(),
            },
        }
    }

    fn random_acquire(&mut self, owner: OwnerId) -> Acquire {
        let random = &mut self.random;
        Acquire {
            owner,
            session: random
                .random_bool(0.7)
                .then(|| SessionId::from_bytes(random.random())),
            client_name: ClientName::parse(["", "worker", "ключ"].choose(random).unwrap()).unwrap(),
            value: random_value(random),
            ttl: Duration::from_millis(random.random_range(40..400)),
            lock_delay: Duration::from_millis(*[0, 0, 30, 90].choose(random).unwrap()),
            wait: random.random_bool(0.65),
        }
    }

    /// Owner ids come again, as after a lost reply; raw bytes of every kind among them.
    fn random_owner(&mut self) -> OwnerId {
        let number = self.random.random_range(0..OWNERS);
        let mut bytes = [number.wrapping_mul(37); 16];
        bytes[0] = number;
        OwnerId::from_bytes(bytes)
    }

    /// Often one that other histories have too, so that commands on several locks are carried out together; it comes in
    /// time, and the clock is ahead of its floor. Otherwise one with a will of its own.
    fn random_caller(&mut self) -> Caller {
        let coordinator = self.random.random_range(0..COORDINATORS);
        let coordinator = CoordinatorId::new(&format!("c{coordinator}"));
        if self.random.random_bool(0.7) {
            return Caller {
                coordinator,
                floor: FencingToken::new(0),
                token_memory: Duration::from_secs(6),
                not_after: None,
            };
        }
        Caller {
            coordinator,
            floor: FencingToken::new(self.random_floor()),
            token_memory: Duration::from_millis(self.random.random_range(3_000..9_000)),
            not_after: Some(self.random_not_after()),
        }
    }

    /// Mostly in good time, now and then too late. No two are the same.
    fn random_not_after(&mut self) -> StoreTime {
        let now = StoreTime::from_micros(micros(clock::now()) + self.ahead);
        match self.random.random_range(0..12) {
            0 => now.before(Duration::from_secs(1)),
            _ => now.after(Duration::from_micros(
                self.random.random_range(60_000_000..90_000_000),
            )),
        }
    }

    /// Mostly nothing; now and then ahead of the server's clock, as after its data were lost.
    fn random_floor(&mut self) -> i64 {
        match self.random.random_range(0..12) {
            0 => micros(clock::now()) + self.ahead + self.random.random_range(0..5_000_000),
            1 => 9_007_199_254_740_000,
            _ => 0,
        }
    }
}

fn random_value(random: &mut StdRng) -> Value {
    let length = *[0, 1, 40, 4096].choose(random).unwrap();
    let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
    Value::parse(&bytes).unwrap()
}

fn near(a: StoreTime, b: StoreTime, margin: Duration) -> bool {
    a.until(b).max(b.until(a)) <= margin
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_micros()).unwrap()
}
