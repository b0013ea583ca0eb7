//! Random operations, and their callers.

use std::{ops::Range, sync::Arc, time::Duration};

use leasehold_core::{
    command::{Acquire, Caller, End, One, Op, ReleaseRequest, Resume},
    id::{
        Actor, CoordinatorId, FeedId, FencingToken, OwnerId, ReleaseRequestId, SessionId,
        WaiterNumber,
    },
    mode::{Mode, Permits},
    name::{ClientName, ReleaseReason, Value},
    time::StoreTime,
    view::{HolderView, NameView},
};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

/// Coordinators that take part.
const COORDINATORS: usize = 3;
/// Owner ids that take part at a time.
const OWNERS: u8 = 8;
/// The limit that nearly all agree on, and another.
const LIMIT: u32 = 4;
const OTHER_LIMIT: u32 = 3;
/// The greatest revision of a limit: the limit changes up and down as long as there are greater ones, and a force release begins
/// anew.
const MOST_REVISIONS: u32 = 40;
/// Time for which most callers have tokens remembered: longer than any TTL and lock-delay together, so that no record ends before
/// its hold.
const TOKEN_MEMORY: Duration = Duration::from_millis(6_186);
/// The same, of others.
const LONGER_MEMORY: Range<u64> = 6_700..12_800;
/// The same, of those whose tokens run ahead of the clock.
const SHORT_MEMORY: Range<u64> = 5_000..8_000;
/// TTLs, lock-delays, and bounds of holds, in milliseconds.
const TTL: Range<u64> = 200..1_300;
const LOCK_DELAY: Range<u64> = 200..750;
const MAX_HOLD: Range<u64> = 200..12_800;

/// Returns an operation, often on one of these holders or waiters, who look like this. Looks are for the feed.
pub(crate) fn op(random: &mut StdRng, known: &[OwnerId], view: &NameView, feed: FeedId) -> Op {
    let owner = match known.choose(random) {
        Some(known) if random.random_bool(0.4) => *known,
        _ => owner(random),
    };
    match random.random_range(0..131) {
        0..38 => Op::Acquire(acquire(random, owner)),
        38..51 => Op::Renew {
            owner,
            token: match one(random, view) {
                One::Holder(token) if random.random_bool(0.5) => Some(token),
                _ => None,
            },
            ttl: millis(random, TTL),
        },
        51..71 => Op::Release {
            owner,
            end: *[End::Clean, End::Plain, End::Unclean]
                .choose(random)
                .unwrap(),
        },
        71..82 => Op::Refresh {
            oldest: random.random_bool(0.7).then_some(owner),
        },
        82..84 => Op::ForceRelease,
        84..87 => Op::SetValue {
            owner,
            value: value(random),
        },
        87..90 => Op::SetCount {
            owner,
            count: random.random_range(1..=u32::MAX),
        },
        90..94 => Op::Downgrade { owner },
        94..96 => Op::Edges,
        96..98 => Op::Look { feed },
        98..110 => Op::Resume(resume(random, known)),
        110..115 => Op::ForceReleaseOne(one(random, view)),
        115..126 => Op::Reduce {
            owner,
            permits: *[1, 1, 1, 2, 3].choose(random).unwrap(),
        },
        126..129 => Op::RequestRelease {
            only: match one(random, view) {
                One::Holder(token) if random.random_bool(0.5) => Some(token),
                _ => None,
            },
            request: Arc::new(request(random)),
        },
        _ => Op::View {
            waiters: *[0, 1, 3, 100].choose(random).unwrap(),
            value_bytes: *[0, 1, 2, 4_096].choose(random).unwrap(),
        },
    }
}

/// Returns a holder or waiter, often one that is there.
fn one(random: &mut StdRng, view: &NameView) -> One {
    let tokens = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(One::Holder(hold.token)),
        HolderView::Foreign { .. } => None,
    });
    let waiters = view.waiters.iter();
    let numbers = waiters.map(|waiter| One::Waiter(waiter.number));
    let known: Vec<One> = tokens.chain(numbers).collect();
    match known.choose(random) {
        Some(one) if random.random_bool(0.9) => *one,
        _ if random.random_bool(0.5) => One::Holder(FencingToken::new(i64::MAX)),
        _ => One::Waiter(WaiterNumber::new(
            *[1, 1 << 53, u64::MAX].choose(random).unwrap(),
        )),
    }
}

fn request(random: &mut StdRng) -> ReleaseRequest {
    let reason = ["", "maintenance", "узел уходит"].choose(random).unwrap();
    ReleaseRequest {
        id: ReleaseRequestId::new(random.random()),
        reason: ReleaseReason::parse(reason).unwrap(),
        within: random.random_bool(0.5).then_some(Duration::from_secs(30)),
    }
}

fn acquire(random: &mut StdRng, owner: OwnerId) -> Acquire {
    Acquire {
        owner,
        session: random
            .random_bool(0.7)
            .then(|| SessionId::from_bytes(random.random())),
        actor: Actor::new(*[0, 1, u64::MAX, 1 << 53 | 1].choose(random).unwrap()),
        client_name: ClientName::parse(["", "worker", "ключ"].choose(random).unwrap()).unwrap(),
        mode: mode(random),
        value: value(random),
        ttl: millis(random, TTL),
        lock_delay: match random.random_bool(0.5) {
            true => millis(random, LOCK_DELAY),
            false => Duration::ZERO,
        },
        max_hold: random.random_bool(0.2).then(|| millis(random, MAX_HOLD)),
        wait: random.random_bool(0.65),
        again: random.random_bool(0.15),
    }
}

