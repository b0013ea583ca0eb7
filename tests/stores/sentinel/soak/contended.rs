//! Names that many clients want, at several coordinators, and the messages that each received.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_proto::v1::{GrantedLock, LostReason, SessionResponse, session_response::Response};
use leasehold_tests::{
    CoordinatorProcess, RawSession,
    raw::{exclusive, for_at_most},
};
use tokio::{sync::watch, task::JoinSet};
use tonic::Code;

use crate::sentinel::scene::LIMIT;

/// TTL of the sessions: less than a fail-over may take.
const TTL: Duration = Duration::from_secs(4);
/// Time for which an acquire waits.
const WAIT: Duration = Duration::from_secs(1);
/// Sessions at each coordinator that give back soon, and those that hold on, with renewals; and the names of each kind.
const SOON: usize = 12;
const SOON_NAMES: usize = 8;
const LONG: usize = 6;
const LONG_NAMES: usize = 8;
/// For how long those hold: the latter so much longer each, so that they do not all give back at a time.
const SHORT_HOLD: Duration = Duration::from_millis(2);
const LONG_HOLD: Duration = Duration::from_secs(4);
const LONGER: Duration = Duration::from_millis(300);

/// A grant that a client was told of.
#[derive(Debug)]
struct Hold {
    token: i64,
    told: Instant,
    /// Until when the client believed in it: it gave it back, its deadline passed, or it was told of the loss.
    until: Instant,
}

/// Record of the messages for the sessions.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    holds: BTreeMap<String, Vec<Hold>>,
    /// The times and the reasons of refused acquires.
    pub(crate) refused: Vec<(Instant, String)>,
    /// The number of grants that were handed on to a waiter.
    pub(crate) handed: usize,
    /// The number of deadlines that renewals moved.
    pub(crate) renewed: usize,
    /// The number of holds that ended because their deadline had come.
    pub(crate) expired: usize,
    /// The holds that were reported as lost before their deadline.
    pub(crate) early: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        for (name, holds) in other.holds {
            self.holds.entry(name).or_default().extend(holds);
        }
        self.refused.extend(other.refused);
        self.handed += other.handed;
        self.renewed += other.renewed;
        self.expired += other.expired;
        self.early.extend(other.early);
    }

    /// Returns the times at which grants were reported, in order.
    pub(crate) fn told(&self) -> Vec<Instant> {
        let holds = self.holds.values().flatten();
        let mut told: Vec<_> = holds.map(|hold| hold.told).collect();
        told.sort_unstable();
        told
    }

    /// Returns the number of acquires that were refused for this reason.
    pub(crate) fn refused_for(&self, reason: &str) -> usize {
        let refused = self.refused.iter();
        refused.filter(|(_, why)| why == reason).count()
    }

    /// Asserts that no two believed in a name at a time, and that its tokens rise.
    pub(crate) fn check(&mut self) {
        for (name, holds) in &mut self.holds {
            holds.sort_unstable_by_key(|hold| hold.told);
            let mut before: Option<&Hold> = None;
            for hold in holds.iter().filter(|hold| hold.told < hold.until) {
                if let Some(before) = before {
                    assert!(
                        before.until <= hold.told,
                        "{name}: {hold:?} was granted while {before:?} was good"
                    );
                    assert!(before.token < hold.token, "{name}: {before:?}, {hold:?}");
                }
                before = Some(hold);
            }
        }
    }
}

/// Sessions that want the same names.
pub(crate) struct Contended {
    stop: watch::Sender<bool>,
    grants: Arc<AtomicU64>,
    tasks: JoinSet<Seen>,
}

impl Contended {
    /// Starts those of one coordinator.
    pub(crate) async fn start(coordinator: &CoordinatorProcess) -> Self {
        let stop = watch::Sender::new(false);
        let grants = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..SOON + LONG {
            let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
            session.keep_alive(TTL / 6);
            let worker = Worker {
                session,
                number,
                stop: stop.subscribe(),
                grants: Arc::clone(&grants),
                seen: Seen::default(),
            };
            tasks.spawn(worker.run());
        }
        Self {
            stop,
            grants,
            tasks,
        }
    }

