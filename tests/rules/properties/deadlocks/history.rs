//! Passes over a changing world: the detector finds no actor stuck that was not, at any moment between them.

use std::collections::{BTreeSet, HashMap};

use leasehold_core::{
    deadlock::{BlockedWait, Pass, find, stuck},
    mode::Mode,
};
use proptest::prelude::*;

use crate::deadlocks::{
    agreement::{waiting_in_vain, whose},
    config,
    generate::{NAMES, mode, ring, who},
    town::{Edge, S, Town, Who, X, blocked, name},
};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Acquire(usize, Who, Mode),
    Release(usize),
    Cancel(usize),
    Downgrade(usize),
    /// A coordinator confirms a hand-off, and its waiter learns of it.
    Confirm(usize),
    /// A hand-off was not confirmed in time: its waiter, who never learnt of it, joins again with its ticket.
    Rejoin(usize),
    /// A session moves to another stream, with new owner ids and tickets.
    Resume(u32),
    /// A hold is taken away, whatever its actor does.
    Force(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..64_usize;
    prop_oneof![
        12 => (0..NAMES, who(), mode()).prop_map(|(name, who, mode)| Step::Acquire(name, who, mode)),
        6 => any.clone().prop_map(Step::Release),
        2 => any.clone().prop_map(Step::Cancel),
        2 => any.clone().prop_map(Step::Downgrade),
        3 => any.clone().prop_map(Step::Confirm),
        3 => any.clone().prop_map(Step::Rejoin),
        1 => (1..=5_u32).prop_map(Step::Resume),
        1 => any.prop_map(Step::Force),
    ]
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..=most)
}

/// Order in which names are read, the steps before each, and the name before which coordinators publish.
type Look = (Vec<usize>, Vec<Vec<Step>>, usize);

fn look() -> impl Strategy<Value = Look> {
    let order = Just((0..NAMES).collect::<Vec<_>>()).prop_shuffle();
    (order, prop::collection::vec(steps(1), NAMES), 0..NAMES)
}

/// Steps before the earlier look, that look, steps between the looks, and the later look.
pub(crate) type Script = (Vec<Step>, Look, Vec<Step>, Look);

pub(crate) fn script() -> impl Strategy<Value = Script> {
    let random = (steps(5), look(), steps(2), look());
    let modes = prop::collection::vec((mode(), mode()), NAMES);
    // Mostly early, and some while names are read.
    let moment = prop_oneof![3 => Just(0), 1 => 1..=2 * NAMES + 1];
    let moments = prop::collection::vec(moment, NAMES);
    (random, ring(), modes, moments).prop_map(|(mut script, ring, modes, moments)| {
        let (first, earlier, between, later) = &mut script;
        for (((who, held, wanted), modes), moment) in ring.into_iter().zip(modes).zip(moments) {
            first.insert(0, Step::Acquire(held, who, modes.0));
            let when = match moment {
                0 => &mut *first,
                1..=NAMES => &mut earlier.1[moment - 1],
                _ if moment > 2 * NAMES => &mut *between,
                _ => &mut later.1[moment - 1 - NAMES],
            };
            when.push(Step::Acquire(wanted, who, modes.1));
        }
        script
    })
}

/// A world in which sequential actors acquire and release.
#[derive(Default)]
struct World {
    town: Town,
    /// Hand-offs whose messages have not arrived yet.
    unconfirmed: Vec<u32>,
}

impl World {
    fn take(&mut self, steps: &[Step]) {
        for step in steps {
            let asked = self.step(step);
            for edge in self.town.hand_on() {
                // Who is granted at once is told at once; some hand-offs take a while.
                if Some(edge.id) != asked && edge.who.session % 2 == 1 {
                    self.unconfirmed.push(edge.id);
                }
            }
        }
    }

