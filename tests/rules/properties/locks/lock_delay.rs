//! Lock-delay: a lock stays taken for a while after an unclean end, and not after a clean one.

use std::time::Duration;

use leasehold_core::{
    command::{End, Loss, REFRESH_INTERVAL, Reply},
    mode::Mode,
};
use proptest::{prelude::*, sample::select};

use crate::locks::{
    config,
    history::{Deed, Owner},
    model::Model,
    modes::go_together,
    steps::{Ask, LONGEST, NAMES, a_mode, permits, steps},
    world::World,
};

/// A moment, as the store counts them.
const MOMENT: Duration = Duration::from_micros(1);

proptest! {
    #![proptest_config(config())]

    /// After a hold ran out, or ended because its client was lost, the name is granted before the end of the lock-delay only to
    /// callers that could have held it beside that hold.
    #[test]
    fn an_unclean_end_keeps_what_was_taken_closed(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            for grant in models[event.name].enter(&event, &world.asked) {
                let held = grant.beside.iter().map(|hold| hold.mode);
                let mut modes: Vec<Mode> = held.chain(grant.closed.iter().copied()).collect();
                modes.push(grant.hold.mode);
                prop_assert!(go_together(&modes), "{grant:#?} at {event:#?}");
            }
        }
    }

    /// A release by its client closes nothing, and a force release opens what was closed.
    #[test]
    fn a_clean_end_leaves_nothing_closed(steps in steps(160)) {
        let mut world = World::new();
        for step in &steps {
            let closed: [_; NAMES] = std::array::from_fn(|name| world.view(name).closed_for);
            let Some(event) = world.step(step) else { continue };
            match (event.deed, &event.reply) {
                (Deed::Release(_, End::Clean), Reply::Released { closed_for, .. }) => {
                    prop_assert_eq!(*closed_for, None);
                    prop_assert_eq!(event.after.closed_for, closed[event.name], "{:#?}", event);
                }
                (Deed::Force, _) => prop_assert_eq!(event.after.closed_for, None, "{:#?}", event),
                _ => {}
            }
        }
    }

    /// While the lock-delay runs, to the microsecond, exactly those callers get in at once that would have got in beside the
    /// hold; the others when it has passed. The view shows the lock-delay, but no holder.
    #[test]
    fn a_lock_delay_keeps_out_whom_the_hold_kept_out(
        (left, next) in (a_mode(), a_mode()),
        delay in (1..5_000_u64).prop_map(Duration::from_millis),
        part in 0.0..1.0_f64,
    ) {
        let mut world = World::new();
        let mut ask = Ask { lock_delay: delay, ..Ask::waiting(left) };
        let owner = Owner(0);
        world.ask(0, 0, ask);
        let end = world.deed(0, 0, Deed::Release(owner, End::Unclean));
        prop_assert_eq!(end.after.closed_for, Some(delay));
        prop_assert_eq!(end.after.permits_taken, u64::from(left.permits()));
        prop_assert_eq!((end.after.holders.len(), end.after.holder_count), (0, 0));
        prop_assert_eq!(world.edges(0).holders, vec![]);

        let over = world.now.after(delay);
        world.now = world.now.after(delay.mul_f64(part)).min(over.before(MOMENT));
        prop_assert_eq!(world.view(0).closed_for, Some(world.now.until(over)));
        for (deed, nothing) in [
            (Deed::Renew(owner, delay), Reply::Lost(Loss::Taken)),
            (Deed::SetValue(owner, 1), Reply::Changed(false)),
            (Deed::SetCount(owner, 2), Reply::Changed(false)),
            (Deed::Downgrade(owner), Reply::Changed(false)),
            (Deed::Reduce(owner, 1), Reply::Changed(false)),
            (Deed::Release(owner, End::Clean), Reply::Released { held: false, waited: false, closed_for: None }),
        ] {
            prop_assert_eq!(world.deed(0, 0, deed).reply, nothing, "{:?}", deed);
        }

        ask = Ask { wait: false, ..Ask::waiting(next) };
        let beside = world.ask(0, 0, ask);
        prop_assert_eq!(matches!(beside.reply, Reply::Granted { .. }), go_together(&[left, next]));
        world.deed(0, 0, Deed::Release(Owner(1), End::Clean));
        world.now = over.before(MOMENT);
        let before = world.ask(0, 0, ask);
        prop_assert_eq!(matches!(before.reply, Reply::Granted { .. }), go_together(&[left, next]));
        world.deed(0, 0, Deed::Release(Owner(2), End::Clean));
        prop_assert_eq!(world.table.names("", None, world.now).len(), 1, "closed is in use");
        world.now = over;
        prop_assert_eq!(world.table.names("", None, world.now), vec![]);
        let after = world.ask(0, 0, ask);
        prop_assert!(matches!(after.reply, Reply::Granted { .. }), "{after:#?}");
        prop_assert_eq!((after.after.closed_for, after.after.permits_taken), (None, u64::from(next.permits())));
    }

    /// A client whose reply was lost may take the lock once more beside what its own lock-delay keeps. When that hold ends
    /// uncleanly too, only the later end counts, and its permits are closed once.
    #[test]
    fn a_second_end_takes_the_place_of_the_first(
        left in select(vec![Mode::Shared, permits(1, 3)]),
        delay in (2..5_000_u64).prop_map(Duration::from_millis),
        part in 0.0..1.0_f64,
    ) {
        let mut world = World::new();
        let owner = Owner(0);
        world.ask(0, 0, Ask { lock_delay: delay, ..Ask::waiting(left) });
        world.deed(0, 0, Deed::Release(owner, End::Unclean));
        world.now = world.now.after(delay.mul_f64(part)).min(world.now.after(delay).before(MOMENT));
        let again = world.deed(0, 0, Deed::Acquire(owner, true));
        prop_assert!(matches!(again.reply, Reply::Granted { .. }), "{again:#?}");
        prop_assert_eq!(again.after.permits_taken, 2 * u64::from(left.permits()));
        let end = world.deed(0, 0, Deed::Release(owner, End::Unclean));
        prop_assert_eq!(end.after.permits_taken, u64::from(left.permits()));
        let over = world.now.after(delay);
        world.now = over.before(MOMENT);
        prop_assert_eq!(world.view(0).closed_for, Some(MOMENT));
        world.now = over;
        let seen = world.view(0);
        prop_assert_eq!((seen.closed_for, seen.permits_taken, seen.limit), (None, 0, None));
    }

    /// A hold that ran out meanwhile is handed on by the next refresh, not by an end that closes something.
    #[test]
    fn an_end_that_closes_something_hands_nothing_on(clean in any::<bool>()) {
        let mut world = World::new();
        let short = Ask { ttl: REFRESH_INTERVAL, ..Ask::waiting(permits(2, 3)) };
        world.ask(0, 0, short);
        world.ask(0, 0, Ask { lock_delay: LONGEST, ..Ask::waiting(permits(1, 3)) });
        world.ask(0, 0, Ask::waiting(permits(2, 3)));
        world.now = world.now.after(REFRESH_INTERVAL);
        let end = if clean { End::Clean } else { End::Unclean };
        let ended = world.deed(0, 0, Deed::Release(Owner(1), end));
        prop_assert_eq!(ended.handed_to(), Vec::from_iter(clean.then_some(Owner(2))));
        let refreshed = world.deed(0, 0, Deed::Refresh(None));
        prop_assert_eq!(refreshed.handed_to(), Vec::from_iter((!clean).then_some(Owner(2))));
    }
}
