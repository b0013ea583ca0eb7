//! At most one holds.

use proptest::prelude::*;

use crate::{config, history::World, ledger::Ledger, steps::steps};

proptest! {
    #![proptest_config(config())]

    /// Two grants of a name never overlap in the store's time: each counts from its reply until it is released, taken
    /// away or over, as far as its renewals and confirmations have put that off.
    #[test]
    fn no_two_grants_of_a_name_overlap(steps in steps(120)) {
        let mut world = World::new();
        let mut ledgers = Ledger::for_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            if let Some(grant) = ledgers[event.name].enter(&event, &world.asked)
                && let Some(before) = grant.before
            {
                prop_assert!(
                    before.until <= grant.hold.from,
                    "{:?} overlaps {before:?} at {event:?}",
                    grant.hold
                );
            }
        }
    }

    /// Whoever is told that it holds does, nobody is told that it lost a lock before its time was over, and nothing is
    /// renewed after it was.
    #[test]
    fn a_hold_lasts_as_long_as_was_promised_and_no_longer(steps in steps(120)) {
        let mut world = World::new();
        let mut ledgers = Ledger::for_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            let ledger = &mut ledgers[event.name];
            ledger.enter(&event, &world.asked);
            prop_assert!(ledger.contradictions.is_empty(), "{:#?}", ledger.contradictions);
        }
    }
}