    /// Returns the ticket of an acquire.
    fn step(&mut self, step: &Step) -> Option<u32> {
        match step {
            Step::Acquire(name, who, mode) => {
                let holds = self.town.line(*name).holds.iter();
                let again = who.is_actor() && holds.into_iter().any(|edge| edge.who == *who);
                if !again && !self.is_busy(*who) {
                    return Some(self.town.wait(*name, *who, *mode));
                }
            }
            Step::Release(nth) => {
                if let Some(edge) = self.idle_hold(*nth, |_| true) {
                    self.town.end(|other| other.id == edge.id);
                }
            }
            Step::Cancel(nth) => {
                if let Some(edge) = pick(self.town.waits(), *nth) {
                    self.town.end(|other| other.id == edge.id);
                }
            }
            Step::Downgrade(nth) => {
                if let Some(edge) = self.idle_hold(*nth, |edge| edge.mode == X) {
                    self.each(|other| {
                        if other.id == edge.id {
                            other.mode = S;
                        }
                    });
                }
            }
            Step::Confirm(nth) => {
                if let Some(id) = pick(self.unconfirmed.iter(), *nth) {
                    self.unconfirmed.retain(|other| *other != id);
                }
            }
            Step::Rejoin(nth) => self.rejoin(*nth),
            Step::Resume(session) => {
                let ids: HashMap<u32, u32> = (self.town.holds().chain(self.town.waits()))
                    .filter(|edge| edge.who.session == *session)
                    .map(|edge| edge.id)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|id| (id, self.town.tick()))
                    .collect();
                self.each(|edge| edge.id = ids.get(&edge.id).copied().unwrap_or(edge.id));
                for id in &mut self.unconfirmed {
                    *id = ids.get(id).copied().unwrap_or(*id);
                }
            }
            Step::Force(nth) => {
                if let Some(edge) = pick(self.town.holds(), *nth) {
                    self.town.end(|other| other.id == edge.id);
                    self.unconfirmed.retain(|id| *id != edge.id);
                }
            }
        }
        None
    }

    fn rejoin(&mut self, nth: usize) {
        let Some(id) = pick(self.unconfirmed.iter(), nth) else {
            return;
        };
        self.unconfirmed.retain(|other| *other != id);
        let since = self.town.tick();
        for line in &mut self.town.lines {
            if let Some(at) = line.holds.iter().position(|edge| edge.id == id) {
                let edge = line.holds.remove(at);
                line.queue.push(Edge { since, ..edge });
            }
        }
    }

    fn each(&mut self, change: impl Fn(&mut Edge)) {
        for line in &mut self.town.lines {
            line.holds.iter_mut().for_each(&change);
            line.queue.iter_mut().for_each(&change);
        }
    }

    /// Returns whether an actor waits, or believes that it does. One is not as sequential as it should be.
    fn is_busy(&self, who: Who) -> bool {
        let waits = self.town.waits().any(|edge| edge.who == who);
        let unheard = self
            .town
            .holds()
            .any(|edge| edge.who == who && self.is_unheard(edge));
        who.is_actor() && who.actor != 4 && (waits || unheard)
    }

    fn is_unheard(&self, edge: &Edge) -> bool {
        self.unconfirmed.contains(&edge.id)
    }

    fn idle_hold(&self, nth: usize, which: impl Fn(&Edge) -> bool) -> Option<Edge> {
        let idle = |edge: &&Edge| !self.is_busy(edge.who) && !self.is_unheard(edge) && which(edge);
        pick(self.town.holds().filter(idle), nth)
    }

    /// Returns the waits that coordinators publish. They do not know of hand-offs whose messages have not arrived.
    fn blocked(&self) -> Vec<BlockedWait> {
        let mut published = self.town.blocked();
        for (name, line) in self.town.lines.iter().enumerate() {
            let unheard = line.holds.iter().filter(|edge| self.is_unheard(edge));
            published.extend(
                unheard
                    .filter(|edge| edge.who.is_actor())
                    .map(|edge| blocked(edge, name)),
            );
        }
        published
    }

    fn look(&mut self, (order, meanwhile, publish): &Look) -> Pass {
        let mut pass = Pass::default();
        for (place, (number, steps)) in order.iter().zip(meanwhile).enumerate() {
            if place == *publish {
                pass.blocked = self.blocked();
            }
            self.take(steps);
            pass.names.insert(name(*number), self.town.edges(*number));
        }
        pass
    }
}

fn pick<'a, T: Copy + 'a>(from: impl Iterator<Item = &'a T>, nth: usize) -> Option<T> {
    let all: Vec<&T> = from.collect();
    (!all.is_empty()).then(|| *all[nth % all.len()])
}

/// Result of a script.
pub(crate) struct Played {
    pub(crate) before: Pass,
    pub(crate) now: Pass,
    /// The actors that were stuck when the earlier pass had ended, and those when the later one began. An actor counts even if
    /// it held nothing just then: one that breaks the rule of sequential use may release one lock and take another meanwhile.
    pub(crate) truly: [BTreeSet<Who>; 2],
    /// The actors that were stuck when the later pass had ended.
    pub(crate) at_the_end: BTreeSet<Who>,
}

pub(crate) fn play((first, earlier, between, later): &Script) -> Played {
    let mut world = World::default();
    world.take(first);
    let before = world.look(earlier);
    let after_the_earlier = waiting_in_vain(&world.town);
    world.take(between);
    let before_the_later = waiting_in_vain(&world.town);
    let now = world.look(later);
    Played {
        before,
        now,
        truly: [after_the_earlier, before_the_later],
        at_the_end: waiting_in_vain(&world.town),
    }
}

pub(crate) fn stuck_actors(before: &Pass, now: &Pass) -> BTreeSet<Who> {
    stuck(before, now).iter().map(whose).collect()
}

proptest! {
    #![proptest_config(config())]

    /// An actor that is found stuck was stuck all the time between the passes, and only such an actor is a victim.
    #[test]
    fn nobody_is_found_stuck_who_was_not(script in script()) {
        let played = play(&script);
        let stuck = stuck_actors(&played.before, &played.now);
        for truly in &played.truly {
            prop_assert!(stuck.is_subset(truly), "{stuck:?} against {truly:?}");
        }
        for found in find(&played.before, &played.now) {
            prop_assert!(stuck.contains(&whose(&found.victim)));
        }
    }
}
