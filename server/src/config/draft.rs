//! Configuration in the making, to which each layer adds its values.

use super::{
    Config, ConfigError, Origin,
    settings::{SETTINGS, position},
};

/// Values, their origins, and the errors so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) config: Config,
    /// Origins by place in the table of settings.
    pub(super) origins: Vec<Origin>,
    pub(super) errors: Vec<ConfigError>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            config: Config::default(),
            origins: vec![Origin::Default; SETTINGS.len()],
            errors: Vec::new(),
        }
    }
}

impl Draft {
    /// Sets the setting at `place` of the table, or notes the fault of the value.
    pub(super) fn set(&mut self, place: usize, text: &str, origin: Origin) {
        match (SETTINGS[place].set)(&mut self.config, text) {
            Ok(()) => self.origins[place] = origin,
            Err(message) => self.refuse(place, origin, message),
        }
    }

    /// Notes that the setting at `place` of the table cannot have the value that came from `origin`.
    pub(super) fn refuse(&mut self, place: usize, origin: Origin, message: String) {
        self.errors.push(ConfigError::BadValue {
            setting: SETTINGS[place].name,
            origin,
            message,
        });
    }

    /// Returns the value of a setting and its origin, as errors show them.
    pub(super) fn shown(&self, name: &str) -> String {
        position(name).map_or_else(String::new, |place| {
            let value = (SETTINGS[place].show)(&self.config).unwrap_or_default();
            format!("{name} is {value} ({})", self.origins[place])
        })
    }
}