    /// Returns the number of grants.
    pub(crate) fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    pub(crate) async fn stop(self) -> Seen {
        self.stop.send_replace(true);
        let mut all = Seen::default();
        for seen in self.tasks.join_all().await {
            all.add(seen);
        }
        all
    }
}

struct Worker {
    session: RawSession,
    number: usize,
    stop: watch::Receiver<bool>,
    grants: Arc<AtomicU64>,
    seen: Seen,
}

impl Worker {
    async fn run(mut self) -> Seen {
        for turn in 0_usize.. {
            if *self.stop.borrow() {
                break;
            }
            let (name, hold) = if self.number < SOON {
                let name = format!("soon/{}", (self.number + turn) % SOON_NAMES);
                (name, SHORT_HOLD)
            } else {
                let name = format!("long/{}", (self.number + turn) % LONG_NAMES);
                let longer = LONGER * u32::try_from(self.number - SOON).expect("a small number");
                (name, LONG_HOLD + longer)
            };
            self.turn(name, hold).await;
        }
        self.seen
    }

    async fn turn(&mut self, name: String, hold: Duration) {
        let acquire = for_at_most(WAIT, exclusive(&name));
        let id = self.session.ask_for(acquire).await;
        let mut waited = false;
        loop {
            match self.session.answer(id, LIMIT).await {
                Response::Queued(_) => waited = true,
                Response::Granted(granted) => {
                    let told = Instant::now();
                    let good_until = self.session.good_until_of(&granted);
                    let [lock] = <[_; 1]>::try_from(granted.locks).expect("one lock");
                    self.seen.handed += usize::from(waited);
                    self.grants.fetch_add(1, Ordering::Relaxed);
                    let until = self.hold(&lock, good_until, told + hold).await;
                    let token = lock.fencing_token;
                    let hold = Hold { token, told, until };
                    self.seen.holds.entry(name).or_default().push(hold);
                    return self.give_back(&lock).await;
                }
                Response::NotGranted(_) => return,
                Response::Error(failure) => {
                    assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                    self.seen.refused.push((Instant::now(), failure.reason));
                    // As a caller does that backs off.
                    return tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => panic!("{name} was answered by {other:?}"),
            }
        }
    }

    /// Holds a lock until a moment, as long as it can be believed in; until when that was.
    async fn hold(&mut self, lock: &GrantedLock, good_until: Instant, end: Instant) -> Instant {
        let mut good_until = good_until;
        // What was promised before the grant says nothing of it.
        let before = self.session.good_until();
        loop {
            let now = Instant::now();
            if now >= good_until {
                self.seen.expired += 1;
                return good_until;
            }
            if now >= end || *self.stop.borrow() {
                return now;
            }
            let left = (end.min(good_until) - now).min(TTL / 20);
            let loss = self
                .session
                .find(LIMIT, |message| reason(message, lock).is_some());
            let loss = tokio::time::timeout(left, loss).await;
            let promised = self.session.good_until();
            if let Some(promised) = promised.filter(|_| promised > before) {
                // A heartbeat moves a deadline a little by itself.
                self.seen.renewed += usize::from(promised > good_until + TTL / 10);
                good_until = good_until.max(promised);
            }
            let Ok(loss) = loss else { continue };
            let now = Instant::now();
            if now < good_until {
                let early = good_until - now;
                let reason = reason(&loss, lock).expect("it is the loss of this lock");
                let lost = format!("{}: {reason:?}, {early:?} early", lock.name);
                self.seen.early.push(lost);
                return now;
            }
            self.seen.expired += 1;
            return good_until;
        }
    }

    async fn give_back(&mut self, lock: &GrantedLock) {
        let id = self.session.ask_release(lock).await;
        match self.session.answer(id, LIMIT).await {
            Response::Released(_) => {}
            Response::Error(failure) => {
                assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
            }
            other => panic!("a release was answered by {other:?}"),
        }
    }
}

/// Returns the reason of a loss, if the message is one.
fn reason(message: &SessionResponse, lock: &GrantedLock) -> Option<LostReason> {
    let Some(Response::Lost(lost)) = &message.response else {
        return None;
    };
    let mut locks = lost.locks.iter();
    let lost = locks.find(|lost| lost.owner_id == lock.owner_id)?;
    Some(lost.reason())
}
