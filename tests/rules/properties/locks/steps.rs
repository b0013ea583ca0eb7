//! Random steps: requests, and the time that passes between them.

use std::time::Duration;

use leasehold_core::{
    command::{CLAIM_TIME, DEAD_AFTER, End, PLACES_KEPT, REFRESH_INTERVAL},
    mode::{Mode, Permits},
};
use proptest::{collection::vec, prelude::*};

/// Number of names.
pub(crate) const NAMES: usize = 2;
/// Number of coordinators.
pub(crate) const COORDINATORS: usize = 3;
/// The longest TTL and the longest lock-delay that is asked for.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);
/// The limit on which those who ask for permits mostly agree.
pub(crate) const LIMIT: u32 = 5;

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
    AcquireAgain {
        name: usize,
        who: Who,
        /// It waits though it did not want to, or the other way round.
        turned: bool,
    },
    /// A hold is extended, or a hand-off confirmed; perhaps at another coordinator than where it was asked for.
    Renew {
        name: usize,
        who: Who,
        ttl: Duration,
        elsewhere: Option<usize>,
    },
    /// A hold or a wait is ended.
    Release { name: usize, who: Who, end: End },
    /// A coordinator shows that its waiters live, and asks after one.
    Refresh {
        name: usize,
        by: usize,
        oldest: Option<Who>,
    },
    /// An operator steps in.
    Force { name: usize, by: usize },
    /// An operator ends one hold or wait, counted from the first.
    ForceOne {
        name: usize,
        by: usize,
        is_wait: bool,
        which: usize,
    },
    /// An operator asks all holders, or one counted from the first, to release.
    RequestRelease {
        name: usize,
        by: usize,
        which: Option<usize>,
    },
    /// A hold is shared from now on.
    Downgrade { name: usize, who: Who },
    /// A hold keeps so many permits.
    Reduce { name: usize, who: Who, permits: u32 },
    /// A hold is held so many times.
    SetCount { name: usize, who: Who, count: u32 },
    /// A hold's value is changed to one of so many bytes.
    SetValue { name: usize, who: Who, value: usize },
    /// Another stream resumes a hold or place under one of two owner ids, and replaces the id.
    Resume {
        name: usize,
        who: Who,
        tried: Option<Who>,
        by: usize,
        ttl: Duration,
    },
    /// One of the last resumes is sent again, because its reply was lost.
    ResumeAgain { name: usize, back: usize },
    /// Time passes.
    Pause(Duration),
    /// The store's clock is set back.
    SetBack(Duration),
    /// A coordinator's floor rises to this far ahead of the store's clock, because of a grant of another name.
    Floor { by: usize, ahead: Duration },
    /// Commands ask for tokens to be remembered for this long from here on.
    Remember(Duration),
}

/// Terms of an acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) mode: Mode,
    pub(crate) wait: bool,
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    /// Whether a unary call asks, without a session.
    pub(crate) unary: bool,
}

impl Ask {
    /// Returns the terms of a session that waits, with the longest TTL.
    pub(crate) fn waiting(mode: Mode) -> Self {
        Self {
            mode,
            wait: true,
            ttl: LONGEST,
            lock_delay: Duration::ZERO,
            unary: false,
        }
    }
}

/// An owner id that has been used on a name, counted from the newest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// The owner id of one of the last grants.
    Granted(usize),
    /// The owner id of one of the last acquires.
    Asked(usize),
    /// The owner id of one of the last holds that were ended.
    Ended(usize),
}

/// Returns some permits of a semaphore.
pub(crate) fn permits(number: u32, limit: u32) -> Mode {
    Mode::Semaphore(Permits::new(number, limit).unwrap())
}

/// Returns as many permits as are free, at least some and at most others.
pub(crate) fn permits_between(least: u32, most: u32, limit: u32) -> Mode {
    Mode::Semaphore(Permits::new(most, limit).unwrap().or_at_least(least))
}

/// Returns each mode, and permits of which some fit together.
pub(crate) fn a_mode() -> impl Strategy<Value = Mode> {
    let some = [permits(1, 3), permits(2, 3)];
    prop::sample::select(vec![Mode::Exclusive, Mode::Shared, some[0], some[1]])
}

/// Weights of the modes in acquires: exclusive, shared, semaphore. With even weights only, no lock would ever be held by
/// several callers.
const MIXES: [[u32; 3]; 4] = [[3, 3, 3], [2, 9, 1], [1, 1, 9], [9, 2, 1]];

/// Returns up to `most` steps in a time that never runs backwards.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    of_every_mix(most, pause().prop_map(Step::Pause).boxed())
}

/// Returns up to `most` steps while the store's clock is also set back now and then, by at most `furthest`.
pub(crate) fn steps_with_clock_set_back(
    most: usize,
    furthest: Duration,
) -> impl Strategy<Value = Vec<Step>> {
    let back = micros(Duration::ZERO, furthest).prop_map(Step::SetBack);
    let time = prop_oneof![3 => pause().prop_map(Step::Pause), 1 => back];
    of_every_mix(most, time.boxed())
}

/// Returns up to `most` steps while floors run ahead of the store's clock by at most `furthest` and tokens are remembered for a
/// shorter or longer time. Where `has_steps`, the clock also steps back and forward by at most `furthest`.
pub(crate) fn steps_with_floors_and_memories(
    most: usize,
    furthest: Duration,
    has_steps: bool,
) -> impl Strategy<Value = Vec<Step>> {
    let floor = (0..COORDINATORS, micros(Duration::ZERO, furthest))
        .prop_map(|(by, ahead)| Step::Floor { by, ahead });
    let memory = micros(Duration::from_millis(1), LONGEST * 2).prop_map(Step::Remember);
    let step = prop_oneof![
        micros(Duration::ZERO, furthest).prop_map(Step::SetBack),
        micros(Duration::ZERO, furthest).prop_map(Step::Pause),
    ];
    let time = prop_oneof![
        6 => pause().prop_map(Step::Pause),
        2 => floor,
        2 => memory,
        if has_steps { 2 } else { 0 } => step,
    ];
    of_every_mix(most, time.boxed())
}

