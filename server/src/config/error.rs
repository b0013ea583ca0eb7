//! Errors of a configuration.

use std::{error::Error, fmt, io, path::PathBuf};

use super::Origin;

/// All errors of a configuration, each on a line of its own. The text is for the operator: it names the setting, the origin of
/// its value and the expected form, and never shows the store's URL, which may contain a password.
#[derive(Debug)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the errors, at least one.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Error for ConfigErrors {}

/// One error of a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The command line can't be understood.
    #[error("{}", .0.trim_end())]
    Usage(String),
    /// The configuration file cannot be read.
    #[error("failed to read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration file is not TOML, or names a setting that does not exist.
    #[error("failed to read the configuration file {}, line {line}, column {column}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
        /// The fault, and the expected form.
        message: String,
    },
    /// A value can't be used for its setting.
    #[error("failed to set {setting} ({origin}): {message}")]
    BadValue {
        /// The setting's name.
        setting: &'static str,
        /// Origin of the value.
        origin: Origin,
        /// The expectation.
        message: String,
    },
    /// A file that a setting names can't be used.
    #[error("{0}")]
    File(String),
    /// Settings contradict each other.
    #[error("settings contradict each other: {message}")]
    Contradiction {
        /// The settings, their origins, and what would be consistent.
        message: String,
    },
}
