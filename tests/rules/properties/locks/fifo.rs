//! Order of grants: first come, first served, among the living.

use std::time::Duration;

use leasehold_core::{
    command::{DEAD_AFTER, End, PLACES_KEPT, REFRESH_INTERVAL, Reply},
    mode::Mode,
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::{Deed, Owner},
    model::Model,
    modes::go_together,
    steps::{Ask, COORDINATORS, Step, a_mode},
    wake_ups::{any_steps, each_event},
    world::World,
};

proptest! {
    #![proptest_config(config())]

    /// Every grant to a waiter goes to the one that came first of those whose coordinator has shown within the last two
    /// seconds that it lives, however others would fit; and nobody is granted a lock past one of those. The others keep
    /// their places for ten seconds, and nobody else moves.
    #[test]
    fn waiters_are_served_in_the_order_in_which_they_came(steps in any_steps()) {
        each_event(&steps, |world, model, event| {
            model.enter(event, &world.asked);
            prop_assert!(model.line.complaints.is_empty(), "{:#?}", model.line.complaints);
            Ok(())
        })?;
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

/// However far the clock steps back: a coordinator that is silent from then on is skipped after two seconds, as at any other
/// time, and its waiters lose their places after ten.
#[test]
fn a_coordinator_that_is_silent_from_a_step_back_on_is_skipped() {
    let mut world = World::new();
    let exclusive = Ask::waiting(Mode::Exclusive);
    let moment = Duration::from_micros(1);
    for by in 0..3 {
        world.ask(0, by, exclusive);
    }
    world.step(&Step::SetBack(Duration::from_secs(3600)));
    let stepped = world.now;
    let order = world.deed(0, 2, Deed::Refresh(None)).waiters();
    assert_eq!(order, [Owner(1), Owner(2)], "nobody moves");
    world.now = stepped.after(DEAD_AFTER - moment);
    world.deed(0, 2, Deed::Refresh(None));
    world.now = stepped.after(DEAD_AFTER);
    let released = world.deed(0, 0, Deed::Release(Owner(0), End::Clean));
    assert_eq!(released.handed_to(), [Owner(2)]);
    assert_eq!(released.waiters(), [Owner(1)]);
    world.now = stepped.after(PLACES_KEPT);
    let after = world.deed(0, 2, Deed::Refresh(None));
    assert_eq!(after.waiters(), []);
}
