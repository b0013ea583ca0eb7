//! Origin of a value, for error messages and `--print-config`.

use std::{fmt, path::PathBuf};

/// Origin of a setting's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No layer set it.
    #[default]
    Default,
    /// The configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Line of the value, counted from 1.
        line: usize,
        /// Column of the value in characters, counted from 1.
        column: usize,
    },
    /// An environment variable, by name.
    Environment(String),
    /// The file that contains nothing but this value.
    Contents(PathBuf),
    /// A flag, by its name without the dashes.
    Flag(&'static str),
}

impl Origin {
    /// Returns the strength of its layer: flags win over the environment, the environment over the file, and the file over the
    /// defaults.
    pub(super) const fn strength(&self) -> u8 {
        match self {
            Self::Default => 0,
            // A file of its own is as strong as the file that may name it; nothing compares the two.
            Self::File { .. } | Self::Contents(_) => 1,
            Self::Environment(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(
                f,
                "file {}, line {line}, column {column}",
                // A path may contain anything, and this text ends up in comments and log lines.
                path.display().to_string().escape_debug()
            ),
            Self::Contents(path) => {
                write!(
                    f,
                    "contents of {}",
                    path.display().to_string().escape_debug()
                )
            }
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}
