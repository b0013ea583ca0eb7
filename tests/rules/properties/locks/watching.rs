//! Properties of watching: every event arrives once and in order, and the mirror shows the lock's state.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use leasehold_core::{
    command::{Loss, Op, Reply},
    id::{FeedId, FencingToken},
    mode::Mode,
    name::LockName,
    time::Moment,
    view::{HoldView, HolderView, NameView},
    watch::{Event, EventKind, Leader, Mirror},
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::{self, Deed, Owner},
    steps::{NAMES, Step, steps},
    world::{World, name_of},
};

/// A world, and a watcher of all of it.
pub(crate) struct Watched {
    pub(crate) world: World,
    pub(crate) mirror: Mirror,
    pub(crate) events: Vec<Event>,
    pub(crate) looks: usize,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self {
            world: World::watched(),
            mirror: Mirror::default(),
            events: Vec::new(),
            looks: 0,
        }
    }

    /// Returns the watcher's own clock.
    pub(crate) fn here(&self) -> Moment {
        Moment::from_micros(self.world.now.as_micros().unsigned_abs())
    }

    pub(crate) fn take_in(&mut self) {
        for (name, telling) in self.world.told() {
            let (at, here) = (self.world.now, self.here());
            self.events
                .extend(self.mirror.tell(&name, at, telling, here));
        }
    }

    fn look(&mut self, name: &LockName) {
        let number = (0..NAMES).find(|number| name_of(*number) == *name).unwrap();
        let feed = FeedId::new(1);
        let reply = self.world.send(number, 0, &Op::Look { feed }).reply;
        assert_eq!(reply, Reply::Looked);
        self.take_in();
    }

    /// Looks at whatever is due.
    fn look_at_due(&mut self) {
        loop {
            let due = self.mirror.due(self.here(), 100);
            if due.is_empty() {
                return;
            }
            for name in due {
                self.looks += 1;
                self.look(&name);
            }
        }
    }

    /// Carries a step out. An acquire is not sent again once its TTL has passed.
    fn step(&mut self, step: &Step) -> Option<history::Event> {
        if let Step::AcquireAgain { name, .. } = step {
            let is_over =
                |holder: &HolderView| matches!(holder, HolderView::Ours(hold) if hold.is_over());
            if self.world.view(*name).holders.iter().any(is_over) {
                return None;
            }
        }
        let event = self.world.step(step);
        self.take_in();
        event
    }

    pub(crate) fn pause(&mut self, pause: Duration) {
        self.world.now = self.world.now.after(pause);
        self.look_at_due();
    }

    pub(crate) fn of(&self, name: usize) -> NameView {
        let name = name_of(name);
        let page = self.mirror.page("", None, 100, self.here());
        let found = page.into_iter().find(|(found, _)| *found == name);
        found.map(|(_, view)| view).unwrap_or_default()
    }
}

/// Returns the tokens of the holds that can still be renewed.
fn standing(view: &NameView) -> BTreeSet<FencingToken> {
    let ours = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(hold),
        HolderView::Foreign { .. } => None,
    });
    ours.filter(|hold| !hold.is_over())
        .map(|hold| hold.token)
        .collect()
}

pub(crate) fn hold_of(event: &Event) -> &HoldView {
    match &event.holder {
        Some(HolderView::Ours(hold)) => hold,
        other => panic!("{event:?} is about {other:?}"),
    }
}

const fn is_end(kind: EventKind) -> bool {
    use EventKind::{Expired, Forced, Lost, Released};
    matches!(kind, Released | Expired | Lost(_) | Forced)
}

