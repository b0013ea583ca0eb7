//! Demands on a history. `HISTORY.md` lists them, with what excuses each.

mod counts;
mod exclusion;
mod order;
mod registers;
mod rights;
mod time;
mod tokens;
mod watchers;

use crate::story::{End, Fault, HoldEnd, Span, Story};

/// Tolerances in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// An acquire that began by so much earlier is to be served first.
    pub earlier: u64,
    /// A loss may be told so much after the deadline, by a client that has to wait for a processor.
    pub told: u64,
    /// The longest overlap of two holds after the connection of the older holder was reset in the middle.
    pub moment: u64,
    /// A fault disturbs those who wait for so long after its end: a place whose coordinator died is kept for ten seconds.
    pub settle: u64,
    /// The longest time after the end of rights for which what was held before may be held, and an acquire be granted.
    pub noticed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            earlier: 1_000_000,
            told: 500_000,
            moment: 1_000_000,
            settle: 12_000_000,
            noticed: 6_000_000,
        }
    }
}

/// Kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two holds overlapped that exclude each other.
    Overlap,
    /// Permits above the limit.
    Limit,
    /// A token did not rise.
    Token,
    /// A register took a write with a token older than one that it had accepted before.
    OldWrite,
    /// A register refused a write that it should have taken.
    RefusedWrite,
    /// A write with a token that its client was never granted.
    StrangeWrite,
    /// An acquire did not end.
    Endless,
    /// A hold did not end.
    Forgotten,
    /// A waiter was served before an earlier one.
    Overtaken,
    /// A loss was told after the deadline, or a hold was released after it without one.
    ToldLate,
    /// Something was held or granted although the rights to it had ended.
    WithoutRights,
    /// Something was held although the client's connections had ended.
    Disconnected,
    /// A hold was lost, or the client's credentials were refused, and no fault explains that.
    Unexplained,
    /// A coordinator counted a loss that no client had, or none counted one that a client had.
    Miscounted,
    /// A watcher saw events in an order in which they can't have happened.
    Disordered,
    /// A watcher missed an event that another one saw, and was not told of a gap.
    Missed,
    /// Something was left in the store, or the history does not say what.
    Left,
}

/// A promise that the history shows broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Kind.
    pub kind: Kind,
    /// The whole, in a sentence.
    pub sentence: String,
    /// The lock, if it concerns one.
    pub lock: Option<String>,
    /// Its time.
    pub span: Span,
}

/// Outcome of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// Violations that the documentation allows for a fault: sentences.
    pub excused: Vec<String>,
    /// Pairs of acquires whose order could be checked.
    pub ordered_pairs: u64,
}

impl Verdict {
    /// Notes a broken promise.
    fn broken(&mut self, kind: Kind, lock: Option<&str>, span: Span, sentence: String) {
        self.violations.push(Violation {
            kind,
            sentence,
            lock: lock.map(str::to_owned),
            span,
        });
    }
}

/// Checks a history.
pub fn check(story: &Story, limits: Limits) -> Verdict {
    let mut verdict = Verdict::default();
    for (lock, acquires) in story.by_lock() {
        exclusion::check(story, lock, &acquires, limits, &mut verdict);
        tokens::check(lock, &acquires, &mut verdict);
        order::check(story, lock, &acquires, limits, &mut verdict);
    }
    registers::check(story, &mut verdict);
    time::check(story, limits, &mut verdict);
    rights::check(story, limits, &mut verdict);
    watchers::check(story, limits, &mut verdict);
    counts::check(story, limits, &mut verdict);
    ended(story, &mut verdict);
    left(story, &mut verdict);
    verdict
        .violations
        .sort_by_key(|violation| (violation.span.begin, violation.kind));
    verdict
}

/// Returns a time for a sentence: seconds since the first line are the reader's business, the clock's own are in the files.
pub(crate) fn seconds(at: u64) -> String {
    format!("{}.{:06} s", at / 1_000_000, at % 1_000_000)
}

fn ended(story: &Story, verdict: &mut Verdict) {
    for acquire in &story.acquires {
        let (kind, what) = match (&acquire.end, &acquire.hold) {
            (End::None, _) => (Kind::Endless, "neither was granted nor ended".to_owned()),
            (_, Some(hold)) if hold.end == HoldEnd::None => {
                let what = format!(
                    "was granted with {}, and the hold neither was released nor lost",
                    hold.token_name()
                );
                (Kind::Forgotten, what)
            }
            _ => continue,
        };
        verdict.broken(
            kind,
            Some(&acquire.lock),
            Span::new(acquire.asked, story.end),
            format!(
                "{}'s acquire {} of {:?}, begun at {}, {what}",
                acquire.client,
                acquire.ask,
                acquire.lock,
                seconds(acquire.asked)
            ),
        );
    }
}

fn left(story: &Story, verdict: &mut Verdict) {
    if story.broken_off.is_some() {
        return;
    }
    let sentence = match &story.left {
        Some(keys) if keys.is_empty() => return,
        Some(keys) => format!("{} keys were left in the store: {keys:?}", keys.len()),
        None => "the history does not say what was left in the store".to_owned(),
    };
    verdict.broken(Kind::Left, None, Span::at(story.end), sentence);
}

/// Returns the faults and stalls that touch a time, each with `settle` after its end.
pub(crate) fn faults_in(story: &Story, span: Span, settle: u64) -> impl Iterator<Item = &Fault> {
    let all = story.faults.iter().chain(&story.stalls);
    all.filter(move |fault| {
        let settled = Span::new(fault.span.begin, fault.span.end.saturating_add(settle));
        settled.touches(span)
    })
}
