//! Locks of the workload: their names, modes, and how long each is held.

use std::time::Duration;

use rand::{Rng, rngs::StdRng};

/// Locks that are only ever held exclusively. Each protects a register.
const EXCLUSIVE: u32 = 4;
/// Locks that are held shared and exclusively.
const MIXED: u32 = 2;
/// Semaphores.
const SEMAPHORES: u32 = 2;
/// Locks that hand-written lockers take too, by the same key. They are held exclusively.
const BESIDE: u32 = 2;
/// Permits of each semaphore.
pub const LIMIT: u32 = 4;

/// Longest wait of a hand-written locker: it has no queue, and nobody wakes it.
const FOREIGN_WAIT: Duration = Duration::from_secs(10);

/// One cycle of a client.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// The lock's name.
    pub lock: String,
    /// Its request.
    pub mode: Mode,
    /// The longest wait; none waits without end.
    pub wait: Option<Duration>,
    /// Time after which the client gives up by itself.
    pub give_up: Option<Duration>,
    /// Lock-delay that it asks for.
    pub lock_delay: Duration,
    /// Time for which it holds the lock.
    pub hold: Duration,
    /// Pause after it.
    pub pause: Duration,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The lock alone.
    Exclusive,
    /// The lock together with others.
    Shared,
    /// So many permits.
    Permits(u32),
}

impl Cycle {
    /// Draws a cycle. A quorum has exclusive locks alone.
    pub fn draw(random: &mut StdRng, quorum: bool) -> Self {
        let kinds = if quorum { 5 } else { 11 };
        let (lock, mode) = match random.random_range(0..kinds) {
            0..5 => {
                let number = random.random_range(0..EXCLUSIVE);
                (format!("torture/exclusive/{number}"), Mode::Exclusive)
            }
            5..8 => {
                let number = random.random_range(0..MIXED);
                let shared = random.random_bool(0.7);
                let mode = if shared {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                };
                (format!("torture/mixed/{number}"), mode)
            }
            10 => (beside(random), Mode::Exclusive),
            _ => {
                let number = random.random_range(0..SEMAPHORES);
                let permits = random.random_range(1..LIMIT);
                (format!("torture/permits/{number}"), Mode::Permits(permits))
            }
        };
        let millis =
            |random: &mut StdRng, from, to| Duration::from_millis(random.random_range(from..to));
        let wait = match random.random_range(0..10) {
            0 => Some(Duration::ZERO),
            1..4 => Some(millis(random, 50, 20_000)),
            _ => None,
        };
        let give_up = random.random_bool(0.05);
        let delayed = random.random_bool(0.1);
        let long = random.random_bool(0.05);
        Self {
            lock,
            mode,
            wait,
            give_up: give_up.then(|| millis(random, 1, 3000)),
            lock_delay: if delayed {
                millis(random, 100, 500)
            } else {
                Duration::ZERO
            },
            hold: if long {
                millis(random, 1000, 6000)
            } else {
                millis(random, 1, 300)
            },
            pause: millis(random, 0, 200),
        }
    }

    /// Draws a cycle of a hand-written locker: of a key of its own, or of Leasehold's for one of these locks.
    pub fn draw_foreign(random: &mut StdRng) -> Self {
        let mut cycle = Self::draw(random, true);
        cycle.lock = if random.random_bool(0.5) {
            format!("own:job/{}", random.random_range(0..EXCLUSIVE))
        } else {
            beside(random)
        };
        cycle.wait = Some(cycle.wait.unwrap_or(FOREIGN_WAIT));
        cycle.give_up = None;
        cycle
    }

    /// Returns the lock's key in Redis.
    pub fn key(&self) -> String {
        match self.is_foreign() {
            true => self.lock.clone(),
            false => format!("lock:{}", self.lock),
        }
    }

    /// Returns whether the lock is none of Leasehold's.
    pub fn is_foreign(&self) -> bool {
        self.lock.starts_with("own:")
    }

    /// Returns whether a register belongs to the lock: if it is only ever held exclusively, and each hold has a token.
    pub fn has_register(&self) -> bool {
        self.lock.starts_with("torture/exclusive/") || self.is_foreign()
    }
}

/// Draws a lock that only coordinators know.
pub fn any(random: &mut StdRng) -> String {
    match random.random_range(0..EXCLUSIVE + MIXED + SEMAPHORES) {
        number @ 0..EXCLUSIVE => format!("torture/exclusive/{number}"),
        number if number < EXCLUSIVE + MIXED => format!("torture/mixed/{}", number - EXCLUSIVE),
        number => format!("torture/permits/{}", number - EXCLUSIVE - MIXED),
    }
}

fn beside(random: &mut StdRng) -> String {
    format!("torture/beside/{}", random.random_range(0..BESIDE))
}
