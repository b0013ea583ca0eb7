//! Absence of starvation: every waiter is served.

use std::time::Duration;

use leasehold_core::{
    command::{CLAIM_TIME, End, REFRESH_INTERVAL, Reply},
    mode::Mode,
};
use proptest::{collection::vec, prelude::*};

use crate::locks::{
    config,
    history::{Deed, Owner},
    steps::{Ask, COORDINATORS, LIMIT, LONGEST, NAMES, permits, steps},
    world::World,
};

proptest! {
    #![proptest_config(config())]

    /// After any history: if the coordinators go on refreshing, each waiter is granted the name in order, within the time for
    /// which the waiters before it may hold it, although no holder releases anything.
    #[test]
    fn every_waiters_turn_comes(steps in steps(80)) {
        let mut world = World::new();
        world.run(&steps);
        for name in 0..NAMES {
            let refresh_all = |world: &mut World, served: &mut Vec<Owner>| {
                for by in 0..COORDINATORS {
                    let event = world.deed(name, by, Deed::Refresh(None));
                    served.extend(event.handed_to());
                }
            };
            let before = world.view(name);
            let mut served = Vec::new();
            refresh_all(&mut world, &mut served);
            let after = world.deed(name, 0, Deed::Refresh(None));
            let mut waiting = served.clone();
            waiting.extend(after.waiters());
            prop_assert_eq!(waiting.len(), before.waiters.len(), "a refresh takes nobody's place");

            let asks = waiting.iter().map(|owner| world.asked[owner.0].ask);
            let delays = asks.map(|ask| ask.ttl + ask.lock_delay);
            let mut patience = delays.sum::<Duration>() + REFRESH_INTERVAL * (waiting.len() as u32 + 1);
            if !after.is_free() {
                patience += LONGEST * 2;
            }
            // A hand-off from another coordinator stands for the claim time at least.
            patience += CLAIM_TIME * waiting.len() as u32;
            let end = world.now.after(patience);
            while served.len() < waiting.len() {
                prop_assert!(world.now < end, "served {served:?} of {waiting:?}");
                world.now = world.now.after(REFRESH_INTERVAL);
                refresh_all(&mut world, &mut served);
            }
            prop_assert_eq!(served, waiting);
        }
    }

    /// A writer among readers, and one that asks for all permits among those that ask for one: it waits for those that
    /// held when it came, and for none of those that come after it, however many those be.
    #[test]
    fn a_big_request_waits_for_those_before_it_alone(
        ahead in vec(1..40_usize, 1..=LIMIT as usize),
        arrivals in vec(0..3_usize, 40),
        semaphore in any::<bool>(),
    ) {
        let (small, big) = if semaphore {
            (permits(1, LIMIT), permits(LIMIT, LIMIT))
        } else {
            (Mode::Shared, Mode::Exclusive)
        };
        let mut world = World::new();
        for _ in &ahead {
            let event = world.ask(0, 0, Ask::waiting(small));
            prop_assert!(matches!(event.reply, Reply::Granted { .. }), "{event:#?}");
        }
        let big_one = Owner(ahead.len());
        let event = world.ask(0, 1, Ask::waiting(big));
        prop_assert!(matches!(event.reply, Reply::Queued { position: 1, .. }), "{event:#?}");

        let last = ahead.iter().max().copied().unwrap();
        let mut came_after = 0;
        for tick in 1..=last {
            world.now = world.now.after(Duration::from_millis(100));
            for by in 0..COORDINATORS {
                prop_assert_eq!(world.deed(0, by, Deed::Refresh(None)).handed_to(), vec![]);
            }
            for number in 0..arrivals[tick - 1] {
                let event = world.ask(0, number, Ask::waiting(small));
                prop_assert!(matches!(event.reply, Reply::Queued { .. }), "{event:#?}");
                came_after += 1;
            }
            let mut handed = Vec::new();
            for (number, _) in ahead.iter().enumerate().filter(|(_, until)| **until == tick) {
                let release = Deed::Release(Owner(number), End::Clean);
                handed.extend(world.deed(0, 0, release).handed_to());
            }
            let due = (tick == last).then_some(big_one);
            prop_assert_eq!(handed, Vec::from_iter(due), "at {} of {:?}", tick, ahead);
        }
        let event = world.deed(0, 1, Deed::Release(big_one, End::Clean));
        let room = if semaphore { LIMIT as usize } else { usize::MAX };
        prop_assert_eq!(event.handed.len(), room.min(came_after), "those after it come in together");
    }
}
