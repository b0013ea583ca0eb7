//! Output of the commands: tables for people, JSON for programs.

pub(crate) mod colour;
pub(crate) mod election;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod json;
pub(crate) mod lock;
pub(crate) mod table;
pub(crate) mod text;

use std::{
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;

use crate::exit::{Exit, Outcome};

/// Prints the answer of a command that asked once: a document if the user asked for JSON, or else text.
pub(crate) fn answer<T: Display>(
    as_json: bool,
    document: impl Serialize,
    text: impl FnOnce() -> T,
) -> Outcome {
    let answer = match as_json {
        true => serde_json::to_string_pretty(&document)?,
        // The alternate form is the one with styles.
        false if colour::is_on() => format!("{:#}", text()),
        false => text().to_string(),
    };
    line(answer.trim_end())?;
    Ok(Exit::SUCCESS)
}

/// Prints a line at once. Returns false if the reader has gone (`| head`), which is no error.
pub(crate) fn line(line: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let told = format!("failed to write to standard output: {error}");
            Err(io::Error::new(error.kind(), told))
        }
    }
}
