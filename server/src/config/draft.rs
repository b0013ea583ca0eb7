//! Configuration in the making, to which each layer adds its values.

use std::collections::HashMap;

use super::{
    Config, Origin,
    settings::{Setting, named},
};

/// Values, their origins, and the errors so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) config: Config,
    /// Origins by the setting's name; the others have their defaults.
    pub(super) origins: HashMap<&'static str, Origin>,
    pub(super) errors: Vec<String>,
}

impl Draft {
    /// Sets a setting, or notes the fault of the value.
    pub(super) fn set(&mut self, setting: &Setting, text: &str, origin: Origin) {
        match (setting.set)(&mut self.config, text) {
            Ok(()) => {
                self.origins.insert(setting.name, origin);
            }
            Err(message) => self.refuse(setting.name, origin, &message),
        }
    }

    /// Notes that a setting cannot have the value that came from `origin`.
    pub(super) fn refuse(&mut self, setting: &'static str, origin: Origin, message: &str) {
        self.errors
            .push(format!("failed to set {setting} ({origin}): {message}"));
    }

    /// Notes settings that contradict each other although each is right by itself.
    pub(super) fn contradict(&mut self, message: &str) {
        self.errors
            .push(format!("settings contradict each other: {message}"));
    }

    /// Returns the origin of a setting's value.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).cloned().unwrap_or_default()
    }

    /// Returns the value of a setting and its origin, as errors show them.
    pub(super) fn shown(&self, name: &str) -> String {
        let value = named(name).and_then(|setting| (setting.show)(&self.config));
        let value = value.unwrap_or_default();
        format!("{name} is {value} ({})", self.origin(name))
    }
}
