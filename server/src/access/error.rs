//! Errors of the files of identities.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Error in a file of identities. It says where, and shows nothing of the contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The file can't be read.
    #[error("failed to read {} ({setting}): {source}", path.display())]
    Unreadable {
        /// The setting that names it.
        setting: &'static str,
        /// The file as it was named.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is malformed.
    #[error("failed to read {} ({setting}){}: {message}", path.display(), at(*line))]
    Malformed {
        /// The setting that names it.
        setting: &'static str,
        /// The file as it was named.
        path: PathBuf,
        /// The line, counted from 1, if the error is in one.
        line: Option<usize>,
        /// The expectation.
        message: String,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl AccessError {
    pub(super) fn unreadable(setting: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Unreadable {
            setting,
            path: path.to_owned(),
            source,
        }
    }
}
