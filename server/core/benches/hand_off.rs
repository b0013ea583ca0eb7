//! How the time of a hand-off grows with the number of waiters, those of a dead coordinator among them.
//!
//! `cargo bench -p leasehold-core` prints the time for each number, and how many times that of the fewest it is.

#![expect(
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark reports, and fails loudly"
)]

use std::time::{Duration, Instant};

use leasehold_core::{
    command::{Acquire, Caller, DEAD_AFTER, End, Op, Reply},
    id::{CoordinatorId, FencingToken, OwnerId},
    lock::LockState,
    name::{ClientName, Value},
    time::StoreTime,
};

/// Cycles that are timed.
const CYCLES: u64 = 20_000;
const START: StoreTime = StoreTime::from_micros(1_700_000_000_000_000);

fn main() {
    for (who, dead) in [
        ("all alive", false),
        ("all but one of a dead coordinator", true),
    ] {
        let mut least = None;
        for waiters in [10, 100, 1_000, 10_000] {
            let took = cycle(waiters, dead);
            let least = *least.get_or_insert(took);
            println!(
                "{waiters:>6} waiters, {who}: {took:>8.1?} a cycle, {:.2} times that of 10",
                took.as_secs_f64() / least.as_secs_f64()
            );
        }
    }
}

/// The time of one cycle: a release that hands the lock on, and an acquire that joins the queue.
fn cycle(waiters: u64, dead: bool) -> Duration {
    let (here, gone) = (caller("here"), caller("gone"));
    let mut lock = LockState::default();
    lock.apply(&here, &acquire(0), START);
    let living = if dead { 1 } else { waiters };
    for number in 0..waiters - living {
        lock.apply(&gone, &acquire(u64::MAX - number), START);
    }
    let now = START.after(DEAD_AFTER);
    for number in 1..=living {
        lock.apply(&here, &acquire(number), now);
    }

    let began = Instant::now();
    for holder in 0..CYCLES {
        let release = Op::Release {
            owner: owner(holder),
            end: End::Clean,
        };
        let released = lock.apply(&here, &release, now);
        let Some(handed) = released.handed else {
            panic!("nobody was handed the lock: {released:?}")
        };
        assert_eq!(handed.owner, owner(holder + 1), "in order");
        let joined = lock.apply(&here, &acquire(holder + 1 + living), now);
        let Reply::Queued { position, .. } = joined.reply else {
            panic!("it does not wait: {joined:?}")
        };
        assert_eq!(position, waiters, "at the end");
    }
    began.elapsed() / u32::try_from(CYCLES).unwrap_or(u32::MAX)
}

fn caller(coordinator: &str) -> Caller {
    Caller {
        coordinator: CoordinatorId::new(coordinator),
        floor: FencingToken::default(),
        token_memory: Duration::from_secs(7_200),
        not_after: None,
    }
}

fn acquire(number: u64) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: None,
        client_name: ClientName::default(),
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        wait: true,
    })
}

fn owner(number: u64) -> OwnerId {
    OwnerId::from_bytes(u128::from(number).to_be_bytes())
}
