//! Messages on standard error about the connection to a coordinator, while a command runs or retries.

use std::{mem, time::Duration};

use leasehold_client::{Failure, Session};

use crate::say::say;

/// Interval between looks at the connection.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Reports on standard error, once, that no coordinator can be reached, and once that one can be again.
#[derive(Default)]
pub(crate) struct Outage {
    said: bool,
    quiet: bool,
}

impl Outage {
    /// Returns an outage that reports nothing if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { said: false, quiet }
    }

    pub(crate) fn goes_on(&mut self, why: &str) {
        if !self.said && !self.quiet {
            say(format_args!("{why}; retrying until a coordinator serves"));
            self.said = true;
        }
    }

    pub(crate) fn is_over(&mut self) {
        if self.said {
            say("connected again");
            self.said = false;
        }
    }
}

/// Contact of a watcher with the coordinators: fails if there is none at the start, and reports when it goes and comes later.
#[derive(Default)]
pub(crate) struct WatcherContact {
    outage: Outage,
    told: bool,
}

impl WatcherContact {
    /// Takes in that the watcher had something to tell, and why nothing more comes now.
    pub(crate) fn told(&mut self, interruption: Option<&Failure>) {
        self.told = true;
        // A gap comes when the connection is lost, every other event over a connection.
        if interruption.is_none() {
            self.outage.is_over();
        }
    }

    /// Takes in what a look found: why nothing comes now. That is to be repeated every [`LOOK`].
    pub(crate) fn looked(&mut self, interruption: Option<&Failure>) -> Result<(), Failure> {
        match interruption {
            Some(failure) if !self.told => return Err(failure.clone()),
            Some(failure) => self.outage.goes_on(&failure.to_string()),
            None => self.outage.is_over(),
        }
        Ok(())
    }
}

/// The stage of a session's connection.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// At this coordinator.
    At(String),
    /// At this coordinator, which is shutting down.
    Draining(String),
    /// Without a connection.
    Lost,
}

impl Stage {
    fn of(session: &Session) -> Self {
        match (session.info(), session.drains_in()) {
            (None, _) => Self::Lost,
            (Some(info), None) => Self::At(info.coordinator),
            (Some(info), Some(_)) => Self::Draining(info.coordinator),
        }
    }

    /// Returns the message for a change to another stage, if any.
    fn followed_by(&self, next: &Self) -> Option<String> {
        match (self, next) {
            (before, next) if before == next => None,
            (Self::At(name) | Self::Draining(name), Self::Lost) => Some(format!(
                "lost the connection to coordinator {name}; retrying until one is reachable"
            )),
            (_, Self::Draining(name)) => Some(format!(
                "coordinator {name} is shutting down; moving to another one as soon as one is reachable"
            )),
            (Self::Lost, Self::At(name)) => Some(format!("connected again, to coordinator {name}")),
            (_, Self::At(name)) => Some(format!("moved to coordinator {name}")),
            (Self::Lost, Self::Lost) => None,
        }
    }
}

/// Follows a session from coordinator to coordinator.
pub(crate) struct Contact {
    session: Session,
    stage: Stage,
}

impl Contact {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            session: session.clone(),
            stage: Stage::of(session),
        }
    }

    /// Returns what there is to say since this was called last, if anything.
    pub(crate) fn news(&mut self) -> Option<String> {
        let now = Stage::of(&self.session);
        let before = mem::replace(&mut self.stage, now);
        before.followed_by(&self.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_session_is_said_once() {
        let at = |name: &str| Stage::At(name.to_owned());
        let draining = |name: &str| Stage::Draining(name.to_owned());
        let broke = Some("lost the connection to coordinator a");
        let again = Some("connected again, to coordinator b");
        let moved = Some("moved to coordinator b");
        for (before, next, words) in [
            (at("a"), at("a"), None),
            (at("a"), draining("a"), Some("a is shutting down")),
            (draining("a"), draining("a"), None),
            (draining("a"), at("b"), moved),
            (draining("a"), Stage::Lost, broke),
            (at("a"), Stage::Lost, broke),
            (Stage::Lost, Stage::Lost, None),
            (Stage::Lost, at("b"), again),
            (at("a"), at("b"), moved),
        ] {
            let said = before.followed_by(&next);
            match words {
                None => assert_eq!(said, None, "{before:?} {next:?}"),
                Some(words) => {
                    let said = said.unwrap_or_default();
                    assert!(said.contains(words), "{said}");
                }
            }
        }
    }
}
