//! First come, first served, among the living.

use leasehold_core::{
    command::{REFRESH_INTERVAL, Reply},
    mode::Mode,
};
use proptest::prelude::*;

use crate::{
    config,
    history::{Deed, Owner},
    ledger::go_together,
    model::Model,
    steps::{Ask, COORDINATORS, a_mode, steps},
    world::World,
};

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

    /// A waiter that asks once more, and does not want to wait any longer, has its turn if it is that, and keeps its place
    /// otherwise.
    #[test]
    fn a_waiter_that_does_not_want_to_wait_keeps_its_place(
        (first, second) in (a_mode(), a_mode()),
        by in 0..COORDINATORS,
    ) {
        let mut world = World::new();
        let mut model = Model::default();
        let held = Ask { ttl: REFRESH_INTERVAL, ..Ask::waiting(Mode::Exclusive) };
        let asks = [held, Ask::waiting(first), Ask::waiting(second)];
        let mut events = asks.map(|ask| world.ask(0, by, ask)).to_vec();
        let impatient = |number| Deed::Acquire(Owner(number), false);
        for number in [1, 2] {
            let event = world.deed(0, by, impatient(number));
            prop_assert!(matches!(event.reply, Reply::Busy { .. }), "{event:#?}");
            prop_assert_eq!(event.waiters(), vec![Owner(1), Owner(2)]);
            events.push(event);
        }
        world.now = world.now.after(REFRESH_INTERVAL);
        let event = world.deed(0, by, impatient(1));
        prop_assert!(matches!(event.reply, Reply::Granted { .. }), "{event:#?}");
        let beside = go_together(&[first, second]);
        prop_assert_eq!(event.handed_to(), Vec::from_iter(beside.then_some(Owner(2))));
        events.push(event);
        for event in events {
            model.enter(&event, &world.asked);
        }
        prop_assert!(model.line.complaints.is_empty(), "{:#?}", model.line.complaints);
    }
}
