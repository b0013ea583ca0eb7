//! Limits of semaphores: all holders and waiters agree on the number of permits.

use leasehold_core::{command::Reply, mode::Mode, view::HolderView};
use proptest::prelude::*;

use crate::locks::{config, history::Deed, model::Model, steps::steps, world::World};

proptest! {
    #![proptest_config(config())]

    /// All holders, waiters and closed permits that can be seen have the limit that can be seen, and no more permits are taken
    /// than that.
    #[test]
    fn everybody_is_of_one_limit(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            let model = &mut models[event.name];
            model.enter(&event, &world.asked);
            let view = &event.after;
            let of_holder = |holder: &HolderView| match holder {
                HolderView::Ours(hold) => Some(hold.mode),
                HolderView::Foreign { .. } => None,
            };
            let holders = view.holders.iter().filter_map(of_holder);
            let waiters = view.waiters.iter().map(|waiter| waiter.mode);
            let ghosts = model.ledger.ghosts.iter().map(|ghost| ghost.mode);
            for limit in holders.chain(waiters).chain(ghosts).filter_map(Mode::limit) {
                prop_assert_eq!(view.limit, Some(limit), "{:#?}", event);
            }
            let most = view.limit.map_or(0, |limit| u64::from(limit.number));
            prop_assert!(view.permits_taken <= most, "{event:#?}");
        }
    }

    /// An acquire of another limit than the one in force is refused, told that one, and changes nothing. No other is
    /// refused so.
    #[test]
    fn another_limit_is_refused(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let name = match step {
                crate::locks::steps::Step::Acquire { name, .. }
                | crate::locks::steps::Step::AcquireAgain { name, .. } => Some(*name),
                _ => None,
            };
            let before = name.map(|name| world.view(name));
            let Some(event) = world.step(step) else { continue };
            let model = &mut models[event.name];
            let grants = model.enter(&event, &world.asked);
            let Deed::Acquire(owner, _) = event.deed else { continue };
            let before = before.unwrap();
            let asked = world.asked[owner.0].ask.mode.limit();
            let other = before.limit.filter(|limit| asked.is_some_and(|asked| asked != *limit));
            let is_new = grants.iter().any(|grant| grant.hold.owner == owner);
            match event.reply {
                Reply::OtherLimit { limit } => {
                    prop_assert_eq!(Some(limit), other, "{:#?}", event);
                    prop_assert_eq!(&event.after, &before);
                    prop_assert!(event.handed.is_empty(), "{event:#?}");
                }
                Reply::Late | Reply::Lost(_) => {}
                // Told once more.
                Reply::Granted { .. } if !is_new => {}
                _ => prop_assert_eq!(other, None, "{:#?}", event),
            }
        }
    }
}
