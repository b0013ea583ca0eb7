//! A free lock and a living waiter never go past each other.

use std::collections::HashMap;

use leasehold_core::{
    command::{DEAD_AFTER, REFRESH_INTERVAL, Reply},
    time::StoreTime,
};
use proptest::prelude::*;

use crate::{
    config,
    history::{Deed, Event, Owner, World},
    steps::{COORDINATORS, NAMES, steps},
};

/// Whether a command had the lock in its hands: it asked for it, freed it, or looked whether it is free.
fn hands_on(event: &Event) -> bool {
    match (event.deed, &event.reply) {
        (Deed::Acquire(_), reply) => *reply != Reply::Late,
        (Deed::Release(..), Reply::Released { held, .. }) => *held,
        (Deed::Refresh | Deed::Force, _) => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(config())]

    /// After a command that asks for a lock, frees it or looks at it for waiters, it is held or closed if anybody living
    /// waits for it.
    #[test]
    fn no_living_waiter_is_left_at_a_free_lock(steps in steps(120)) {
        let mut world = World::new();
        let mut signs = HashMap::<(usize, usize), StoreTime>::new();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            if matches!(event.deed, Deed::Refresh) || matches!(event.reply, Reply::Queued { .. }) {
                signs.insert((event.name, event.by), event.at);
            }
            if !hands_on(&event) || !event.is_free() {
                continue;
            }
            for waiter in event.waiters() {
                let sign = signs[&(event.name, world.asked[waiter.0].by)];
                prop_assert!(sign.after(DEAD_AFTER) <= event.at, "{waiter:?} waits in vain: {event:?}");
            }
        }
    }

    /// Whatever happened before: if the coordinators go on refreshing, each waiter's turn comes, in order, within the time
    /// for which those before it may hold, although nobody releases anything.
    #[test]
    fn every_waiters_turn_comes(steps in steps(80)) {
        let mut world = World::new();
        world.run(&steps);
        for name in 0..NAMES {
            let refresh_all = |world: &mut World, served: &mut Vec<Owner>| {
                for by in 0..COORDINATORS {
                    let event = world.deed(name, by, Deed::Refresh);
                    served.extend(event.handed.map(|handed| handed.owner));
                }
            };
            let before = world.view(name);
            let mut served = Vec::new();
            refresh_all(&mut world, &mut served);
            let after = world.deed(name, 0, Deed::Refresh);
            let mut waiting = served.clone();
            waiting.extend(after.waiters());
            prop_assert_eq!(waiting.len(), before.waiters.len(), "a refresh takes nobody's place");

            let delays = waiting.iter().map(|owner| world.asked[owner.0].ask).map(|ask| ask.ttl + ask.lock_delay);
            let stands = after.after.holder.is_some() || after.after.closed_for.is_some();
            let mut patience = delays.sum::<std::time::Duration>() + REFRESH_INTERVAL * (waiting.len() as u32 + 1);
            if stands {
                patience += crate::steps::LONGEST * 2;
            }
            // A hand-off from another coordinator stands for the claim time at least.
            patience += leasehold_core::command::CLAIM_TIME * waiting.len() as u32;
            let end = world.now.after(patience);
            while served.len() < waiting.len() {
                prop_assert!(world.now < end, "served {served:?} of {waiting:?}");
                world.now = world.now.after(REFRESH_INTERVAL);
                refresh_all(&mut world, &mut served);
            }
            prop_assert_eq!(served, waiting);
        }
    }
}
