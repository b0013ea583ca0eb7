//! One random history on one name.

use std::time::Duration;

use leasehold_core::{
    command::{Caller, Command, Op, Reply},
    id::{CoordinatorId, FeedId, FencingToken, OwnerId},
    lock::LockState,
    name::LockName,
    time::{Moment, StoreTime},
    view::{HolderView, NameView},
};
use leasehold_store::{Store, clock};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::differential::{
    compare::{Comparison, TOLERANCE, compare},
    interruptions::{Interruptions, Since},
    random::{self, TOKEN_MEMORY},
    seen::Seen,
    told::{Ear, Ears},
    waves::{self, Waves},
};

/// No command is compared that falls closer than this to a deadline.
const MARGIN: Duration = Duration::from_millis(5);
/// Room to get there: a command is not even sent if a deadline is this near.
const APPROACH: Duration = Duration::from_millis(9);
/// Holds that end closer to one another than this may be shown in another order: Redis knows to the millisecond when an
/// exclusive one ends, and so does whoever it is shared with after a downgrade.
const SAME_TIME: Duration = Duration::from_millis(3);

/// End of a history.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Every answer was the same.
    Agreed,
    /// Every answer was the same until a command fell too close to a deadline to tell.
    Ambiguous,
    /// An answer was not the same.
    Differed(String),
}

pub(crate) struct History {
    name: LockName,
    random: StdRng,
    waves: Waves,
    state: LockState,
    /// The server's clock less ours, when it was last heard from.
    ahead: i64,
    /// The number of commands that were answered alike.
    commands: usize,
    seen: Seen,
    seed: u64,
    began: Since,
    /// The largest difference between times that Redis had because it was interrupted.
    apart: Duration,
    /// The listener for the events that its commands cause.
    ear: Option<Ear>,
    /// The number of operations whose events were alike.
    told: usize,
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        // Braces, spaces and glob characters too: names are matched whole.
        let name = LockName::parse(&format!("history {seed} {{a}}*}}{{")).unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        let waves = Waves::new(&mut random);
        let state = LockState::default();
        Self {
            name,
            random,
            waves,
            state,
            ahead: 0,
            commands: 0,
            seen: Seen::default(),
            seed,
            began: Since::START,
            apart: Duration::ZERO,
            ear: None,
            told: 0,
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn commands(&self) -> usize {
        self.commands
    }

    pub(crate) fn told(&self) -> usize {
        self.told
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) async fn run(
        mut self,
        store: Store,
        interruptions: Interruptions,
        length: usize,
        ears: Option<Ears>,
    ) -> (Self, Verdict) {
        self.began = interruptions.now().await;
        if let Some(ears) = ears {
            self.ear = Some(ears.listen_to(&self.name).await);
        }
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
            let known = self.known();
            let feed = self.ear.as_ref().map_or(FeedId::new(0), Ear::feed);
            let view = self.view(self.now());
            op = random::op(&mut self.random, &known, &view, feed);
        }
    }

    /// Sends one command and compares its effects.
    async fn step(
        &mut self,
        store: &Store,
        interruptions: &Interruptions,
        op: Op,
    ) -> Result<(), Verdict> {
        self.avoid_deadlines().await;
        let now = self.now();
        let caller = random::caller(&mut self.random, now);
        let command = Command {
            name: self.name.clone(),
            caller: caller.clone(),
            op: op.clone(),
        };
        let stamped = store.execute(command).await.unwrap();
        let at = stamped.executed.at;
        self.ahead = at.as_micros() - micros(clock::now());
        let deadlines = self.state.deadlines();
        let margin = MARGIN + self.apart;
        if deadlines.iter().any(|deadline| near(*deadline, at, margin)) {
            return Err(Verdict::Ambiguous);
        }
        let before = self.view(self.now());
        let (mut expected, telling) = self.state.apply_and_tell(&caller, &op, at);
        if self.ear.is_none() && expected.reply == Reply::Looked {
            // The rules know of no feeds.
            expected.reply = Reply::Unheard;
        }
        let view = self.view(at);
        self.seen.note(&op, &expected, &view);
        let mut comparison = compare(&expected, &stamped.executed);
        let is_told = !telling.changes.is_empty() || telling.looked.is_some();
        if let Some(ear) = &mut self.ear
            && !matches!(comparison, Comparison::Different(_))
        {
            self.seen.note_changes(&op, &telling);
            comparison = comparison.and(ear.compare(at, telling).await);
            self.told += usize::from(is_told);
        }
        let difference = match comparison {
            Comparison::Same => {
                self.commands += 1;
                return Ok(());
            }
            // If Redis was interrupted in a script, expiries may be off by as long as that took.
            Comparison::Apart(apart, _)
                if apart <= interruptions.longest(self.began).await + TOLERANCE =>
            {
                self.apart = self.apart.max(apart);
                self.commands += 1;
                return Ok(());
            }
            Comparison::Apart(_, difference) | Comparison::Different(difference) => difference,
        };
        let margin = interruptions.longest(self.began).await + MARGIN;
        let is_late = deadlines.iter().any(|deadline| near(*deadline, at, margin));
        let shows_holders = matches!(
            op,
            Op::Acquire(_) | Op::View { .. } | Op::Look { .. } | Op::Edges
        );
        let may_be_unknown = may_be_unknown(&view, at) || may_be_unknown(&before, at);
        if is_late || shows_holders && ends_together(&view) || may_be_unknown {
            return Err(Verdict::Ambiguous);
        }
        let (number, from) = (self.commands, &caller.coordinator);
        let what = format!("after {number} commands, {op:?} from {from}: {difference}");
        Err(Verdict::Differed(what))
    }