proptest! {
    #![proptest_config(config())]

    /// Each grant's beginning is reported once, and its end once after that, each with the right cause; nothing is reported
    /// later.
    #[test]
    fn each_grant_is_told_to_begin_and_to_end(steps in steps(120)) {
        let mut watched = Watched::new();
        let (mut released, mut forced, mut not_renewed) = (BTreeSet::new(), false, false);
        for step in &steps {
            if let Step::Pause(pause) = step {
                watched.pause(*pause);
                continue;
            }
            if let Some(event) = watched.step(step) {
                match (event.deed, event.reply) {
                    (Deed::Release(owner, _), Reply::Released { held: true, .. }) => {
                        released.insert((event.name, owner));
                    }
                    (Deed::Force | Deed::ForceOne(_), Reply::Forced { released: true, .. }) => {
                        forced = true;
                    }
                    (_, Reply::Lost(Loss::Deleted | Loss::Taken)) => not_renewed = true,
                    _ => {}
                }
            }
        }
        // Everything runs out.
        for _ in 0..4 {
            watched.pause(Duration::from_secs(60));
        }
        prop_assert!(watched.mirror.is_empty(), "{:#?}", watched.mirror);

        let mut last = HashMap::<LockName, FencingToken>::new();
        let mut lives = BTreeMap::<(LockName, FencingToken), bool>::new();
        for event in &watched.events {
            if event.waiter.is_some() || (event.kind == EventKind::Forced && event.holder.is_none()) {
                continue;
            }
            let hold = hold_of(event);
            let life = (event.name.clone(), hold.token);
            if event.kind == EventKind::Granted {
                prop_assert!(lives.insert(life, true).is_none(), "granted twice: {event:#?}");
                let before = last.insert(event.name.clone(), hold.token);
                prop_assert!(before < Some(hold.token), "{event:#?}");
                continue;
            }
            prop_assert_eq!(lives.get(&life), Some(&true), "not while it lives: {:#?}", event);
            if is_end(event.kind) {
                lives.insert(life, false);
            }
            let owner = Owner(hold.client_name.as_str().parse().unwrap());
            let name = (0..NAMES).find(|number| name_of(*number) == event.name).unwrap();
            match event.kind {
                EventKind::Released => prop_assert!(released.contains(&(name, owner)), "{event:#?}"),
                EventKind::Forced => prop_assert!(forced, "{event:#?}"),
                EventKind::Lost(_) => prop_assert!(not_renewed, "{event:#?}"),
                _ => {}
            }
        }
        prop_assert!(lives.values().all(|lives| !lives), "not told to end: {lives:#?}");
    }

    /// Whenever nothing has just run out, the watcher knows who holds what, and how many wait where those are alive.
    #[test]
    fn the_watcher_knows_how_things_stand(steps in steps(120)) {
        let mut watched = Watched::new();
        for step in &steps {
            match step {
                Step::Pause(pause) => watched.pause(*pause),
                step => {
                    watched.step(step);
                }
            }
            // What has run out by now is found within this.
            for _ in 0..3 {
                watched.pause(Duration::from_millis(10));
            }
            for name in 0..NAMES {
                let view = watched.world.view(name);
                watched.take_in();
                let known = watched.of(name);
                let is_near = |time: Duration| time <= Duration::from_millis(10);
                let mut held = view.holders.iter().chain(&known.holders);
                let soon = held.any(|holder| match holder {
                    HolderView::Ours(hold) => is_near(hold.expires_in),
                    HolderView::Foreign { .. } => false,
                });
                if soon {
                    continue;
                }
                prop_assert_eq!(standing(&known), standing(&view), "{:#?}\nbut {:#?}", known, view);
                let exclusive = view.holders.iter().find_map(|holder| match holder {
                    HolderView::Ours(hold) if hold.mode == Mode::Exclusive => Some(hold),
                    _ => None,
                });
                let leader = watched.mirror.leader(&name_of(name));
                prop_assert_eq!(leader.as_ref().map(Leader::token), exclusive.filter(|hold| !hold.is_over()).map(|hold| hold.token));
                prop_assert_eq!(leader, Leader::of(&view).map(|leader| {
                    let hold = &watched.mirror.leader(&name_of(name)).unwrap().0;
                    // Renewals are not told: of when it ends, no more is known than that it is not before.
                    assert!(hold.value == leader.0.value);
                    Leader(hold.clone())
                }));
                let looked = {
                    watched.look(&name_of(name));
                    watched.of(name)
                };
                prop_assert_eq!(looked.waiter_count, view.waiter_count);
                prop_assert_eq!(looked.holder_count, standing(&view).len() as u64);
            }
        }
    }

    /// Grants that a look finds are told in the order in which they were made.
    #[test]
    fn a_look_tells_grants_in_order(steps in steps(80)) {
        let mut watched = Watched::new();
        for step in &steps {
            watched.step(step);
        }
        for number in 0..NAMES {
            // A watcher that has heard nothing before.
            watched.mirror = Mirror::default();
            watched.events.clear();
            watched.look(&name_of(number));
            let granted = watched.events.iter().filter(|event| event.kind == EventKind::Granted);
            let holders = granted.filter_map(|event| match &event.holder {
                Some(HolderView::Ours(hold)) => Some(hold.token),
                _ => None,
            });
            prop_assert!(holders.is_sorted());
        }
    }

    /// Watching changes nothing.
    #[test]
    fn the_same_happens_unwatched(steps in steps(80)) {
        let (mut watched, mut unwatched) = (World::watched(), World::new());
        for step in &steps {
            let (one, other) = (watched.step(step), unwatched.step(step));
            prop_assert_eq!(one.map(|event| (event.reply, event.after)), other.map(|event| (event.reply, event.after)));
        }
    }
}
