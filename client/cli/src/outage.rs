//! Saying that there is no coordinator, while something goes on trying.

use std::time::Duration;

use crate::say::say;

/// How often to look whether there is one.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Says on standard error, once, that nothing can be heard of a coordinator, and once that it can be again.
#[derive(Default)]
pub(crate) struct Outage {
    said: bool,
}

impl Outage {
    pub(crate) fn goes_on(&mut self, why: &str) {
        if !self.said {
            say(format_args!(
                "{why}; trying again until there is one that serves"
            ));
            self.said = true;
        }
    }

    pub(crate) fn is_over(&mut self) {
        if self.said {
            say("connected again");
            self.said = false;
        }
    }
}