/// Returns a resume, mostly under a new owner id, of a session that may have resumed something before.
fn resume(random: &mut StdRng, known: &[OwnerId]) -> Resume {
    let some = |random: &mut StdRng| match known.choose(random) {
        Some(known) if random.random_bool(0.8) => *known,
        _ => owner(random),
    };
    let from = (0..random.random_range(1..4)).map(|_| some(random));
    let from = from.collect();
    Resume {
        from,
        next: match random.random_bool(0.75) {
            true => OwnerId::from_bytes(random.random()),
            false => some(random),
        },
        session: random
            .random_bool(0.8)
            .then(|| SessionId::from_bytes([random.random_range(0..2); 16])),
        client_name: ClientName::parse(["", "heir", "ключ"].choose(random).unwrap()).unwrap(),
        ttl: millis(random, TTL),
        count: *[0, 1, 1, 2, u32::MAX].choose(random).unwrap(),
        max_hold: random.random_bool(0.2).then(|| millis(random, MAX_HOLD)),
    }
}

fn mode(random: &mut StdRng) -> Mode {
    match random.random_range(0..100) {
        0..30 => Mode::Exclusive,
        30..65 => Mode::Shared,
        _ => {
            let limit = match random.random_range(0..10) {
                0 => OTHER_LIMIT,
                _ => LIMIT,
            };
            let revision = match random.random_range(0..8) {
                0 => random.random_range(1..=MOST_REVISIONS),
                _ => 0,
            };
            // All agree on the limit of a revision; some are larger, some smaller.
            let limit = match revision {
                0 => limit,
                odd if odd % 2 == 1 => 5,
                _ => 2,
            };
            let number = *[1, 1, 1, 2, limit].choose(random).unwrap();
            let permits = Permits::new(number, limit).unwrap();
            // Now and then what is left, which is nothing else if all that are asked for are needed.
            let least = match random.random_range(0..4) {
                0 => random.random_range(1..=number),
                _ => 0,
            };
            Mode::Semaphore(permits.of_revision(revision).or_at_least(least))
        }
    }
}

/// Returns an owner id: sometimes a former one, as after a lost reply; with raw bytes of every kind.
fn owner(random: &mut StdRng) -> OwnerId {
    let number = random.random_range(0..OWNERS);
    let mut bytes = [number.wrapping_mul(37); 16];
    bytes[0] = number;
    OwnerId::from_bytes(bytes)
}

/// Returns a caller, often one that other histories have too, so that commands on several locks are carried out together; it
/// comes in time, and the clock is ahead of its floor. Otherwise one with arbitrary terms. `now` is the server's clock.
pub(crate) fn caller(random: &mut StdRng, now: StoreTime) -> Caller {
    let coordinator = coordinator(random);
    if random.random_bool(0.7) {
        return Caller {
            coordinator,
            floor: FencingToken::new(0),
            token_memory: TOKEN_MEMORY,
            not_after: None,
        };
    }
    Caller {
        coordinator,
        floor: FencingToken::new(floor(random, now)),
        token_memory: millis(random, LONGER_MEMORY),
        not_after: Some(not_after(random, now)),
    }
}

/// Returns a deadline, mostly in good time, now and then too late. No two are the same.
fn not_after(random: &mut StdRng, now: StoreTime) -> StoreTime {
    match random.random_range(0..12) {
        0 => now.before(Duration::from_secs(1)),
        _ => now.after(Duration::from_micros(
            random.random_range(60_000_000..90_000_000),
        )),
    }
}

/// Returns a floor, mostly none; now and then ahead of the server's clock, as after its data were lost.
fn floor(random: &mut StdRng, now: StoreTime) -> i64 {
    match random.random_range(0..12) {
        0 => now.as_micros() + random.random_range(0..5_000_000),
        1 => 9_007_199_254_740_000,
        _ => 0,
    }
}

/// Returns a caller with a memory and a floor of its own.
pub(crate) fn caller_ahead(random: &mut StdRng, now: StoreTime) -> Caller {
    let floor = match random.random_range(0..10) {
        0 => now.as_micros() + random.random_range(0..20_000_000),
        1 => now.as_micros() + 23 * 3_600_000_000,
        2 => 9_007_199_254_740_000,
        _ => 0,
    };
    let token_memory = match random.random_range(0..4) {
        0 => Duration::from_secs(60),
        _ => millis(random, SHORT_MEMORY),
    };
    Caller {
        coordinator: coordinator(random),
        floor: FencingToken::new(floor),
        token_memory,
        not_after: Some(now.after(Duration::from_secs(60))),
    }
}

fn coordinator(random: &mut StdRng) -> CoordinatorId {
    CoordinatorId::new(&format!("c{}", random.random_range(0..COORDINATORS)))
}

/// Returns a time in whole milliseconds, as clients and the server's clock have them.
fn millis(random: &mut StdRng, range: Range<u64>) -> Duration {
    Duration::from_millis(random.random_range(range))
}

fn value(random: &mut StdRng) -> Value {
    let length = *[0, 1, 40, 4096].choose(random).unwrap();
    let part: [u8; 32] = random.random();
    let mut bytes = part.repeat(4096 / part.len());
    bytes.truncate(length);
    Value::parse(&bytes).unwrap()
}
