//! A reply may be lost, and the command be sent again.

use leasehold_core::{
    command::Reply,
    view::{HolderView, NameView},
};
use proptest::prelude::*;

use crate::{
    config,
    history::{Deed, World},
    steps::{Ask, COORDINATORS, LONGEST, NAMES, Step, steps},
};

proptest! {
    #![proptest_config(config())]

    /// The same acquire, renewal or release again right away is answered alike and changes nothing but deadlines; a
    /// release says that there was nothing left to release.
    #[test]
    fn the_same_again_changes_nothing(steps in steps(100)) {
        let mut world = World::new();
        for step in &steps {
            let Some(first) = world.step(step) else { continue };
            let expected = match (first.deed, &first.reply) {
                // It was late by what it said, which is not repeated.
                (_, Reply::Late) => continue,
                (Deed::Acquire(_) | Deed::Renew(..), reply) => reply.clone(),
                (Deed::Release(..), _) => Reply::Released { held: false, waited: false, closed_for: None },
                _ => continue,
            };
            let again = world.deed(first.name, first.by, first.deed);
            prop_assert_eq!(&again.reply, &expected, "after {:?}", first);
            prop_assert_eq!(again.handed, None, "after {:?}", first);
            prop_assert_eq!(but_deadlines(&again.after), but_deadlines(&first.after), "after {:?}", first);
        }
    }

    /// An acquire that arrives when its sender has given up does nothing at all.
    #[test]
    fn an_acquire_that_comes_too_late_does_nothing(before in steps(60), name in 0..NAMES, by in 0..COORDINATORS) {
        let mut world = World::new();
        world.run(&before);
        let seen = world.view(name);
        let ask = Ask { wait: true, ttl: LONGEST, lock_delay: LONGEST };
        let late = world.step(&Step::Acquire { name, by, ask, late: true }).unwrap();
        prop_assert_eq!(late.reply, Reply::Late);
        prop_assert_eq!(late.handed, None);
        prop_assert_eq!(late.after, seen);
    }
}

fn but_deadlines(view: &NameView) -> NameView {
    let mut view = view.clone();
    if let Some(HolderView::Ours(hold)) = &mut view.holder {
        hold.expires_in = std::time::Duration::ZERO;
    }
    view
}
