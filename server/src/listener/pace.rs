//! Fairness between connections while the coordinator is busy.
//!
//! A connection that floods has as much to do as all the others together, and they wait behind it. So a monitor looks how late
//! tasks get to run. While that is too late, connections that read much more than most do are read from more slowly: what they
//! send waits in their own sockets. Where all read about as much, or nobody waits, nothing is held up.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::Connections;

/// How often the monitor looks whether tasks run in time, and after how many looks it decides.
const PROBE: Duration = Duration::from_millis(10);
const PROBES: u32 = 10;
/// How late tasks may run on average. A timer alone is late by up to two milliseconds.
const LATE: Duration = Duration::from_millis(5);
/// How much of what is known of a connection's rate is from the last period; the rest is older.
const NEWEST: f64 = 0.1;
/// A connection below this many bytes a second is idle.
const IDLE: f64 = 30.0;
/// How many times what the connection in the middle reads any other may read while the coordinator is busy.
const MORE: f64 = 2.0;
/// Bytes a second that every connection may have read, whatever the others do.
const LEAST: f64 = 1000.0;
/// By how much the share grows in each period in which tasks ran in time.
const GROWTH: f64 = 1.03;
/// For how long a connection's share may come at once.
const BURST: Duration = Duration::from_millis(500);
/// For how long the coordinator counts as busy at least, and at most, after it was; doubled each time that it is again soon.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);

/// What connections may have read while the coordinator is busy. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Bytes a second for each session of a connection; 0 while nobody is held up.
    share: AtomicU64,
    busy_until: RwLock<Option<Instant>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self(Arc::new(Shared {
            share: AtomicU64::new(0),
            busy_until: RwLock::new(None),
        }))
    }
}

impl Pace {
    /// Bytes a second for each session of a connection, if anybody is held up.
    pub(super) fn share(&self) -> Option<u64> {
        match self.0.share.load(Ordering::Relaxed) {
            0 => None,
            share => Some(share),
        }
    }

    /// Whether the coordinator has been busy of late.
    pub(super) fn is_busy(&self) -> bool {
        let busy_until = self.0.busy_until.read();
        let busy_until = *busy_until.unwrap_or_else(PoisonError::into_inner);
        busy_until.is_some_and(|until| Instant::now() < until)
    }
}

/// One connection's use of its share.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// When what was read would have been read at the rate of the share.
    paid_at: Option<Instant>,
}

impl Turn {
    /// How much may be read now, at a share of so many bytes a second; the error is when to come again.
    pub(super) fn room(&self, share: u64) -> Result<usize, Instant> {
        let now = Instant::now();
        let ahead = self.paid_at.map_or(Duration::ZERO, |paid_at| {
            paid_at.saturating_duration_since(now)
        });
        match BURST.checked_sub(ahead) {
            Some(left) if left > BURST / 8 => {
                let room = left.as_secs_f64() * share as f64;
                Ok((room as usize).max(1))
            }
            // Not for every byte: when a quarter of it may come at once.
            _ => Err(now + ahead - BURST * 3 / 4),
        }
    }

    /// Notes what was read.
    pub(super) fn spend(&mut self, bytes: usize, share: u64) {
        let now = Instant::now();
        let from = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        let time = Duration::from_secs_f64(bytes as f64 / share as f64);
        self.paid_at = Some(from + time);
    }
}

/// Watches over the pace of all connections. It ends when it is dropped.
pub(super) async fn keep(connections: Connections) {
    let pace = connections.pace().clone();
    let mut share = None;
    let (mut hold, mut ended) = (SHORTEST, None::<Instant>);
    loop {
        let (late, period) = lateness().await;
        let is_late = late > LATE;
        let mut rates = connections.rates(period, NEWEST);
        rates.retain(|rate| *rate > IDLE);
        share = next_share(share, is_late, rates);
        pace.0
            .share
            .store(share.map_or(0, |share| share as u64), Ordering::Relaxed);
        let now = Instant::now();
        if is_late {
            if !pace.is_busy() {
                let soon = ended.is_some_and(|ended| now < ended + LONGEST);
                hold = if soon {
                    (hold * 2).min(LONGEST)
                } else {
                    SHORTEST
                };
                tracing::info!(
                    ?late,
                    share = pace.share(),
                    "busy: connections that ask for more than their share of bytes a second are read from more slowly"
                );
            }
            ended = Some(now + hold);
            let busy_until = pace.0.busy_until.write();
            let mut busy_until = busy_until.unwrap_or_else(PoisonError::into_inner);
            *busy_until = ended;
        }
    }
}

/// How late tasks run, on average over some probes, and how long those took.
async fn lateness() -> (Duration, Duration) {
    let began = Instant::now();
    for _ in 0..PROBES {
        sleep(PROBE).await;
    }
    let period = began.elapsed();
    (period.saturating_sub(PROBE * PROBES) / PROBES, period)
}

/// The share from now on, by the rates of those that are not idle.
fn next_share(share: Option<f64>, is_late: bool, mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_unstable_by(f64::total_cmp);
    let most = rates.last().copied().unwrap_or_default();
    let middle = rates.get(rates.len() / 2).copied().unwrap_or_default();
    if is_late {
        return Some((middle * MORE).max(LEAST));
    }
    share
        .map(|share| share * GROWTH)
        // It holds nobody up any more.
        .filter(|share| *share < 2.0 * most.max(LEAST))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn who_reads_much_more_than_most_is_held_up_and_let_go_slowly() {
        let mut flood = vec![600.0; 100];
        flood.extend([1e6; 40]);
        let share = next_share(None, true, flood.clone()).unwrap();
        assert!((1000.0..=1200.0).contains(&share), "{share}");
        let later = next_share(Some(share), false, flood.clone()).unwrap();
        assert!(later > share && later < share * 1.1, "{later}");
        let calm = vec![600.0; 100];
        assert_eq!(next_share(Some(5000.0), false, calm), None);
        assert_eq!(next_share(None, false, flood), None);
    }

    #[test]
    fn nobody_is_held_up_where_all_read_about_as_much() {
        let busy: Vec<f64> = (0..64)
            .map(|number| 1e6 + f64::from(number) * 1e3)
            .collect();
        let share = next_share(None, true, busy.clone()).unwrap();
        assert!(busy.iter().all(|rate| *rate < share), "{share}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_reads_its_share_and_may_save_up_for_a_burst() {
        let mut turn = Turn::default();
        let began = Instant::now();
        let mut read = 0;
        while began.elapsed() < Duration::from_secs(10) {
            match turn.room(2000) {
                Ok(room) => {
                    turn.spend(room, 2000);
                    read += room;
                }
                Err(at) => tokio::time::sleep_until(at).await,
            }
        }
        assert!((20_000..=21_500).contains(&read), "{read}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(turn.room(2000), Ok(1000), "and no more");
    }
}
