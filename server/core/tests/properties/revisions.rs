//! Revisions of limits: the greatest one wins, whatever the order; no grant exceeds the limit in force; and nobody is stuck.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, End, Executed, One, Op, PLACES_KEPT, Reply, Resume},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    lock::LockState,
    mode::{Limit, Mode, Permits},
    name::{ClientName, Value},
    time::StoreTime,
    view::NameView,
};
use proptest::{collection::vec, prelude::*};

use crate::config;

/// Far longer than a history.
const FOREVER: Duration = Duration::from_secs(36_000);
/// Time for which the store remembers a limit.
const MEMORY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        permits: u32,
        /// The fewest that it is content with; 0 leaves no choice.
        at_least: u32,
        limit: Limit,
        wait: bool,
    },
    /// Takes the whole name.
    Alone,
    /// Ends one of the last acquires.
    Release(usize),
    Force,
    Pause(Duration),
}

/// A name, and what its callers know of it.
struct World {
    state: LockState,
    now: StoreTime,
    asked: u16,
    /// The limit of the last acquire that was not refused for it, and when that was; none after a force release.
    last: Option<(Limit, StoreTime)>,
}

fn owner(number: u16) -> OwnerId {
    let mut bytes = [1; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OwnerId::from_bytes(bytes)
}

fn permits(number: u32, limit: Limit) -> Mode {
    let permits = Permits::new(number, limit.number).unwrap();
    Mode::Semaphore(permits.of_revision(limit.revision))
}

fn permits_between(least: u32, most: u32, limit: Limit) -> Mode {
    match permits(most, limit) {
        Mode::Semaphore(permits) => Mode::Semaphore(permits.or_at_least(least)),
        mode => mode,
    }
}

impl World {
    fn new() -> Self {
        Self {
            state: LockState::default(),
            now: StoreTime::from_micros(1_000_000_000),
            asked: 0,
            last: None,
        }
    }

    fn send(&mut self, op: &Op) -> Executed {
        let caller = Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::default(),
            token_memory: MEMORY,
            not_after: None,
        };
        self.now = self.now.after(Duration::from_micros(1));
        self.state.apply(&caller, op, self.now)
    }

    fn acquire(&mut self, mode: Mode, wait: bool) -> (OwnerId, Executed) {
        self.asked += 1;
        let owner = owner(self.asked);
        let acquire = Acquire {
            owner,
            session: None,
            actor: Actor::NOBODY,
            client_name: ClientName::default(),
            mode,
            value: Value::default(),
            ttl: FOREVER,
            lock_delay: Duration::ZERO,
            wait,
            max_hold: None,
            again: false,
        };
        (owner, self.send(&Op::Acquire(acquire)))
    }

    fn release(&mut self, number: u16) -> Executed {
        self.send(&Op::Release {
            owner: owner(number),
            end: End::Clean,
        })
    }

    fn refresh(&mut self) -> Executed {
        self.send(&Op::Refresh { oldest: None })
    }

    /// Returns whether a refresh finds that no waiter is missing, by the one that it takes for the oldest.
    fn is_attached(&mut self, oldest: OwnerId) -> bool {
        let oldest = Some(oldest);
        match self.send(&Op::Refresh { oldest }).reply {
            Reply::Refreshed { attached, .. } => attached,
            other => panic!("a refresh was answered by {other:?}"),
        }
    }

    fn view(&mut self) -> NameView {
        match self.send(&Op::View { waiters: 1_000 }).reply {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered by {other:?}"),
        }
    }

    /// Returns the limit in force, by the rule alone: that of the holders and waiters, or the one that is remembered.
    fn in_force(&mut self) -> Option<Limit> {
        let remembered = self
            .last
            .filter(|(limit, at)| limit.revision > 0 && self.now < at.after(MEMORY));
        self.view().limit.or(remembered.map(|(limit, _)| limit))
    }

    /// Takes a step, and checks what is promised of it.
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let before = self.view();
        let in_force = self.in_force();
        let executed = match step {
            Step::Acquire {
                permits: most,
                at_least,
                limit,
                wait,
            } => {
                let mode = permits_between(*at_least, *most, *limit);
                let (_, executed) = self.acquire(mode, *wait);
                let needed = if *at_least == 0 { most } else { at_least };
                let expected = match in_force {
                    Some(former) if former.revision > limit.revision => Ok(former),
                    Some(former) if former.revision == limit.revision && former != *limit => {
                        Err(former)
                    }
                    _ => Ok(*limit),
                };
                let expected = expected.and_then(|limit| match *needed <= limit.number {
                    true => Ok(limit),
                    false => Err(limit),
                });
                match expected {
                    Ok(limit) => {
                        let refused = matches!(executed.reply, Reply::OtherLimit { .. });
                        prop_assert!(!refused, "{:?} though {in_force:?}", executed.reply);
                        self.last = Some((limit, self.now));
                        // Nobody has lost anything by it.
                        let after = self.view();
                        prop_assert!(after.holder_count >= before.holder_count);
                        if before.limit.is_some() || after.limit.is_some() {
                            prop_assert_eq!(after.limit, Some(limit));
                        }
                    }
                    Err(limit) => {
                        prop_assert_eq!(&executed.reply, &Reply::OtherLimit { limit });
                        let seen = |view: &NameView| {
                            let NameView {
                                limit,
                                permits_taken,
                                holder_count,
                                waiter_count,
                                ..
                            } = view;
                            (*limit, *permits_taken, *holder_count, *waiter_count)
                        };
                        prop_assert_eq!(seen(&self.view()), seen(&before));
                    }
                }
                executed
            }
            Step::Alone => self.acquire(Mode::Exclusive, true).1,
            Step::Release(back) => {
                let back = u16::try_from(*back).unwrap();
                self.release(self.asked.saturating_sub(back))
            }
            Step::Force => {
                self.last = None;
                self.send(&Op::ForceRelease)
            }
            Step::Pause(time) => {
                self.now = self.now.after(*time);
                self.refresh()
            }
        };
        let is_granted =
            matches!(executed.reply, Reply::Granted { .. }) || !executed.handed.is_empty();
        let after = self.view();
        if is_granted && let Some(limit) = after.limit {
            let most = u64::from(limit.number);
            prop_assert!(after.permits_taken <= most, "{after:#?} after {step:?}");
        }
        if !executed.more
            && let Some(first) = after.waiters.first()
        {
            // The next waiter waits for holders alone, and not for a limit that it does not fit into.
            let limit = after.limit.map_or(u64::MAX, |limit| limit.number.into());
            let wanted = u64::from(first.mode.permits_needed());
            let is_alone = after.permits_taken == 0;
            prop_assert!(after.holder_count > 0, "{after:#?} after {step:?}");
            prop_assert!(wanted <= limit || is_alone, "{after:#?} after {step:?}");
            let is_counted = after.permits_taken > 0 && wanted > 0;
            prop_assert!(
                !is_counted || after.permits_taken + wanted > limit,
                "{after:#?}"
            );
        }
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    // Of one revision nearly all agree on the limit, as the instances of a version do.
    let limit = (0..5_u32, prop::bool::weighted(0.05)).prop_map(|(revision, differs)| Limit {
        number: [5, 8, 3, 1, 6][usize::try_from(revision).unwrap()] + u32::from(differs),
        revision,
    });
    let at_least = prop::option::weighted(0.3, 1..6_u32);
    let acquire = (limit, 1..6_u32, at_least, prop::bool::weighted(0.8)).prop_map(
        |(limit, number, at_least, wait)| {
            let permits = number.min(limit.number);
            Step::Acquire {
                permits,
                at_least: at_least.map_or(0, |least| least.min(permits)),
                limit,
                wait,
            }
        },
    );
    let pause = prop_oneof![
        8 => (0..1_500_u64).prop_map(Duration::from_millis),
        1 => Just(PLACES_KEPT),
        1 => Just(MEMORY),
    ];
    prop_oneof![
        20 => acquire,
        1 => Just(Step::Alone),
        16 => (0..12_usize).prop_map(Step::Release),
        1 => Just(Step::Force),
        3 => pause.prop_map(Step::Pause),
    ]
}

