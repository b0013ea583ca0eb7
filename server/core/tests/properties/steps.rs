//! Random steps: what somebody asks for, and how time passes in between.

use std::time::Duration;

use leasehold_core::command::{CLAIM_TIME, DEAD_AFTER, End, PLACES_KEPT, REFRESH_INTERVAL};
use proptest::{collection::vec, prelude::*};

/// How many names there are.
pub(crate) const NAMES: usize = 2;
/// How many coordinators there are.
pub(crate) const COORDINATORS: usize = 3;
/// The longest TTL and the longest lock-delay that is asked for.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

/// Something happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A fresh owner id asks for a lock.
    Acquire {
        name: usize,
        by: usize,
        ask: Ask,
        /// It arrives after its sender has given up.
        late: bool,
    },
    /// An acquire is sent again, because its reply was lost.
    AcquireAgain { name: usize, who: Who },
    /// A hold is extended, or a hand-off confirmed.
    Renew {
        name: usize,
        who: Who,
        ttl: Duration,
    },
    /// A hold or a wait is ended.
    Release { name: usize, who: Who, end: End },
    /// A coordinator shows that its waiters live.
    Refresh { name: usize, by: usize },
    /// An operator steps in.
    Force { name: usize, by: usize },
    /// A hold's value is changed.
    SetValue { name: usize, who: Who },
    /// Time passes.
    Pause(Duration),
    /// The store's clock is set back.
    SetBack(Duration),
}

/// What an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) wait: bool,
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
}

/// An owner id that has been used on a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// That of the last grant.
    Granted,
    /// That of one of the last acquires, counted from the newest.
    Asked(usize),
}

/// Up to `most` steps in a time that never runs backwards.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(pause().prop_map(Step::Pause)), 1..most)
}

/// Up to `most` steps while the store's clock is also set back now and then, by at most `furthest`.
pub(crate) fn steps_with_clock_set_back(
    most: usize,
    furthest: Duration,
) -> impl Strategy<Value = Vec<Step>> {
    let back = micros(Duration::ZERO, furthest).prop_map(Step::SetBack);
    let time = prop_oneof![3 => pause().prop_map(Step::Pause), 1 => back];
    vec(step(time), 1..most)
}

fn step(time: impl Strategy<Value = Step> + 'static) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..NAMES, 0..COORDINATORS, ask(), prop::bool::weighted(0.05))
            .prop_map(|(name, by, ask, late)| Step::Acquire { name, by, ask, late }),
        2 => (0..NAMES, who()).prop_map(|(name, who)| Step::AcquireAgain { name, who }),
        3 => (0..NAMES, who(), ttl()).prop_map(|(name, who, ttl)| Step::Renew { name, who, ttl }),
        4 => (0..NAMES, who(), end()).prop_map(|(name, who, end)| Step::Release { name, who, end }),
        4 => (0..NAMES, 0..COORDINATORS).prop_map(|(name, by)| Step::Refresh { name, by }),
        1 => (0..NAMES, 0..COORDINATORS).prop_map(|(name, by)| Step::Force { name, by }),
        1 => (0..NAMES, who()).prop_map(|(name, who)| Step::SetValue { name, who }),
        6 => time,
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let lock_delay = prop_oneof![
        2 => Just(Duration::ZERO),
        1 => micros(Duration::from_millis(1), Duration::from_secs(5)),
    ];
    (prop::bool::weighted(0.8), ttl(), lock_delay).prop_map(|(wait, ttl, lock_delay)| Ask {
        wait,
        ttl,
        lock_delay,
    })
}

fn ttl() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => micros(Duration::from_secs(1), Duration::from_secs(4)),
        1 => micros(Duration::from_secs(4), LONGEST),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![3 => Just(Who::Granted), 2 => (0..6_usize).prop_map(Who::Asked)]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Clean), Just(End::Unclean)]
}

/// Nothing at all, a moment, about as long as each of the times that matter, exactly as long, or very long.
fn pause() -> impl Strategy<Value = Duration> {
    prop_oneof![
        3 => micros(Duration::ZERO, Duration::from_micros(3)),
        6 => micros(Duration::from_millis(1), REFRESH_INTERVAL),
        4 => micros(REFRESH_INTERVAL, CLAIM_TIME),
        2 => prop::sample::select(vec![REFRESH_INTERVAL, DEAD_AFTER, CLAIM_TIME, PLACES_KEPT]),
        2 => micros(CLAIM_TIME, PLACES_KEPT),
        1 => micros(PLACES_KEPT, LONGEST * 6),
    ]
}

fn micros(from: Duration, to: Duration) -> impl Strategy<Value = Duration> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    (micros(from)..=micros(to)).prop_map(Duration::from_micros)
}
