//! Lost hand-offs: a coordinator that missed one learns of it when it refreshes.

use leasehold_core::{
    command::{CURRENT_AT_ONCE, Current, End, Reply},
    mode::Mode,
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::{Deed, Owner},
    hold::Hold,
    model::Model,
    modes::chosen,
    steps::{Ask, COORDINATORS, NAMES, steps},
    world::World,
};

/// Returns the holds that a refresh reports to a coordinator: its exclusive holds, and the grants to its waiters that have not
/// been renewed since the hand-off.
fn due(model: &Model, by: usize, world: &World) -> Vec<Current> {
    let holds = model.ledger.holds.iter();
    let mut holds: Vec<&Hold> = holds
        .filter(|hold| hold.coordinator == by)
        .filter(|hold| hold.fresh || hold.mode == Mode::Exclusive)
        .collect();
    holds.sort_unstable_by_key(|hold| hold.token);
    let current = holds.iter().map(|hold| Current {
        owner: hold.owner.id(),
        token: hold.token,
        permits: chosen(hold.mode),
        of_session: !world.asked[hold.owner.0].ask.unary,
    });
    current.take(CURRENT_AT_ONCE).collect()
}

proptest! {
    #![proptest_config(config())]

    /// Every hand-off is told by each refresh of its coordinator until it is renewed or over, and by nobody else's. Who
    /// holds a lock alone is told always.
    #[test]
    fn a_hand_off_is_told_until_it_is_renewed(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            models[event.name].enter(&event, &world.asked);
            if let Reply::Refreshed { current, .. } = &event.reply {
                let due = due(&models[event.name], event.by, &world);
                prop_assert_eq!(current, &due, "{:#?}", event);
            }
        }
        // Whatever is open at the end is told too.
        for (name, by) in (0..NAMES).flat_map(|name| (0..COORDINATORS).map(move |by| (name, by))) {
            let event = world.deed(name, by, Deed::Refresh(None));
            models[name].enter(&event, &world.asked);
            let Reply::Refreshed { current, .. } = &event.reply else { panic!("{event:?}") };
            prop_assert_eq!(current, &due(&models[name], by, &world), "{:#?}", event);
        }
    }

    /// A hold that asked for a downgrade is not reported, though it has not renewed: its client knows that it holds. The holds
    /// that were let in with it are reported.
    #[test]
    fn a_downgrade_is_not_told(by in 0..COORDINATORS, readers in 0..5_usize) {
        let mut world = World::new();
        world.ask(0, 0, Ask::waiting(Mode::Exclusive));
        world.ask(0, by, Ask::waiting(Mode::Exclusive));
        for _ in 0..readers {
            world.ask(0, by, Ask::waiting(Mode::Shared));
        }
        world.deed(0, 0, Deed::Release(Owner(0), End::Clean));
        let told = |world: &mut World| match world.deed(0, by, Deed::Refresh(None)).reply {
            Reply::Refreshed { current, .. } => {
                Vec::from_iter(current.iter().map(|current| Owner::of(&current.owner)))
            }
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(told(&mut world), vec![Owner(1)]);
        world.deed(0, by, Deed::Downgrade(Owner(1)));
        let others: Vec<_> = (2..2 + readers).map(Owner).collect();
        prop_assert_eq!(told(&mut world), others);
    }
}
