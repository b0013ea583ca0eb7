//! After an unclean end a name stays closed for a while, after a clean one it does not.

use leasehold_core::command::{End, Reply};
use proptest::prelude::*;

use crate::{
    config,
    history::{Deed, World},
    ledger::Ledger,
    steps::steps,
};

proptest! {
    #![proptest_config(config())]

    /// Where a hold ran out, or was ended because its client was lost, nobody is granted the name before its lock-delay
    /// has passed as well.
    #[test]
    fn an_unclean_end_keeps_the_name_closed(steps in steps(120)) {
        let mut world = World::new();
        let mut ledgers = Ledger::for_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            if let Some(grant) = ledgers[event.name].enter(&event, &world.asked) {
                prop_assert!(grant.hold.from >= grant.open_from, "{grant:?} at {event:?}");
            }
        }
    }

    /// A release by its client and a force release leave the name open, and whoever asks next has it at once.
    #[test]
    fn a_clean_end_leaves_the_name_open(steps in steps(120)) {
        let mut world = World::new();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            let clean = match (event.deed, &event.reply) {
                (Deed::Release(_, End::Clean), Reply::Released { held, closed_for, .. }) => {
                    prop_assert_eq!(*closed_for, None);
                    *held
                }
                (Deed::Force, _) => true,
                _ => false,
            };
            if clean {
                prop_assert_eq!(event.after.closed_for, None, "{:?}", event);
            }
            // Nobody has to wait unless somebody holds or a lock-delay runs.
            if let Reply::Busy { .. } | Reply::Queued { .. } = event.reply {
                prop_assert!(!event.is_free(), "{event:?}");
            }
        }
    }
}
