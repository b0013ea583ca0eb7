//! Revisions of limits: the greatest one wins, whatever the order; no grant exceeds the limit in force; and nobody is stuck.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, End, Executed, Op, PLACES_KEPT, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId},
    lock::LockState,
    mode::{Limit, Mode, Permits},
    name::{ClientName, Value},
    time::StoreTime,
    view::NameView,
};
use proptest::{collection::vec, prelude::*};

use crate::locks::config;

/// Far longer than a history.
pub(crate) const FOREVER: Duration = Duration::from_secs(36_000);
/// Time for which the store remembers a limit.
pub(crate) const MEMORY: Duration = Duration::from_secs(60);

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
pub(crate) struct World {
    state: LockState,
    pub(crate) now: StoreTime,
    asked: u16,
    /// The limit of the last acquire that was not refused for it, and when that was; none after a force release.
    last: Option<(Limit, StoreTime)>,
}

pub(crate) fn owner(number: u16) -> OwnerId {
    let mut bytes = [1; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OwnerId::from_bytes(bytes)
}

pub(crate) fn permits(number: u32, limit: Limit) -> Mode {
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
    pub(crate) fn new() -> Self {
        Self {
            state: LockState::default(),
            now: StoreTime::from_micros(1_000_000_000),
            asked: 0,
            last: None,
        }
    }

    pub(crate) fn send(&mut self, op: &Op) -> Executed {
        let caller = Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::default(),
            token_memory: MEMORY,
            not_after: None,
        };
        self.now = self.now.after(Duration::from_micros(1));
        self.state.apply(&caller, op, self.now)
    }

    pub(crate) fn acquire(&mut self, mode: Mode, wait: bool) -> (OwnerId, Executed) {
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

    pub(crate) fn release(&mut self, number: u16) -> Executed {
        self.send(&Op::Release {
            owner: owner(number),
            end: End::Clean,
        })
    }

    fn refresh(&mut self) -> Executed {
        self.send(&Op::Refresh { oldest: None })
    }

    pub(crate) fn view(&mut self) -> NameView {
        match self.send(&Op::view(1_000)).reply {
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
