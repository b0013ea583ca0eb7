//! Absence of leftovers.

use std::time::Duration;

use leasehold_core::{
    command::{Caller, Command, End, Op, PLACES_KEPT, Reply},
    id::{CoordinatorId, FencingToken},
    lock::LockState,
    mode::Mode,
    name::LockName,
    table::LockTable,
    time::StoreTime,
    view::NameView,
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::{Deed, Owner},
    steps::{Ask, LONGEST, NAMES, steps},
    world::{TOKEN_MEMORY, World},
};

/// Time after which the last trace of every unused thing is gone.
const ALL_GONE: Duration = TOKEN_MEMORY.saturating_add(PLACES_KEPT);

proptest! {
    #![proptest_config(config())]

    /// Once everybody has released or cancelled, or was lost, no name is in use, and when its token need not be remembered
    /// any more the table is empty.
    #[test]
    fn nothing_is_left_of_what_was_ended(steps in steps(100), clean in any::<bool>()) {
        let end = if clean { End::Clean } else { End::Unclean };
        let mut world = World::new();
        world.run(&steps);
        // What one releases goes to another who has not released yet.
        for number in 0..world.asked.len() {
            let asked = world.asked[number];
            world.deed(asked.name, asked.by, Deed::Release(Owner(number), end));
        }
        for name in 0..NAMES {
            let view = world.view(name);
            prop_assert_eq!((view.holder_count, view.waiter_count), (0, 0));
        }
        // Closed names are in use until their lock-delay is over.
        world.now = world.now.after(LONGEST);
        for name in 0..NAMES {
            let view = world.view(name);
            prop_assert_eq!(&view, &NameView { token: view.token, ..NameView::default() });
        }
        prop_assert_eq!(world.table.names("", None, world.now), vec![]);
        world.now = world.now.after(ALL_GONE);
        sweep(&mut world);
        prop_assert!(world.table.is_empty(), "{:?}", world.table);
    }

    /// The same where everybody fell silent instead.
    #[test]
    fn nothing_is_left_of_what_fell_silent(steps in steps(100)) {
        let mut world = World::new();
        world.run(&steps);
        world.now = world.now.after(ALL_GONE);
        sweep(&mut world);
        prop_assert!(world.table.is_empty(), "{:?}", world.table);
    }

    /// A single lock says when nothing will be left of it, and holds to that.
    #[test]
    fn a_lock_is_forgotten_when_it_said(steps in steps(100)) {
        let mut world = World::new();
        let mut lock = LockState::default();
        let mut last = world.now;
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            if event.name == 0 {
                let late = event.reply == Reply::Late;
                if !late {
                    lock.apply(&world.caller(event.by), &world.op(event.deed), event.at);
                }
                last = event.at;
            }
        }
        let silent = last.after(ALL_GONE);
        let forgettable = lock.forgettable_at();
        prop_assert!(forgettable.is_none_or(|at| at <= silent), "{forgettable:?}");
        let mut early = lock.clone();
        if let Some(at) = forgettable
            && at > last
        {
            prop_assert!(!early.is_forgotten(at.before(Duration::from_micros(1))));
        }
        prop_assert!(lock.is_forgotten(silent));
        prop_assert_eq!(lock.forgettable_at(), None);
        prop_assert_eq!(lock.deadlines(), vec![]);
        prop_assert!(!lock.in_use(silent));
    }

    /// However many names there were, the table shrinks with the commands that follow: some for each, and none on the
    /// forgotten names themselves.
    #[test]
    fn names_that_are_not_used_any_more_are_swept(
        names in 1..300_usize,
        pauses in prop::collection::vec(0..100_u64, 300),
    ) {
        let mut world = World::new();
        for (name, pause) in (0..names).zip(pauses) {
            world.now = world.now.after(Duration::from_millis(pause));
            world.ask(name, 0, Ask::waiting(Mode::Exclusive));
        }
        prop_assert_eq!(world.table.len(), names);
        world.now = world.now.after(ALL_GONE);
        for _ in 0..names {
            look_elsewhere(&mut world.table, world.now);
        }
        prop_assert!(world.table.is_empty(), "{} of {names} are left", world.table.len());
    }
}

/// Commands on another name, as many as it may take.
fn sweep(world: &mut World) {
    for _ in 0..NAMES {
        look_elsewhere(&mut world.table, world.now);
    }
}

fn look_elsewhere(table: &mut LockTable, now: StoreTime) {
    let command = Command {
        name: LockName::parse("elsewhere").unwrap(),
        caller: Caller {
            coordinator: CoordinatorId::new("elsewhere"),
            floor: FencingToken::default(),
            token_memory: TOKEN_MEMORY,
            not_after: None,
        },
        op: Op::view(0),
    };
    let reply = table.apply(&command, now).reply;
    assert!(matches!(reply, Reply::Seen(_)));
}
