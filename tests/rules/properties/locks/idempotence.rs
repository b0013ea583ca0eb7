//! Idempotence: a command whose reply was lost may be sent again.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{
    command::Reply,
    id::FencingToken,
    mode::Mode,
    view::{HolderView, NameView},
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::Deed,
    steps::{Ask, NAMES, Step, Who, steps},
    world::World,
};

proptest! {
    #![proptest_config(config())]

    /// The same again right away is answered alike and changes nothing but deadlines; a release says that there was nothing
    /// left to release.
    #[test]
    fn the_same_again_changes_nothing(steps in steps(100)) {
        let mut world = World::new();
        for step in &steps {
            let Some(first) = world.step(step) else { continue };
            let expected = match (first.deed, &first.reply) {
                // It was late by what it said, which is not repeated.
                (_, Reply::Late) => continue,
                (Deed::Release(..), _) => Reply::Released { held: false, waited: false, closed_for: None },
                // Whoever was handed it is there to be released now.
                (Deed::Force, _) if !first.handed.is_empty() => continue,
                (Deed::Force, Reply::Forced { token, .. }) => {
                    Reply::Forced { former: vec![], released: false, token: *token }
                }
                (Deed::ForceOne(_), Reply::Forced { token, .. }) => {
                    Reply::Forced { former: vec![], released: false, token: *token }
                }
                // It was told that an operator removed a waiter, once.
                (Deed::Refresh(_), Reply::Refreshed { attached: false, .. }) => continue,
                (_, reply) => reply.clone(),
            };
            let again = world.deed(first.name, first.by, first.deed);
            prop_assert_eq!(&again.reply, &expected, "after {:#?}", first);
            prop_assert_eq!(&again.handed, &vec![], "after {:#?}", first);
            prop_assert_eq!(but_deadlines(&again.after), but_deadlines(&first.after), "after {:#?}", first);
        }
    }

    /// A command that arrives when its sender has given up does nothing at all, whatever it is about. A release is carried
    /// out all the same.
    #[test]
    fn late_commands_do_nothing(steps in steps(80)) {
        let mut world = World::new();
        for step in &steps {
            let seen: [_; NAMES] = std::array::from_fn(|name| world.view(name));
            // Who only looks is answered all the same.
            world.late(|world| world.edges(0));
            let late = match step {
                Step::Pause(_)
                | Step::SetBack(_)
                | Step::Floor { .. }
                | Step::Remember(_)
                | Step::Acquire { late: true, .. } => None,
                _ => world.late(|world| world.step(step)),
            };
            if let Some(event) = late {
                let released = matches!(event.reply, Reply::Released { .. });
                prop_assert_eq!(released, matches!(event.deed, Deed::Release(..)), "{:#?}", event);
                if !released {
                    prop_assert_eq!(&event.reply, &Reply::Late);
                    prop_assert_eq!(&event.handed, &vec![]);
                    prop_assert_eq!(&event.after, &seen[event.name]);
                }
            }
            world.step(step);
        }
    }

    /// An acquire that is sent again may be late: what the hold was renewed for since then stands.
    #[test]
    fn an_acquire_sent_again_shortens_nothing(steps in steps(150)) {
        let mut world = World::new();
        for step in &steps {
            let Step::AcquireAgain { name, .. } = step else {
                world.step(step);
                continue;
            };
            let before = ends(&world.view(*name));
            world.step(step);
            let after = ends(&world.view(*name));
            for (token, left) in before {
                prop_assert!(after.get(&token).is_none_or(|now| *now >= left), "{} after {:#?}", token, step);
            }
        }
    }
}

/// Returns how long each hold has left, with its lock-delay.
fn ends(view: &NameView) -> BTreeMap<FencingToken, Duration> {
    let ours = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some((hold.token, hold.expires_in + hold.lock_delay)),
        HolderView::Foreign { .. } => None,
    });
    ours.collect()
}

#[test]
fn an_acquire_sent_again_after_a_longer_renewal_leaves_its_end() {
    let second = Duration::from_secs(1);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut world = World::new();
        let ask = Ask {
            wait: false,
            ttl: second,
            ..Ask::waiting(mode)
        };
        let acquire = Step::Acquire {
            name: 0,
            by: 0,
            ask,
            late: false,
        };
        let who = Who::Granted(0);
        let renew = Step::Renew {
            name: 0,
            who,
            ttl: 20 * second,
            elsewhere: None,
        };
        let again = Step::AcquireAgain {
            name: 0,
            who,
            turned: false,
        };
        for step in [acquire, renew, again] {
            world.step(&step).unwrap();
        }
        let left: Vec<_> = ends(&world.view(0)).into_values().collect();
        assert_eq!(left, [20 * second], "{mode:?}");
    }
}

/// Returns the view without the times left, and without the order of holders, which depends on them.
fn but_deadlines(view: &NameView) -> NameView {
    let mut view = view.clone();
    for holder in &mut view.holders {
        if let HolderView::Ours(hold) = holder {
            hold.expires_in = Duration::ZERO;
        }
    }
    view.holders.sort_unstable_by_key(|holder| match holder {
        HolderView::Ours(hold) => Some(hold.token),
        HolderView::Foreign { .. } => None,
    });
    view
}
