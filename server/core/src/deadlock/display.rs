//! Description of a deadlock in words.

use std::fmt::{self, Display, Formatter};

use super::{Because, Deadlock, Step};

/// Most steps that are spelt out.
const STEPS: usize = 8;
/// Most characters that are shown of a lock's or client's name.
const SHOWN: usize = 64;

impl Display for Deadlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, step) in self.cycle.iter().take(STEPS).enumerate() {
            let waits = if number == 0 {
                " waits"
            } else {
                ", which waits"
            };
            let name = Short(step.name.as_str());
            write!(f, "{step}{waits} for {name}, {} ", step.because)?;
        }
        match self.cycle.len() {
            1 => f.write_str("itself"),
            2..=STEPS => f.write_str("the first"),
            many => write!(f, "another; {} more lead back to the first", many - STEPS),
        }
    }
}

impl Display for Step {
    /// Writes the actor.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.holds {
            f.write_str("a waiter of ")?;
        }
        match self.session {
            Some(session) => write!(f, "session {session}")?,
            None => f.write_str("a unary call")?,
        }
        if !self.client_name.as_str().is_empty() {
            write!(f, " (client {})", Short(self.client_name.as_str()))?;
        }
        if !self.actor.is_nobody() {
            write!(f, " actor {}", self.actor)?;
        }
        Ok(())
    }
}

impl Display for Because {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "held by",
            Self::IsAhead => "queued behind",
        })
    }
}

/// Name in quotes, without its middle if it is long: the beginning shows the kind, the end which one it is.
struct Short<'a>(&'a str);

impl Display for Short<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let length = text.chars().count();
        if length <= SHOWN {
            return write!(f, "{text:?}");
        }
        let half = SHOWN / 2;
        let start: String = text.chars().take(half).collect();
        let end: String = text.chars().skip(length - half).collect();
        write!(f, "{:?}", format!("{start}…{end}"))
    }
}
