//! First come, first served, among the living.

use proptest::prelude::*;

use crate::{config, model::Model, steps::steps, world::World};

proptest! {
    #![proptest_config(config())]

    /// Every grant to a waiter goes to the one that came first of those whose coordinator has shown within the last two
    /// seconds that it lives, however others would fit; and nobody is granted a lock past one of those. The others keep
    /// their places for ten seconds, and nobody else moves.
    #[test]
    fn waiters_are_served_in_the_order_in_which_they_came(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            let model = &mut models[event.name];
            model.enter(&event, &world.asked);
            prop_assert!(model.line.complaints.is_empty(), "{:#?}", model.line.complaints);
        }
    }
}
