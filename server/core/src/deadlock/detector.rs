//! Detector of deadlocks as a state machine without I/O: passes, each of which is compared with the one before.
//!
//! A driver carries an [`Output`] out and gives its result to [`Detector::handle`], which returns the next output. Everything
//! happens one after the other.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use crate::{name::LockName, time::Moment, view::NameEdges};

use super::{
    Deadlock, Pass, Publication, find,
    reading::Reading,
    share::{Lot, Omitted},
};

/// Time from the beginning of one pass to that of the next, unless a pass takes more than two thirds of it. A deadlock is found
/// by the second pass after it closed.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Passes that leave something out for which a lot stands: two see the same actors even at coordinators that are out of step.
const PASSES_OF_A_LOT: u32 = 4;
/// Time between two warnings of bounds.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Input of the detector.
#[derive(Debug)]
pub enum Input {
    /// Nothing is under way: the detector starts, or its report was carried out. The number is random and secret; the detector
    /// makes a [`Lot`] of it when one is due.
    Ready(u64),
    /// The time of [`Output::Idle`] or [`Output::Rest`] is over.
    Rested,
    /// The publications of all coordinators, or `None` if the store did not answer.
    Exchanged(Option<Vec<Arc<Publication>>>),
    /// The names of [`Output::Read`] that could be read.
    Read(Vec<(LockName, NameEdges)>),
}

/// Task for the driver.
#[derive(Debug)]
pub enum Output {
    /// Waits until an actor waits here while it holds something, and then for so long.
    Idle(Duration),
    /// Waits for so long.
    Rest(Duration),
    /// Publishes the blocked waits of this coordinator, and learns those of all.
    Exchange(Publication),
    /// Reads the edges of these names.
    Read(Vec<LockName>),
    /// Takes note of the outcome of a pass.
    Report(Report),
}

/// Outcome of a pass.
#[derive(Debug, Default)]
pub struct Report {
    /// The deadlocks that it found. Each coordinator ends those whose victims wait at it.
    pub deadlocks: Vec<Deadlock>,
    /// The actors and names that bounds left out.
    pub omitted: Omitted,
    /// Whether to warn of what was left out.
    pub warns: bool,
}

/// Detector of one coordinator.
#[derive(Debug, Default)]
pub struct Detector {
    /// The beginning of the last pass; `None` while other coordinators know of no waits here.
    begun: Option<Moment>,
    reading: Option<Reading>,
    /// The pass before.
    before: Option<Pass>,
    omitted: Omitted,
    lot: Lot,
    /// Passes that leave something out until a new lot is due.
    passes_of_lot: u32,
    /// The time of the last warning.
    warned: Option<Moment>,
}

impl Detector {
    /// Takes in the result of the last output and returns the next. A pass begins with what `publication` chooses by this lot.
    ///
    /// Takes time in proportion to all blocked waits and their edges.
    pub fn handle(
        &mut self,
        input: Input,
        now: Moment,
        publication: impl FnOnce(Lot) -> (Publication, Omitted),
    ) -> Output {
        match input {
            Input::Ready(seed) => {
                if self.passes_of_lot == 0 {
                    (self.lot, self.passes_of_lot) = (Lot::new(seed), PASSES_OF_A_LOT);
                }
                self.begun.map_or(Output::Idle(LOOK_EVERY), |begun| {
                    Output::Rest(rest(begun.until(now)))
                })
            }
            Input::Rested => match &mut self.reading {
                Some(reading) => Output::Read(reading.batch(now)),
                None => self.begin(publication(self.lot), now),
            },
            Input::Exchanged(Some(published)) if self.begun.is_some() => {
                let reading = Reading::new(&published, self.lot, now, &mut self.omitted);
                Output::Read(self.reading.insert(reading).batch(now))
            }
            // Where the store does not answer, two passes have to be made again.
            Input::Exchanged(_) => self.end(None, now),
            Input::Read(edges) => {
                let reading = self.reading.as_mut();
                let rest = reading.and_then(|of| of.take(edges, now, &mut self.omitted));
                match rest {
                    Some(rest) => Output::Rest(rest),
                    None => {
                        let pass = self.reading.take().map(Reading::end);
                        self.end(pass, now)
                    }
                }
            }
        }
    }

    /// Begins a pass, unless there is nothing to publish and nothing is published.
    fn begin(&mut self, chosen: (Publication, Omitted), now: Moment) -> Output {
        let (mine, omitted) = chosen;
        if mine.is_empty() && self.begun.is_none() {
            return Output::Idle(LOOK_EVERY);
        }
        self.begun = (!mine.is_empty()).then_some(now);
        self.omitted = omitted;
        Output::Exchange(mine)
    }

    /// Ends a pass: compares it with the one before.
    fn end(&mut self, pass: Option<Pass>, now: Moment) -> Output {
        let both = self.before.as_ref().zip(pass.as_ref());
        let deadlocks = both.map(|(before, now)| find(before, now));
        self.before = pass;
        let omitted = self.omitted;
        let is_bounded = omitted != Omitted::default();
        if is_bounded {
            self.passes_of_lot = self.passes_of_lot.saturating_sub(1);
        }
        let warned = self.warned.filter(|warned| warned.until(now) < WARN_EVERY);
        let warns = is_bounded && warned.is_none();
        if warns {
            self.warned = Some(now);
        }
        Output::Report(Report {
            deadlocks: deadlocks.unwrap_or_default(),
            omitted,
            warns,
        })
    }
}

/// Returns how long the detector rests after a pass that took so long: for the rest of the interval, and for at least half as
/// long as the pass took, so that others have the processors.
fn rest(pass: Duration) -> Duration {
    LOOK_EVERY
        .saturating_sub(pass)
        .max((pass / 2).min(LOOK_EVERY))
}
