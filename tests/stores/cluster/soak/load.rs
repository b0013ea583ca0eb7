//! Clients that take and release locks without end, and others that hold some throughout.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold_client::{LockGuard, Session};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::cluster::site::{LIMIT, Site};

const WORKERS: usize = 8;
/// Names that all of them want.
const SHARED: usize = 6;
const TTL: Duration = Duration::from_secs(10);
/// Time for which an acquire of a shared name waits.
const WAIT: Duration = Duration::from_secs(3);
/// The longest that anything may take: what an acquire waits, and the store's time-out a few times over.
pub(crate) const BOUND: Duration = Duration::from_secs(8);

/// Workers under way.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    workers: JoinSet<Done>,
}

/// Results of the workers.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) cycles: usize,
    pub(crate) longest: Duration,
    /// By their text.
    pub(crate) errors: BTreeMap<String, usize>,
    /// Locks that were said to be lost while they were held.
    pub(crate) lost: Vec<String>,
    /// Locks that were granted while another worker held them.
    pub(crate) doubled: Vec<String>,
}

/// Record of the holder and the newest token of each shared name.
#[derive(Default)]
struct Referee {
    holders: HashMap<String, usize>,
    tokens: HashMap<String, i64>,
}

impl Load {
    /// Starts eight workers, half at each coordinator. Every other cycle is on a shared name.
    pub(crate) async fn start(site: &Site) -> Self {
        let stop = watch::Sender::new(false);
        let referee = Arc::new(Mutex::new(Referee::default()));
        let mut workers = JoinSet::new();
        for number in 0..WORKERS {
            let worker = Worker {
                number,
                session: site.session(number % 2, TTL).await,
                referee: Arc::clone(&referee),
                done: Done::default(),
            };
            workers.spawn(worker.run(stop.subscribe()));
        }
        Self { stop, workers }
    }

    /// Ends them.
    pub(crate) async fn stop(self) -> Done {
        self.stop.send_replace(true);
        let mut all = Done::default();
        for done in self.workers.join_all().await {
            all.cycles += done.cycles;
            all.longest = all.longest.max(done.longest);
            all.lost.extend(done.lost);
            all.doubled.extend(done.doubled);
            for (error, times) in done.errors {
                *all.errors.entry(error).or_default() += times;
            }
        }
        all
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let errors: usize = self.errors.values().sum();
        write!(
            f,
            "{} cycles, longest operation {:?}, {errors} errors, {} lost, {} doubled",
            self.cycles,
            self.longest,
            self.lost.len(),
            self.doubled.len()
        )?;
        for (error, times) in &self.errors {
            write!(f, "\n  {times} × {error}")?;
        }
        Ok(())
    }
}

struct Worker {
    number: usize,
    session: Session,
    referee: Arc<Mutex<Referee>>,
    done: Done,
}

impl Worker {
    async fn run(mut self, stop: watch::Receiver<bool>) -> Done {
        for turn in 0.. {
            if *stop.borrow() {
                break;
            }
            let name = if turn % 2 == 0 {
                format!("shared/{}", (turn / 2 + self.number) % SHARED)
            } else {
                format!("own/{}/{turn}", self.number)
            };
            if self.cycle(&name).await {
                self.done.cycles += 1;
            } else {
                // As a caller does that backs off.
                sleep(Duration::from_millis(20)).await;
            }
        }
        self.done
    }

    async fn cycle(&mut self, name: &str) -> bool {
        let acquire = self.session.lock(name).wait(WAIT).into_future();
        let guard = match self.bounded(acquire).await {
            Ok(guard) => guard,
            Err(error) => {
                self.note(&error);
                return false;
            }
        };
        self.granted(name, &guard);
        sleep(Duration::from_millis(1)).await;
        let is_held = guard.is_held();
        // Before the release is sent, as somebody else may have it before it is answered.
        self.ends(name);
        if !is_held {
            self.done.lost.push(name.to_owned());
        }
        match self.bounded(guard.release()).await {
            Ok(()) => true,
            Err(error) => {
                self.note(&error);
                false
            }
        }
    }

    fn granted(&mut self, name: &str, guard: &LockGuard) {
        let token = guard.fencing_token().get();
        let mut referee = self.referee.lock().unwrap();
        let before = referee.tokens.insert(name.to_owned(), token);
        assert!(before < Some(token), "{name}: {token} after {before:?}");
        if let Some(other) = referee.holders.insert(name.to_owned(), self.number) {
            panic!(
                "{name} was granted to {} while {other} held it",
                self.number
            );
        }
    }

    fn ends(&self, name: &str) {
        let mut referee = self.referee.lock().unwrap();
        if referee.holders.get(name) == Some(&self.number) {
            referee.holders.remove(name);
        }
    }

    async fn bounded<T>(&mut self, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = timeout(LIMIT, work).await.expect("nothing hangs");
        self.done.longest = self.done.longest.max(began.elapsed());
        result
    }

    fn note(&mut self, error: &dyn Error) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        *self.done.errors.entry(without_names(&text)).or_default() += 1;
    }
}

/// Leaves out what differs from one to the next.
fn without_names(text: &str) -> String {
    let parts = text.split('"').enumerate();
    let parts = parts.map(|(index, part)| if index % 2 == 1 { "…" } else { part });
    let text: String = parts.collect();
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Locks that are held throughout, spread over all nodes and both coordinators.
pub(crate) struct Holders {
    guards: Vec<LockGuard>,
    _sessions: Vec<Session>,
}

impl Holders {
    pub(crate) async fn start(site: &Site, number: usize) -> Self {
        let (mut guards, mut sessions) = (Vec::new(), Vec::new());
        for coordinator in 0..2 {
            let session = site.session(coordinator, TTL).await;
            for lock in 0..number / 2 {
                let name = format!("held/{coordinator}/{lock}");
                guards.push(session.lock(name).await.unwrap());
            }
            sessions.push(session);
        }
        Self {
            guards,
            _sessions: sessions,
        }
    }

    pub(crate) fn assert_held(&self, when: &str) {
        for guard in &self.guards {
            assert!(guard.is_held(), "{} was lost {when}", guard.name());
        }
    }
}
