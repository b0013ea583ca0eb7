//! Properties of hand-offs: a free lock never passes by a living waiter that fits.

use std::time::Duration;

use leasehold_core::command::{GRANTS_AT_ONCE, Reply};
use leasehold_core::mode::Mode;
use proptest::{prelude::*, test_runner::TestCaseResult};

use crate::locks::{
    config,
    history::{Deed, Event},
    hold::Grant,
    model::Model,
    steps::{Step, steps, steps_with_floors_and_memories},
    world::World,
};

/// Returns whether a command had the lock in its hands: it asked for it, freed some of it, gave up a place, or looked whether
/// somebody fits. `before` is what was known before it.
fn hands_on(event: &Event, before: &Model, grants: &[Grant]) -> bool {
    match (event.deed, &event.reply) {
        (Deed::Acquire(owner, _), Reply::Granted { .. }) => {
            grants.iter().any(|grant| grant.hold.owner == owner)
        }
        (Deed::Acquire(..), Reply::Queued { .. } | Reply::Busy { .. }) => true,
        (
            Deed::Release(..),
            Reply::Released {
                held,
                waited,
                closed_for,
            },
        ) => (*held || *waited) && closed_for.is_none(),
        (Deed::Downgrade(owner), Reply::Changed(true)) => {
            let hold = before.ledger.get(owner);
            hold.is_some_and(|hold| hold.mode == Mode::Exclusive)
        }
        (Deed::Reduce(owner, most), Reply::Changed(true)) => {
            let hold = before.ledger.get(owner);
            hold.is_some_and(|hold| hold.mode.permits() > most)
        }
        (Deed::Resume(_), Reply::Resumed { token, .. }) => {
            grants.iter().any(|grant| grant.hold.token == *token)
        }
        (Deed::Resume(_), Reply::ResumedWait { .. }) => true,
        (Deed::Refresh(_) | Deed::Force, _) => true,
        (Deed::ForceOne(_), Reply::Forced { released, .. }) => *released,
        _ => false,
    }
}

/// Histories of every kind: also those in which floors run ahead, memories are short, and the clock steps.
pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let furthest = Duration::from_secs(1000);
    prop_oneof![
        2 => steps(160).boxed(),
        1 => steps_with_floors_and_memories(160, furthest, false).boxed(),
        1 => steps_with_floors_and_memories(160, furthest, true).boxed(),
    ]
}

/// Carries steps out, and looks at each event with the model of its name. A step that is none has the rules and the models drop what
/// is over, so that a later step back of the clock revives the same in both.
pub(crate) fn each_event(
    steps: &[Step],
    mut look: impl FnMut(&World, &mut Model, &Event) -> TestCaseResult,
) -> TestCaseResult {
    let mut world = World::new();
    let mut models = Model::of_all_names();
    for step in steps {
        if let Some(event) = world.step(step) {
            look(&world, &mut models[event.name], &event)?;
            continue;
        }
        for (name, model) in models.iter_mut().enumerate() {
            world.view(name);
            model.pass(world.now);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// After a command that hands on, the next living waiter does not fit, because neighbours in the queue that fit together
    /// were granted the lock together. The reply says if there were too many for one command.
    #[test]
    fn no_living_waiter_is_left_that_fits(steps in any_steps()) {
        each_event(&steps, |world, model, event| {
            let before = model.clone();
            let grants = model.enter(event, &world.asked);
            if hands_on(event, &before, &grants) {
                let fits = model.next_fits(event.at);
                prop_assert_eq!(event.more, fits, "{:#?} with {:#?}", event, model);
                prop_assert!(!fits || grants.len() == GRANTS_AT_ONCE, "{event:#?}");
            } else {
                prop_assert!(grants.is_empty() && !event.more, "{event:#?}");
            }
            Ok(())
        })?;
    }

    /// No caller is refused a free lock unless a living waiter is before it, and no caller waits that did not ask to.
    #[test]
    fn nobody_is_refused_what_fits(steps in any_steps()) {
        each_event(&steps, |world, model, event| {
            model.enter(event, &world.asked);
            let Deed::Acquire(owner, wait) = event.deed else { return Ok(()) };
            let ask = world.asked[owner.0].ask;
            let waits = model.line.position(owner).is_some();
            match event.reply {
                Reply::Busy { .. } => {
                    let behind = model.line.first_living(event.at).is_some();
                    prop_assert!(behind || !model.ledger.fits(ask.mode), "{event:#?}");
                    prop_assert!(!wait);
                }
                Reply::Queued { .. } => {
                    prop_assert!(!event.is_free(), "{event:#?}");
                    prop_assert!(wait && waits);
                }
                Reply::Granted { .. } => prop_assert!(model.ledger.get(owner).is_some() && !waits),
                _ => {}
            }
            Ok(())
        })?;
    }
}
