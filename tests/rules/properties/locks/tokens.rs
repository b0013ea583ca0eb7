//! Order of fencing tokens: they rise.

use std::time::Duration;

use leasehold_core::{command::Reply, id::FencingToken, table::LockTable};
use proptest::{collection::vec, prelude::*, test_runner::TestCaseResult};

use crate::locks::{
    config,
    history::{Deed, Event},
    model::Model,
    steps::{NAMES, Step, steps, steps_with_clock_set_back},
    world::World,
};

/// The newest token of each name, and who holds what.
struct Tokens {
    newest: [FencingToken; NAMES],
    models: [Model; NAMES],
}

impl Tokens {
    fn new() -> Self {
        Self {
            newest: [FencingToken::default(); NAMES],
            models: Model::of_all_names(),
        }
    }

    fn enter(&mut self, event: &Event, world: &World) -> TestCaseResult {
        let newest = &mut self.newest[event.name];
        for grant in self.models[event.name].enter(event, &world.asked) {
            let token = grant.hold.token;
            prop_assert!(token > *newest, "{newest:?} was before {event:#?}");
            *newest = token;
        }
        let handed: Vec<_> = event.handed.iter().map(|handed| handed.token).collect();
        prop_assert!(handed.is_sorted(), "{event:#?}");
        if let Reply::Forced {
            token, released, ..
        } = event.reply
        {
            // One that hands the lock on tells the last grant's.
            let risen = token > *newest || (!handed.is_empty() && token == *newest);
            let may_stay = matches!(event.deed, Deed::ForceOne(_)) && token == *newest;
            prop_assert!(
                !released || risen || may_stay,
                "{newest:?} was before {event:#?}"
            );
            *newest = token.max(*newest);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(config())]

    /// Over releases, expiry, force releases, and after the name's record has run out.
    #[test]
    fn tokens_rise(steps in steps(160)) {
        let mut world = World::new();
        let mut tokens = Tokens::new();
        for step in &steps {
            if let Some(event) = world.step(step) {
                tokens.enter(&event, &world)?;
            }
        }
    }

    /// While the name's record stands, also where the store's clock is set back by whatever it be.
    #[test]
    fn tokens_rise_while_the_clock_is_set_back(
        steps in steps_with_clock_set_back(160, Duration::from_secs(1_000_000)),
    ) {
        let mut world = World::new();
        world.token_memory = Duration::from_secs(100_000_000_000);
        let mut tokens = Tokens::new();
        for step in &steps {
            if let Some(event) = world.step(step) {
                tokens.enter(&event, &world)?;
            }
        }
    }

    /// Tokens rise even if the store loses its data, as long as its clock goes on.
    #[test]
    fn tokens_rise_over_lost_data_by_the_clock(lives in vec(steps(40), 1..5)) {
        let mut world = World::new();
        let mut tokens = Tokens::new();
        for steps in &lives {
            world.table = LockTable::default();
            // A moment, since a token is ahead of the clock where several were minted within a microsecond.
            world.now = world.now.after(Duration::from_millis(1));
            tokens.models = Model::of_all_names();
            for step in steps {
                if let Some(event) = world.step(step) {
                    tokens.enter(&event, &world)?;
                }
            }
        }
    }

    /// Tokens rise even if the store loses its data and its clock is behind, as long as the granting coordinator has seen the
    /// last token: its floor is one more than the largest token that it has seen of any name.
    #[test]
    fn tokens_rise_over_lost_data_by_the_floor(
        lives in vec(steps_with_clock_set_back(40, Duration::from_secs(1_000_000)), 1..5),
    ) {
        let mut world = World::with_floors();
        // The floor counts for no more than the memory: it covers every step of the clock here.
        world.token_memory = Duration::from_secs(100_000_000_000);
        let mut tokens = Tokens::new();
        for steps in &lives {
            world.table = LockTable::default();
            tokens.models = Model::of_all_names();
            for step in steps {
                if let Some(event) = world.step(&by_one_coordinator(step.clone())) {
                    tokens.enter(&event, &world)?;
                }
            }
        }
    }
}

fn by_one_coordinator(mut step: Step) -> Step {
    match &mut step {
        Step::Acquire { by, .. }
        | Step::Refresh { by, .. }
        | Step::Force { by, .. }
        | Step::ForceOne { by, .. }
        | Step::Resume { by, .. } => *by = 0,
        Step::Renew { elsewhere, .. } => *elsewhere = None,
        _ => {}
    }
    step
}