proptest! {
    #![proptest_config(config())]

    /// The limit in force is that of the greatest revision; grants keep to it, and lowering it takes nothing from anybody and
    /// leaves nobody stuck.
    #[test]
    fn the_greatest_revision_is_in_force(steps in vec(step(), 1..160)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step)?;
        }
    }

    /// The limit that is in force in the end does not depend on the order in which the acquires of two versions arrive.
    #[test]
    fn the_order_does_not_matter(order in Just([0, 0, 1, 1, 2, 2]).prop_shuffle()) {
        let mut world = World::new();
        for revision in order {
            let limit = Limit { number: [5, 8, 3][usize::try_from(revision).unwrap()], revision };
            let (_, executed) = world.acquire(permits(1, limit), true);
            let refused = matches!(executed.reply, Reply::OtherLimit { .. });
            prop_assert!(!refused, "{executed:?}");
        }
        prop_assert_eq!(world.view().limit, Some(Limit { number: 3, revision: 2 }));
    }
}

const FORMER: Limit = Limit {
    number: 5,
    revision: 0,
};
const RAISED: Limit = Limit {
    number: 8,
    revision: 1,
};
const LOWERED: Limit = Limit {
    number: 3,
    revision: 2,
};

#[test]
fn raising_a_limit_lets_waiters_in_at_once() {
    let mut world = World::new();
    for _ in 0..8 {
        world.acquire(permits(1, FORMER), true);
    }
    let (_, executed) = world.acquire(permits(8, RAISED), false);
    assert_eq!(executed.handed.len(), 3);
    assert!(matches!(executed.reply, Reply::Busy { .. }));
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn lowering_a_limit_takes_nothing_away_and_lets_nobody_in_before_the_permits_fit() {
    let mut world = World::new();
    for _ in 0..5 {
        world.acquire(permits(1, FORMER), true);
    }
    let (_, executed) = world.acquire(permits(1, LOWERED), true);
    assert!(matches!(executed.reply, Reply::Queued { .. }));
    let view = world.view();
    assert_eq!((view.limit, view.permits_taken), (Some(LOWERED), 5));
    for number in 1..=2 {
        assert!(world.release(number).handed.is_empty());
    }
    assert_eq!(world.release(3).handed.len(), 1);
    assert_eq!(world.view().permits_taken, 3);
}

#[test]
fn a_waiter_for_more_than_a_lowered_limit_blocks_nobody() {
    let mut world = World::new();
    world.acquire(permits(5, FORMER), true);
    let (big, _) = world.acquire(permits(5, FORMER), true);
    let (small, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(permits(3, LOWERED), false);
    let executed = world.release(1);
    let handed: Vec<OwnerId> = executed.handed.iter().map(|handed| handed.owner).collect();
    assert_eq!(handed, [small]);
    let view = world.view();
    assert_eq!((view.waiter_count, view.permits_taken), (0, 1));
    // That is how its coordinator finds out.
    assert!(!world.is_attached(big));
}

#[test]
fn a_waiter_that_leaves_is_missed_also_if_its_coordinator_takes_another_for_the_oldest() {
    let mut world = World::new();
    world.acquire(permits(5, FORMER), true);
    world.acquire(permits(5, FORMER), true);
    let (small, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(Mode::Exclusive, true);
    world.acquire(permits(3, LOWERED), false);
    world.release(1);
    assert_eq!(world.view().waiter_count, 1);
    for is_attached in [false, true] {
        assert_eq!(world.is_attached(small), is_attached);
    }
}

#[test]
fn what_is_left_is_counted_by_the_limit_in_force() {
    let mut world = World::new();
    world.acquire(permits(3, FORMER), true);
    // It may have all of the greater limit, and gets what is left of it.
    let (_, executed) = world.acquire(permits_between(2, 8, RAISED), true);
    assert!(matches!(
        executed.reply,
        Reply::Granted {
            permits: Some(5),
            ..
        }
    ));
    // A waiter stays in a lowered limit that has enough for it, although it would take more.
    let (left, executed) = world.acquire(permits_between(2, 5, FORMER), true);
    assert!(matches!(executed.reply, Reply::Queued { .. }));
    world.acquire(permits(1, LOWERED), false);
    assert!(world.release(2).handed.is_empty());
    let executed = world.release(1);
    let handed: Vec<_> = executed
        .handed
        .iter()
        .map(|h| (h.owner, h.permits.map(std::num::NonZeroU32::get)))
        .collect();
    assert_eq!(handed, [(left, Some(3))]);
    // One that needs more than it is refused, whatever it would take.
    let (_, executed) = world.acquire(permits_between(4, 5, FORMER), true);
    assert_eq!(executed.reply, Reply::OtherLimit { limit: LOWERED });
}

#[test]
fn a_limit_with_a_revision_is_remembered_when_everybody_has_let_go() {
    let mut world = World::new();
    world.acquire(permits(1, LOWERED), true);
    world.release(1);
    assert_eq!(world.view().limit, None);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
    world.release(2);
    world.now = world.now.after(MEMORY);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(FORMER));
}

#[test]
fn a_limit_is_remembered_from_the_last_renewal_of_permits_on() {
    let mut world = World::new();
    let (held, _) = world.acquire(permits(1, LOWERED), true);
    for _ in 0..3 {
        world.now = world.now.after(MEMORY - Duration::from_secs(1));
        world.send(&Op::Renew {
            token: None,
            owner: held,
            ttl: FOREVER,
        });
    }
    world.now = world.now.after(MEMORY - Duration::from_secs(1));
    world.release(1);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
}

#[test]
fn a_resume_of_the_only_hold_keeps_the_limit_in_force() {
    let mut world = World::new();
    let (held, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(permits(8, RAISED), false);
    let resume = Resume {
        from: vec![held],
        next: owner(100),
        session: Some(SessionId::from_bytes([7; 16])),
        client_name: ClientName::default(),
        ttl: FOREVER,
        count: 1,
    };
    let resumed = world.send(&Op::Resume(resume)).reply;
    assert!(matches!(resumed, Reply::Resumed { .. }), "{resumed:?}");
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn a_force_release_forgets_the_revision() {
    let huge = Limit {
        number: 1,
        revision: u32::MAX,
    };
    let mut world = World::new();
    world.acquire(permits(1, huge), true);
    world.acquire(permits(1, huge), true);
    let before = world.view();
    assert_eq!((before.limit, before.waiter_count), (Some(huge), 1));
    world.send(&Op::ForceRelease);
    world.acquire(permits(1, RAISED), true);
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn a_force_release_of_one_hold_or_waiter_keeps_the_revision() {
    let mut world = World::new();
    world.acquire(permits(3, LOWERED), true);
    world.acquire(permits(1, LOWERED), true);
    let view = world.view();
    let waiter = One::Waiter(view.waiters[0].number);
    let holder = One::Holder(view.token.unwrap());
    for one in [waiter, holder] {
        let executed = world.send(&Op::ForceReleaseOne(one));
        assert!(matches!(
            executed.reply,
            Reply::Forced { released: true, .. }
        ));
    }
    assert_eq!(world.view().holder_count, 0);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
}
