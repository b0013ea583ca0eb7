//! Fairness: how often each of many clients gets the lock that all of them want all the time.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold_client::Client;
use leasehold_tests::{Site, report};
use tokio::task::JoinSet;

use super::pollers::{self, Pause};

pub(crate) const NAME: &str = "fair";
pub(crate) const CLIENTS: usize = 48;
pub(crate) const HOLD: Duration = Duration::from_millis(10);
const LENGTH: Duration = Duration::from_secs(10);
/// Everybody has had so many turns at least, or the figures say nothing.
const ROUNDS: u64 = 3;
/// The unluckiest poller waits at least so many times as long as the unluckiest in a queue.
const STARVED: u32 = 2;

/// The time in which grants are counted, from its opening on. It ends with the first grant after its length, for all
/// clients at once: since grants of one name come one after the other, those that count are the first so many, and no
/// client's count depends on when it looked at a clock.
pub(crate) struct Window {
    state: Mutex<State>,
}

struct State {
    ends: Option<Instant>,
    over: bool,
    held: bool,
    newest_token: i64,
    counts: [u64; CLIENTS],
    longest_wait: Duration,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                ends: None,
                over: false,
                held: false,
                newest_token: 0,
                counts: [0; CLIENTS],
                longest_wait: Duration::ZERO,
            }),
        }
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().ends = Some(Instant::now() + LENGTH);
    }

    /// Notes a grant, after a wait of so long; false once the window is over.
    pub(crate) fn granted(&self, client: usize, token: Option<i64>, waited: Duration) -> bool {
        let mut state = self.state.lock().unwrap();
        assert!(!state.held, "granted to two at a time");
        if let Some(token) = token {
            assert!(token > state.newest_token, "tokens rise");
            state.newest_token = token;
        }
        state.over |= Instant::now() >= state.ends.expect("the window is open");
        if state.over {
            return false;
        }
        state.held = true;
        state.counts[client] += 1;
        state.longest_wait = state.longest_wait.max(waited);
        true
    }

    /// Notes that a release is about to be sent.
    pub(crate) fn releasing(&self) {
        self.state.lock().unwrap().held = false;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().unwrap().over
    }

    fn least_and_most(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        let least = state.counts.iter().min().copied();
        let most = state.counts.iter().max().copied();
        (least.unwrap_or(0), most.unwrap_or(0))
    }

    /// Returns the longest of the waits that ended with a grant.
    fn longest_wait(&self) -> Duration {
        self.state.lock().unwrap().longest_wait
    }

    fn row(&self, what: &str) -> String {
        let (least, most) = self.least_and_most();
        let state = self.state.lock().unwrap();
        let total: u64 = state.counts.iter().sum();
        let wait = state.longest_wait;
        format!("{what:<36}{total:>8}{least:>8}{most:>8}{wait:>16.1?}")
    }
}

/// Has clients compete through coordinators, each client with a connection of its own.
async fn compete(coordinators: usize) -> Arc<Window> {
    let site = Site::redis(coordinators).await;
    let mut gate = site.session(0).await;
    let held = gate.acquire(NAME).await;
    let window = Arc::new(Window::new());
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        let connected = Client::connect(site.endpoint(client)).await.unwrap();
        tasks.spawn(use_it(client, connected, Arc::clone(&window)));
    }
    // The first round is not a race to connect.
    site.waiting(0, NAME, CLIENTS as u64).await;
    window.open();
    assert!(gate.release(&held.lock).await);
    tasks.join_all().await;
    gate.close().await;
    site.nothing_is_left().await;
    window
}

/// Takes the lock, holds it for a moment and wants it again, as long as the window is open.
async fn use_it(client: usize, connected: Client, window: Arc<Window>) {
    loop {
        let wanted_at = Instant::now();
        let guard = connected.lock(NAME).await.unwrap();
        let token = guard.fencing_token().get();
        let counts = window.granted(client, Some(token), wanted_at.elapsed());
        if counts {
            tokio::time::sleep(HOLD).await;
            assert!(guard.is_held());
            window.releasing();
        }
        guard.release().await.unwrap();
        if !counts {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_09_clients_of_a_queue_get_the_lock_equally_often_and_pollers_starve() {
    // Each on a Redis of its own. All of them sleep nearly all of the time, so they run side by side.
    let (one, two, fixed, random) = tokio::join!(
        compete(1),
        compete(2),
        pollers::compete(Pause::Fixed),
        pollers::compete(Pause::Random),
    );
    let mut table = format!(
        "{CLIENTS} clients, held for {HOLD:?}, {LENGTH:?}       acquires   least    most    longest wait"
    );
    for (window, what) in [
        (&one, "Leasehold, one coordinator"),
        (&two, "Leasehold, two coordinators"),
        (&fixed, "polling every 50 ms"),
        (&random, "polling at random, up to 50 ms"),
    ] {
        write!(table, "\n  {}", window.row(what)).unwrap();
    }
    report(table);
    for window in [&one, &two] {
        let (least, most) = window.least_and_most();
        assert!(most - least <= 1, "from {least} to {most}");
        assert!(least >= ROUNDS, "only {least} turns each");
    }
    let queued = one.longest_wait().max(two.longest_wait());
    for window in [fixed, random] {
        let unluckiest = window.longest_wait();
        assert!(
            unluckiest >= queued * STARVED,
            "the unluckiest poller waited {unluckiest:?}, the unluckiest in a queue {queued:?}"
        );
    }
}
