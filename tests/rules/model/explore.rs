//! Exploration of a model: all of its states without a counterexample, or a variant up to its first counterexample.

use std::{env, fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Returns the steps of time by which models run longer than their bounds say: those of `DEEPER` in the environment.
pub(crate) fn deeper() -> u8 {
    env::var("DEEPER").map_or(0, |steps| steps.parse().expect("a number of steps"))
}

/// Explores every state of a model, and fails if a property has a counterexample, or if a state that must be reachable is not.
/// Prints the number of states.
pub(crate) fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let begun = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    for property in checker.model().properties() {
        let (found, name_of) = (checker.discovery(property.name), property.name);
        match (property.expectation, found) {
            (Expectation::Sometimes, None) => panic!("{name}: {name_of:?} never comes about"),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => panic!("{name}: {name_of:?} is broken:\n{}", tell(path)),
        }
    }
    eprintln!(
        "{name}: {} states, {} steps deep, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
}

/// Explores a variant with a known flaw, and fails unless this property has a counterexample. Prints its length.
pub(crate) fn is_caught<M>(name: &str, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let wanted = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    let path = checker.discovery(property);
    let path = path.unwrap_or_else(|| {
        let states = checker.unique_state_count();
        panic!("{name}: {property:?} was not found to be broken in {states} states")
    });
    let steps = path.into_actions();
    eprintln!(
        "{name}: {property:?} is broken after {} steps, {} states: {steps:?}",
        steps.len(),
        checker.unique_state_count()
    );
}

fn tell<State: Debug + PartialEq, Action: Debug>(path: stateright::Path<State, Action>) -> String {
    let mut lines = Vec::new();
    for (state, action) in path.into_vec() {
        lines.push(format!("{state:?}"));
        lines.extend(action.map(|action| format!("-> {action:?}")));
    }
    lines.join("\n")
}
