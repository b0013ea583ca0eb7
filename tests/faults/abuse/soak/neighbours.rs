//! A hundred clients that behave, and measure.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold_client::{Client, FencingToken, LockGuard};
use leasehold_tests::{Latencies, load::Exclusion, stalls::Stalls};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::watch, task::JoinSet};

/// Numbers of clients with a name of their own, of clients that share names, and of clients that share each such name.
const ALONE: usize = 80;
const SHARING: usize = 20;
const SHARED_BY: usize = 5;
/// The parts of a measurement. The machine itself may stand still in one of them; an abuse disturbs most.
const PARTS: u32 = 3;
/// Time for which a client holds a lock.
const WORK: Duration = Duration::from_millis(2);

/// Latencies of one measurement.
pub(crate) struct Measured {
    /// From the wish for a free lock until it is held, and from the wish to be rid of it until it is given back.
    pub(crate) own: Latencies,
    /// The same where others want the lock as well: their work is in it.
    pub(crate) shared: Latencies,
    /// The longest that the machine stood still.
    pub(crate) stall: Duration,
    /// Everything that went wrong.
    pub(crate) wrong: Vec<String>,
}

impl Measured {
    fn new(when: &str) -> Self {
        Self {
            own: Latencies::new(format!("{when}: own names")),
            shared: Latencies::new(format!("{when}: shared names")),
            stall: Duration::ZERO,
            wrong: Vec::new(),
        }
    }

    /// Adds another measurement.
    pub(crate) fn add(&mut self, other: Self) {
        self.own.add(&other.own);
        self.shared.add(&other.shared);
        self.wrong.extend(other.wrong);
    }
}

/// The clients. Each also keeps one lock for as long as it lives.
pub(crate) struct Neighbours {
    measured: Arc<Mutex<Measured>>,
    stop: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl Neighbours {
    pub(crate) async fn start(endpoint: &str) -> Self {
        let measured = Arc::new(Mutex::new(Measured::new("start")));
        let stop = watch::Sender::new(false);
        let mut clients = JoinSet::new();
        let shared = |number| Arc::new(Exclusion::new(format!("shared/{number}")));
        let shared: Vec<_> = (0..SHARING / SHARED_BY).map(shared).collect();
        for number in 0..ALONE + SHARING {
            let name = match number.checked_sub(ALONE) {
                None => Arc::new(Exclusion::new(format!("own/{number}"))),
                Some(place) => Arc::clone(&shared[place / SHARED_BY]),
            };
            let client = Client::connect(endpoint).await.unwrap();
            let kept = client.lock(format!("kept/{number}")).await.unwrap();
            let neighbour = Neighbour {
                number,
                name,
                token: kept.fencing_token(),
                kept,
                client,
                measured: Arc::clone(&measured),
            };
            clients.spawn(neighbour.live(stop.subscribe()));
        }
        Self {
            measured,
            stop,
            clients,
        }
    }

    /// Measures for a while.
    pub(crate) async fn measure(&self, when: &str, time: Duration) -> Measured {
        *self.measured.lock().unwrap() = Measured::new(when);
        let stalls = Stalls::watch();
        tokio::time::sleep(time).await;
        let between = Measured::new("between");
        let measured = std::mem::replace(&mut *self.measured.lock().unwrap(), between);
        Measured {
            stall: stalls.worst(),
            ..measured
        }
    }

    /// Measures for a while, in [`PARTS`] parts of equal length.
    pub(crate) async fn measure_in_parts(&self, when: &str, time: Duration) -> Vec<Measured> {
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            parts.push(self.measure(when, time / PARTS).await);
        }
        parts
    }

    /// Ends them. Checks that they still have the locks that they keep.
    pub(crate) async fn stop(self) -> Vec<String> {
        self.stop.send_replace(true);
        self.clients.join_all().await;
        std::mem::take(&mut self.measured.lock().unwrap().wrong)
    }
}

struct Neighbour {
    number: usize,
    name: Arc<Exclusion>,
    client: Client,
    kept: LockGuard,
    token: FencingToken,
    measured: Arc<Mutex<Measured>>,
}

impl Neighbour {
    async fn live(self, mut stop: watch::Receiver<bool>) {
        let lost = self.kept.lost();
        let mut chance = StdRng::seed_from_u64(self.number as u64);
        let work = async {
            while !*stop.borrow() {
                self.cycle().await;
                // In no step with the others.
                let rest = chance.random_range(200..600);
                let rest = tokio::time::sleep(Duration::from_millis(rest));
                tokio::select! {
                    () = rest => {}
                    _ = stop.changed() => {}
                }
            }
        };
        tokio::select! {
            () = work => {}
            reason = lost => self.wrong(format!("lost what it keeps: {reason:?}")),
        }
        if self.kept.fencing_token() != self.token || self.kept.release().await.is_err() {
            let wrong = format!(
                "client {}: what it kept was not its own at the end",
                self.number
            );
            self.measured.lock().unwrap().wrong.push(wrong);
        }
        self.client.close().await;
    }

    async fn cycle(&self) {
        let is_shared = self.number >= ALONE;
        let asked = Instant::now();
        let guard = match self.client.lock(Arc::clone(self.name.name())).await {
            Ok(guard) => guard,
            Err(error) => return self.wrong(format!("was not granted: {error}")),
        };
        self.note(is_shared, asked);
        let (token, watch) = (Some(guard.fencing_token().get()), guard.watch());
        let is_held = move || watch.is_held();
        if let Err(violation) = self.name.granted(token, is_held, Instant::now()) {
            self.wrong(violation.to_string());
        }
        tokio::time::sleep(WORK).await;
        if !guard.is_held() {
            self.wrong("lost what it worked with".to_owned());
        }
        let asked = Instant::now();
        self.name.released(token, asked);
        if let Err(error) = guard.release().await {
            return self.wrong(format!("could not give back: {error}"));
        }
        self.note(is_shared, asked);
    }

    fn note(&self, is_shared: bool, since: Instant) {
        let mut measured = self.measured.lock().unwrap();
        let latencies = if is_shared {
            &mut measured.shared
        } else {
            &mut measured.own
        };
        latencies.record(since.elapsed());
    }

    fn wrong(&self, what: String) {
        let what = format!("client {}: {what}", self.number);
        self.measured.lock().unwrap().wrong.push(what);
    }
}