fn of_every_mix(most: usize, time: BoxedStrategy<Step>) -> impl Strategy<Value = Vec<Step>> {
    let [even, readers, permits, alone] =
        MIXES.map(move |mix| vec(step(mix, time.clone()), 1..most));
    prop_oneof![2 => even, 1 => readers, 1 => permits, 1 => alone]
}

fn step(mix: [u32; 3], time: BoxedStrategy<Step>) -> impl Strategy<Value = Step> {
    let name = 0..NAMES;
    let by = 0..COORDINATORS;
    let acquire = (
        name.clone(),
        by.clone(),
        ask(mix),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(name, by, ask, late)| Step::Acquire {
            name,
            by,
            ask,
            late,
        });
    let again = (name.clone(), who(), prop::bool::weighted(0.5))
        .prop_map(|(name, who, turned)| Step::AcquireAgain { name, who, turned });
    let elsewhere = prop::option::weighted(0.2, by.clone());
    let renew = (name.clone(), who(), ttl(), elsewhere).prop_map(|(name, who, ttl, elsewhere)| {
        Step::Renew {
            name,
            who,
            ttl,
            elsewhere,
        }
    });
    let refresh = (name.clone(), by.clone(), prop::option::of(who()))
        .prop_map(|(name, by, oldest)| Step::Refresh { name, by, oldest });
    let of_holds = prop_oneof![
        3 => (name.clone(), who()).prop_map(|(name, who)| Step::Downgrade { name, who }),
        1 => (name.clone(), who(), 1..LIMIT)
            .prop_map(|(name, who, permits)| Step::Reduce { name, who, permits }),
        1 => (name.clone(), who(), 1..9_u32)
            .prop_map(|(name, who, count)| Step::SetCount { name, who, count }),
        1 => (name.clone(), who(), 0..9_usize)
            .prop_map(|(name, who, value)| Step::SetValue { name, who, value }),
    ];
    let resume = (
        name.clone(),
        who(),
        prop::option::weighted(0.3, who()),
        by.clone(),
        ttl(),
    )
        .prop_map(|(name, who, tried, by, ttl)| Step::Resume {
            name,
            who,
            tried,
            by,
            ttl,
        });
    let resume = prop_oneof![
        3 => resume,
        1 => (name.clone(), 0..3_usize).prop_map(|(name, back)| Step::ResumeAgain { name, back }),
    ];
    let force_one = (name.clone(), by.clone(), any::<bool>(), 0..4_usize).prop_map(
        |(name, by, is_wait, which)| Step::ForceOne {
            name,
            by,
            is_wait,
            which,
        },
    );
    let request_release = (name.clone(), by.clone(), prop::option::of(0..4_usize))
        .prop_map(|(name, by, which)| Step::RequestRelease { name, by, which });
    prop_oneof![
        18 => acquire,
        6 => again,
        6 => renew,
        10 => (name.clone(), who(), end()).prop_map(|(name, who, end)| Step::Release { name, who, end }),
        8 => refresh,
        1 => (name, by).prop_map(|(name, by)| Step::Force { name, by }),
        2 => force_one,
        1 => request_release,
        7 => of_holds,
        5 => resume,
        10 => time,
    ]
}

fn ask(mix: [u32; 3]) -> impl Strategy<Value = Ask> {
    let lock_delay = prop_oneof![
        1 => Just(Duration::ZERO),
        1 => micros(Duration::from_millis(1), LONGEST),
    ];
    let [wait, unary] = [0.8, 0.2].map(prop::bool::weighted);
    let all = (mode(mix), wait, ttl(), lock_delay, unary);
    all.prop_map(|(mode, wait, ttl, lock_delay, unary)| Ask {
        mode,
        wait,
        ttl,
        lock_delay,
        unary,
    })
}

fn mode([exclusive, shared, semaphore]: [u32; 3]) -> impl Strategy<Value = Mode> {
    let limit = prop_oneof![15 => Just(LIMIT), 1 => 1..LIMIT];
    // Mostly a few, so that several fit; all of them now and then.
    let number = prop_oneof![6 => 1..3_u32, 2 => 1..=LIMIT, 1 => Just(LIMIT)];
    // Now and then what is left, of all of them as a rule.
    let least = prop::option::weighted(0.2, (1..=LIMIT, 0..3_u32));
    prop_oneof![
        exclusive => Just(Mode::Exclusive),
        shared => Just(Mode::Shared),
        semaphore => (number, limit, least).prop_map(|(number, limit, least)| match least {
            None => permits(number.min(limit), limit),
            Some((least, less)) => {
                let most = limit.saturating_sub(less).max(1);
                permits_between(least.min(most), most, limit)
            }
        }),
    ]
}

fn ttl() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => micros(Duration::from_secs(1), Duration::from_secs(4)),
        1 => micros(Duration::from_secs(4), LONGEST),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        2 => Just(Who::Granted(0)),
        2 => (1..5_usize).prop_map(Who::Granted),
        2 => (0..6_usize).prop_map(Who::Asked),
        1 => (0..2_usize).prop_map(Who::Ended),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Clean), Just(End::Unclean)]
}

/// Returns a pause: none, a moment, about as long as each of the times that matter, exactly as long, or very long.
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
