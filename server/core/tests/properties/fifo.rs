//! First come, first served, among the living.

use std::collections::HashMap;

use leasehold_core::{
    command::{DEAD_AFTER, PLACES_KEPT, Reply},
    id::FencingToken,
    time::StoreTime,
};
use proptest::{prelude::*, test_runner::TestCaseResult};

use crate::{
    config,
    history::{Asked, Deed, Event, Owner, World},
    steps::{NAMES, steps},
};

/// Who waits for one name, in the order in which they came, and when each coordinator last showed that it lives.
#[derive(Default)]
struct Line {
    waiters: Vec<Owner>,
    signs: HashMap<usize, StoreTime>,
    last_grant: Option<(Owner, FencingToken)>,
}

impl Line {
    fn enter(&mut self, event: &Event, asked: &[Asked]) -> TestCaseResult {
        self.give_up_places(event.at, asked);
        match (event.deed, &event.reply) {
            (Deed::Acquire(owner), Reply::Granted { token }) => {
                if self.last_grant == Some((owner, *token)) {
                    return Ok(()); // Told once more.
                }
                if asked[owner.0].ask.wait {
                    self.join(owner, event);
                    self.serve(owner, event, asked)?;
                } else {
                    prop_assert_eq!(self.first_living(event.at, asked), None, "{:?}", event);
                }
                self.last_grant = Some((owner, *token));
            }
            (Deed::Acquire(owner), Reply::Queued { position, .. }) => {
                self.join(owner, event);
                // The place is told as it is after a hand-off that the acquire brought about.
                let handed = event.handed.map(|handed| handed.owner);
                let ahead = self
                    .waiters
                    .iter()
                    .filter(|waiter| Some(**waiter) != handed);
                let place = ahead.take_while(|waiter| **waiter != owner).count() + 1;
                prop_assert_eq!(*position, place as u64);
            }
            (Deed::Release(owner, _), Reply::Released { waited, .. }) => {
                prop_assert_eq!(*waited, self.waiters.contains(&owner));
                self.waiters.retain(|waiter| *waiter != owner);
            }
            (Deed::Refresh, _) => {
                self.signs.insert(event.by, event.at);
            }
            _ => {}
        }
        if let Some(handed) = event.handed {
            self.serve(handed.owner, event, asked)?;
            prop_assert_eq!(handed.coordinator, asked[handed.owner.0].by);
            self.last_grant = Some((handed.owner, handed.token));
        }
        prop_assert_eq!(&event.waiters(), &self.waiters, "{:?}", event);
        Ok(())
    }

    fn join(&mut self, owner: Owner, event: &Event) {
        self.signs.insert(event.by, event.at);
        if !self.waiters.contains(&owner) {
            self.waiters.push(owner);
        }
    }

    /// A grant went to a waiter: it must have been its turn.
    fn serve(&mut self, owner: Owner, event: &Event, asked: &[Asked]) -> TestCaseResult {
        let first = self.first_living(event.at, asked);
        prop_assert_eq!(Some(owner), first, "out of turn: {:?}", event);
        self.waiters.retain(|waiter| *waiter != owner);
        Ok(())
    }

    fn first_living(&self, now: StoreTime, asked: &[Asked]) -> Option<Owner> {
        let mut waiters = self.waiters.iter();
        let first = waiters.find(|waiter| now < self.sign(**waiter, asked).after(DEAD_AFTER));
        first.copied()
    }

    fn give_up_places(&mut self, now: StoreTime, asked: &[Asked]) {
        let waiters = std::mem::take(&mut self.waiters).into_iter();
        let kept = |waiter: &Owner| now < self.sign(*waiter, asked).after(PLACES_KEPT);
        self.waiters = waiters.filter(kept).collect();
    }

    fn sign(&self, waiter: Owner, asked: &[Asked]) -> StoreTime {
        self.signs[&asked[waiter.0].by]
    }
}

proptest! {
    #![proptest_config(config())]

    /// Every grant to a waiter goes to the one that came first of those whose coordinator has shown within the last two
    /// seconds that it lives. The others keep their places for ten seconds, and nobody else moves.
    #[test]
    fn waiters_are_served_in_the_order_in_which_they_came(steps in steps(150)) {
        let mut world = World::new();
        let mut lines: [Line; NAMES] = std::array::from_fn(|_| Line::default());
        for step in &steps {
            if let Some(event) = world.step(step) {
                lines[event.name].enter(&event, &world.asked)?;
            }
        }
    }
}
