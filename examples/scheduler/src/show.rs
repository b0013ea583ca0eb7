//! Output while the demonstration runs.

use std::{fmt, time::Instant};

use crate::leaders::Term;

/// Prints what happens, with the time at which it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show {
    started: Instant,
}

impl Show {
    /// Starts the clock of the lines.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Prints an event.
    pub(crate) fn line(self, what: impl fmt::Display) {
        println!("{:>6.2} s  {what}", self.started.elapsed().as_secs_f64());
    }

    /// Prints the leader, or that there is none.
    pub(crate) fn leader(self, term: Option<&Term>) {
        match term {
            Some(Term {
                instance, token, ..
            }) => self.line(format_args!(
                "instance {instance} leads, with token {token}"
            )),
            None => self.line("nobody leads"),
        }
    }
}
