//! Properties of exclusion: grants that exclude each other never overlap.

use proptest::prelude::*;

use crate::locks::{
    config, hold::Hold, model::Model, modes::go_together, steps::steps, world::World,
};

proptest! {
    #![proptest_config(config())]

    /// Grants of a name that exclude each other never overlap in the store's time, and those of a semaphore never come to
    /// more permits than there are: each counts from its reply until it is released, taken away or over, as far as its
    /// renewals and confirmations have put that off.
    #[test]
    fn no_grants_overlap_that_exclude_each_other(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            for grant in models[event.name].enter(&event, &world.asked) {
                let all = grant.beside.iter().chain([&grant.hold]);
                let modes: Vec<_> = all.map(|hold: &Hold| hold.mode).collect();
                prop_assert!(go_together(&modes), "{grant:#?} at {event:#?}");
            }
        }
    }

    /// A caller that is told that it holds a lock does hold it. No caller is told that it lost a lock before the lock's time
    /// was over, and no lock is renewed after it was.
    #[test]
    fn a_hold_lasts_as_long_as_was_promised_and_no_longer(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            let model = &mut models[event.name];
            model.enter(&event, &world.asked);
            let contradictions = &model.ledger.contradictions;
            prop_assert!(contradictions.is_empty(), "{contradictions:#?}");
        }
    }
}
