//! Benchmark of a hand-off by the number of waiters, those of a dead coordinator included, and by the number of
//! shared holders.
//!
//! `cargo bench -p leasehold-core` prints the time for each number, and how many times that of the fewest it is.

#![expect(
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark reports, and fails loudly"
)]

use std::time::{Duration, Instant};

use leasehold_core::{
    command::{Acquire, Caller, DEAD_AFTER, End, Executed, Op, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId},
    lock::LockState,
    mode::{Mode, Permits},
    name::{ClientName, Value},
    time::StoreTime,
};

/// Cycles that are timed.
const CYCLES: u64 = 20_000;
const START: StoreTime = StoreTime::from_micros(1_700_000_000_000_000);

fn main() {
    report("waiters, all alive", |waiters| {
        hand_offs(waiters, Mode::Exclusive, 1, false)
    });
    report("waiters, all but one of a dead coordinator", |waiters| {
        hand_offs(waiters, Mode::Exclusive, 1, true)
    });
    report("waiters for one of 100 permits", |waiters| {
        hand_offs(waiters, permit_of(100), 100, false)
    });
    report("holders of as many permits, one waits", |holders| {
        hand_offs(1, permit_of(holders), holders, false)
    });
    report("readers, one goes and one comes", readers_come_and_go);
    report(
        "readers between two writers, for each of them",
        readers_between_writers,
    );
}

/// Prints what a cycle takes among so many.
fn report(who: &str, cycle: impl Fn(u64) -> Duration) {
    let mut least = None;
    for number in [10, 100, 1_000, 10_000] {
        let took = cycle(number);
        let least = *least.get_or_insert(took);
        println!(
            "{number:>6} {who}: {took:>8.1?} a cycle, {:.2} times that of 10",
            took.as_secs_f64() / least.as_secs_f64()
        );
    }
}

/// Returns the time of one cycle: a release that hands the lock on, and an acquire that joins the queue. All callers want the
/// same mode, of which there is enough for this number of holders.
fn hand_offs(waiters: u64, mode: Mode, holders: u64, dead: bool) -> Duration {
    let (here, gone) = (caller("here"), caller("gone"));
    let mut lock = LockState::default();
    for number in 0..holders {
        lock.apply(&here, &acquire(number, mode), START);
    }
    let living = if dead { 1 } else { waiters };
    for number in 0..waiters - living {
        lock.apply(&gone, &acquire(u64::MAX - number, mode), START);
    }
    let now = START.after(DEAD_AFTER);
    for number in 0..living {
        lock.apply(&here, &acquire(holders + number, mode), now);
    }

    let began = Instant::now();
    for holder in 0..CYCLES {
        let released = lock.apply(&here, &release(holder), now);
        let [handed] = &released.handed[..] else {
            panic!("not one was handed the lock: {released:?}")
        };
        assert_eq!(handed.owner, owner(holder + holders), "in order");
        let next = acquire(holder + holders + living, mode);
        let joined = lock.apply(&here, &next, now);
        let Reply::Queued { position, .. } = joined.reply else {
            panic!("it does not wait: {joined:?}")
        };
        assert_eq!(position, waiters, "at the end");
    }
    each(began.elapsed(), CYCLES)
}

/// Returns the time of one cycle: one of many readers releases, and another is granted the lock at once.
fn readers_come_and_go(readers: u64) -> Duration {
    let here = caller("here");
    let mut lock = LockState::default();
    for number in 0..readers {
        lock.apply(&here, &acquire(number, Mode::Shared), START);
    }
    let began = Instant::now();
    for reader in 0..CYCLES {
        lock.apply(&here, &release(reader), START);
        let came = lock.apply(&here, &acquire(reader + readers, Mode::Shared), START);
        assert!(matches!(came.reply, Reply::Granted { .. }), "{came:?}");
    }
    each(began.elapsed(), CYCLES)
}

/// Returns the time of one cycle for each reader. In a cycle a writer releases, all waiting readers are granted the lock, as
/// many at once as one command grants, others queue behind the next writer, and all readers release.
fn readers_between_writers(readers: u64) -> Duration {
    let here = caller("here");
    let mut lock = LockState::default();
    let queue = |lock: &mut LockState, from: u64| {
        lock.apply(&here, &acquire(from, Mode::Exclusive), START);
        for number in from + 1..=from + readers {
            lock.apply(&here, &acquire(number, Mode::Shared), START);
        }
    };
    let refresh = Op::Refresh { oldest: None };
    queue(&mut lock, 0);
    let cycles = (CYCLES / readers).max(2);
    let began = Instant::now();
    for cycle in 0..cycles {
        let writer = cycle * (readers + 1);
        queue(&mut lock, writer + readers + 1);
        let mut executed = lock.apply(&here, &release(writer), START);
        let mut came = executed.handed.len();
        while executed.more {
            executed = lock.apply(&here, &refresh, START);
            came += executed.handed.len();
        }
        assert_eq!(came as u64, readers, "all of them, and nobody else");
        let mut last = None::<Executed>;
        for number in writer + 1..=writer + readers {
            last = Some(lock.apply(&here, &release(number), START));
        }
        let handed = last.map(|last| last.handed.len());
        assert_eq!(handed, Some(1), "to the next writer");
    }
    each(began.elapsed(), cycles * readers)
}

fn each(all: Duration, number: u64) -> Duration {
    all / u32::try_from(number).unwrap_or(u32::MAX)
}

fn caller(coordinator: &str) -> Caller {
    Caller {
        coordinator: CoordinatorId::new(coordinator),
        floor: FencingToken::default(),
        token_memory: Duration::from_secs(7_200),
        not_after: None,
    }
}

fn permit_of(limit: u64) -> Mode {
    let permits = u32::try_from(limit).map(|limit| Permits::new(1, limit));
    match permits {
        Ok(Ok(permits)) => Mode::Semaphore(permits),
        _ => panic!("no semaphore has {limit} permits"),
    }
}

fn acquire(number: u64, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: None,
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode,
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    })
}

fn release(number: u64) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

fn owner(number: u64) -> OwnerId {
    OwnerId::from_bytes(u128::from(number).to_be_bytes())
}