    /// Lets time pass: mostly none, now and then enough for a lease to run out, or for a coordinator to be taken for dead.
    async fn rest(&mut self) {
        let pause = match self.random.random_range(0..1000) {
            0..1 => Duration::from_millis(10_100),
            1..4 => Duration::from_millis(2_100),
            4..50 => waves::one(),
            _ => return,
        };
        tokio::time::sleep(pause).await;
    }

    /// Returns the time by the server's clock, as far as it is known here.
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(micros(clock::now()) + self.ahead)
    }

    /// Returns the owner ids that hold the lock or wait for it.
    fn known(&self) -> Vec<OwnerId> {
        match self.ask(Op::Edges, self.now()) {
            Reply::Edges(edges) => {
                let holders = edges.holders.iter().map(|edge| edge.owner);
                let waiters = edges.waiters.iter().map(|edge| edge.owner);
                holders.chain(waiters).collect()
            }
            other => panic!("edges were answered with {other:?}"),
        }
    }

    /// Returns the view of the name.
    fn view(&self, at: StoreTime) -> NameView {
        match self.ask(Op::View { waiters: 100 }, at) {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered with {other:?}"),
        }
    }

    /// Returns the answer of the rules to an operation, without a change here.
    fn ask(&self, op: Op, at: StoreTime) -> Reply {
        let nobody = Caller {
            coordinator: CoordinatorId::new("nobody"),
            floor: FencingToken::new(0),
            token_memory: TOKEN_MEMORY,
            not_after: None,
        };
        self.state.clone().apply(&nobody, &op, at).reply
    }

    /// Comes back when a command may be sent.
    async fn avoid_deadlines(&self) {
        loop {
            let now = self.now();
            let deadlines = self.state.deadlines();
            let is_near = deadlines
                .iter()
                .any(|deadline| near(*deadline, now, APPROACH));
            match self.waves.wait(now) {
                Duration::ZERO if !is_near => return,
                Duration::ZERO => tokio::time::sleep(Duration::from_millis(1)).await,
                wait => tokio::time::sleep(wait).await,
            }
        }
    }
}

/// Returns whether two holds end nearly at the same time.
fn ends_together(view: &NameView) -> bool {
    let ends: Vec<Duration> = view
        .holders
        .iter()
        .filter_map(|holder| match holder {
            HolderView::Ours(hold) => Some(hold.expires_in + hold.lock_delay),
            HolderView::Foreign { .. } => None,
        })
        .collect();
    ends.windows(2)
        .any(|ends| ends[0].abs_diff(ends[1]) <= SAME_TIME)
}

/// Returns whether Redis may have forgotten what it knew of a hold, with its token, since the hold was only ever taken again.
fn may_be_unknown(view: &NameView, at: StoreTime) -> bool {
    view.holders.iter().any(|holder| match holder {
        HolderView::Ours(hold) => hold.acquired_at.after(TOKEN_MEMORY) <= at,
        HolderView::Foreign { .. } => false,
    })
}

fn near(a: StoreTime, b: StoreTime, margin: Duration) -> bool {
    a.until(b).max(b.until(a)) <= margin
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_micros()).unwrap()
}
