//! Origin of a setting's value.

use std::{fmt, path::PathBuf};

/// Where a setting's value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    #[default]
    Default,
    /// The configuration file.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// Line of the value, counted from 1.
        line: usize,
        /// Column of the value in characters, counted from 1.
        column: usize,
    },
    /// An environment variable, by name.
    Environment(String),
    /// The file that holds nothing but this value.
    Contents(PathBuf),
    /// A flag, by its name without the dashes.
    Flag(&'static str),
}

impl Origin {
    /// How strong its layer is: flags win over the environment, that over the file, and that over what nobody set.
    pub(super) const fn strength(&self) -> u8 {
        match self {
            Self::Default => 0,
            // What a file of its own holds is as strong as what names that; nobody compares the two.
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
                // A path may hold anything, and this lands in comments and log lines.
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
