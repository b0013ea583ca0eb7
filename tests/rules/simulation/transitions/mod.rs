//! Transitions of the machines that were taken: state before, event, and state after, by their names.

mod names;
mod unmet;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub(crate) use self::names::{Machine, end, input, message, phase};
use self::{
    names::{CLIENT, SESSION, State, shown},
    unmet::{UNMET, Why},
};

/// The transitions, each with the number of times that it was taken.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Transitions(BTreeMap<(Machine, State, &'static str, State), u64>);

impl fmt::Debug for Transitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} different ones", self.0.len())
    }
}

impl Transitions {
    pub(crate) fn note(&mut self, of: Machine, before: State, event: &'static str, after: State) {
        *self.0.entry((of, before, event, after)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (transition, times) in &other.0 {
            *self.0.entry(*transition).or_default() += times;
        }
    }

    /// Prints them, and what is not met.
    pub(crate) fn print(&self) {
        for it in UNMET {
            let (how, why) = match it.why {
                Why::Never(why) => ("never", why),
                Why::Seldom(why) => ("seldom", why),
            };
            let (of, states, events) = (it.of, it.states, it.events);
            eprintln!("{of:?}: {states} -- {how} {events}: {why}");
        }
        for ((of, before, event, after), times) in &self.0 {
            let (before, after) = (shown(*before), shown(*after));
            eprintln!("{of:?}: {before} -- {event} -> {after}: {times}");
        }
    }

    /// Fails if a machine did not meet an event in a state, unless that is listed, or met one that can't be met.
    pub(crate) fn check(&self) {
        let taken = self.0.keys();
        let taken: BTreeSet<_> = taken
            .map(|(of, state, event, _)| (*of, shown(*state), *event))
            .collect();
        let states: BTreeSet<_> = taken.iter().map(|(of, state, _)| (*of, state)).collect();
        let mut wrong = Vec::new();
        for (of, state) in states {
            let events = match of {
                Machine::Session => SESSION,
                Machine::Client => CLIENT,
            };
            for event in events.split(", ") {
                let has = |list: &str, name: &str| list.split(", ").any(|it| it == name);
                let mut listed = UNMET.iter();
                let listed =
                    listed.find(|it| it.of == of && has(it.states, state) && has(it.events, event));
                let is_taken = taken.contains(&(of, state.clone(), event));
                let is_right = match listed.map(|it| &it.why) {
                    None => is_taken,
                    Some(Why::Never(_)) => !is_taken,
                    Some(Why::Seldom(_)) => true,
                };
                if !is_right {
                    wrong.push((of, state, event));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "not taken, or taken though that can't be: {wrong:#?}"
        );
    }
}
