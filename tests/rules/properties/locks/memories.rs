//! Fencing tokens under floors that run ahead of the store's clock, short memories, and steps of that clock.

use std::{collections::HashMap, time::Duration};

use leasehold_core::command::Reply;
use proptest::{prelude::*, test_runner::TestCaseResult};

use crate::locks::{
    config,
    history::{Deed, Event, Owner},
    steps::{NAMES, Step, steps_with_floors_and_memories},
    world::World,
};

/// The furthest that a floor or a step of the clock goes in a random history.
const FURTHEST: Duration = Duration::from_secs(1000);

/// A name's newest token, and what its record has gone through since.
#[derive(Clone, Copy, Default)]
struct Newest {
    token: i64,
    /// The latest that the store's clock has been since the token was minted.
    latest: i64,
    /// The shortest memory that any command has asked for since.
    memory: i64,
}

impl Newest {
    /// Returns whether the record's life was over at some time: the memory after the token's own time had passed.
    fn may_be_forgotten(&self) -> bool {
        self.latest >= self.token + self.memory
    }
}

/// Every grant of a history, from its replies alone.
struct Grants {
    newest: [Newest; NAMES],
    tokens: HashMap<Owner, i64>,
}

impl Grants {
    fn new() -> Self {
        Self {
            newest: [Newest::default(); NAMES],
            tokens: HashMap::new(),
        }
    }

    /// Carries a step out and checks each token that it mints.
    fn step(&mut self, world: &mut World, step: &Step) -> TestCaseResult {
        let event = world.step(step);
        for newest in &mut self.newest {
            newest.latest = newest.latest.max(world.now.as_micros());
            newest.memory = newest.memory.min(micros(world.token_memory));
        }
        let Some(event) = event else { return Ok(()) };
        let mut minted = Vec::new();
        for handed in &event.handed {
            self.tokens.insert(handed.owner, handed.token.get());
            minted.push(handed.token.get());
        }
        match (event.deed, &event.reply) {
            (Deed::Acquire(owner, _), Reply::Granted { token, .. }) => {
                let before = self.tokens.insert(owner, token.get());
                // The same token again: the reply was lost, and the grant stands.
                let is_new = before != Some(token.get());
                minted.extend(is_new.then_some(token.get()));
            }
            (
                Deed::Force,
                Reply::Forced {
                    token,
                    released: true,
                    ..
                },
            ) if minted.is_empty() => minted.push(token.get()),
            (
                Deed::ForceOne(_),
                Reply::Forced {
                    token,
                    released: true,
                    ..
                },
            ) if minted.is_empty() && token.get() > self.newest[event.name].token => {
                minted.push(token.get());
            }
            (Deed::Resume(resumption), Reply::Resumed { token, .. }) => {
                self.tokens.insert(resumption.next, token.get());
                // Otherwise it is that of a grant before; this one came to a place in the queue.
                let is_new = token.get() > self.newest[event.name].token;
                minted.extend(is_new.then_some(token.get()));
            }
            _ => {}
        }
        minted.sort_unstable();
        for (before, token) in minted.iter().enumerate() {
            self.minted(world, &event, *token, before)?;
        }
        Ok(())
    }

    /// Checks a token that an event minted, after so many others of its own.
    fn minted(
        &mut self,
        world: &World,
        event: &Event,
        token: i64,
        before: usize,
    ) -> TestCaseResult {
        let newest = self.newest[event.name];
        let now = event.at.as_micros();
        let memory = micros(world.token_memory);
        prop_assert!(
            token > newest.token || newest.may_be_forgotten(),
            "{token} was minted after {}, which the store had to remember: {event:#?}",
            newest.token
        );
        // A force release mints one itself before it hands the lock on.
        let most = i64::try_from(before).unwrap() + 1;
        prop_assert!(
            token <= (newest.token + 2).max(now + memory + most),
            "{token} is {} µs ahead of the clock, and {} was the newest: {event:#?}",
            token - now,
            newest.token
        );
        self.newest[event.name] = Newest {
            token,
            latest: now,
            memory,
        };
        Ok(())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

proptest! {
    #![proptest_config(config())]

    /// Tokens rise with any floors and memories, as long as the clock never runs backwards.
    #[test]
    fn tokens_rise_whatever_floors_and_memories_are(
        steps in steps_with_floors_and_memories(160, FURTHEST, false),
    ) {
        let mut world = World::new();
        let mut grants = Grants::new();
        for step in &steps {
            grants.step(&mut world, step)?;
            for newest in &mut grants.newest {
                // Then no record is forgotten before the clock has passed its token.
                newest.latest = 0;
            }
        }
    }

    /// Tokens also rise if the clock steps back and forward, unless it steps back to before a token that had to be forgotten.
    #[test]
    fn tokens_rise_over_clock_steps_while_they_are_remembered(
        steps in steps_with_floors_and_memories(160, FURTHEST, true),
    ) {
        let mut world = World::new();
        let mut grants = Grants::new();
        for step in &steps {
            grants.step(&mut world, step)?;
        }
    }
}
