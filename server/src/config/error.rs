//! Errors of a configuration.

use std::{error::Error, fmt, io, path::PathBuf};

use super::Origin;

/// Why there is no configuration: everything that is wrong, each on a line of its own. The text is meant for whoever started
/// the coordinator: it names the setting, where its value came from and what was expected, and never shows the store's URL,
/// which may hold a password.
#[derive(Debug)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// What is wrong, one after the other; never empty.
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

/// One thing that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The command line makes no sense.
    #[error("{}", .0.trim_end())]
    Usage(String),
    /// The configuration file cannot be read.
    #[error("failed to read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The configuration file is not TOML, or names a setting that does not exist.
    #[error("failed to read the configuration file {}, line {line}, column {column}: {message}", path.display())]
    Malformed {
        /// The file as it was named.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A setting has a value that it cannot have.
    #[error("failed to set {setting} ({origin}): {message}")]
    BadValue {
        /// The setting's name.
        setting: &'static str,
        /// Where the value came from.
        origin: Origin,
        /// What was expected.
        message: String,
    },
    /// A file that a setting names can't be used.
    #[error("{0}")]
    File(String),
    /// Settings contradict each other.
    #[error("settings contradict each other: {message}")]
    Contradiction {
        /// Which ones, where they came from, and what would be consistent.
        message: String,
    },
}
