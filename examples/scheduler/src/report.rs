//! Report of the demonstration, and whether the promises were kept.

use std::{ops::RangeInclusive, time::Duration};

use crate::{leaders::Seen, play::TTL, table::Books, ticks::Tick};

/// Reason for which the leader changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It was killed: while it ran this tick, or at any moment.
    Killed {
        /// The tick.
        running: Option<Tick>,
    },
    /// It was stopped.
    Stopped,
    /// Its leadership was force-released.
    Deposed,
    /// It got SIGTERM.
    Resigned,
}

/// Change of the leader to another instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The reason for the change.
    pub(crate) kind: Kind,
    /// The fencing token of the leader before.
    pub(crate) from: i64,
    /// The fencing token of the leader after.
    pub(crate) to: i64,
    /// Time until an observer saw it.
    pub(crate) took: Duration,
}

/// Outcome of the demonstration.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Milliseconds from tick to tick.
    pub(crate) period: u64,
    /// The ticks that were to be run.
    pub(crate) due: RangeInclusive<Tick>,
    /// The job table.
    pub(crate) books: Books,
    /// Every change of the leader except the first election.
    pub(crate) changes: Vec<Change>,
    /// The leaders that each observer saw.
    pub(crate) seen: Vec<Seen>,
}

/// Something that is promised.
struct Promise {
    kept: bool,
    what: &'static str,
    count: usize,
    remark: String,
}

impl Outcome {
    /// Prints it, and tells whether everything is as promised.
    pub(crate) fn report(&self) -> bool {
        println!();
        let promises = self.promises();
        for promise in &promises {
            let mark = if promise.kept { "ok" } else { "!!" };
            let Promise {
                what,
                count,
                remark,
                ..
            } = promise;
            let line = format!("{mark}  {what:<24} {count:>5}   {remark}");
            println!("{}", line.trim_end());
        }
        println!();
        for change in self.changes.iter().filter(|c| c.kind == Kind::Stopped) {
            let took = change.took.as_secs_f64();
            let late = self.late(change);
            println!(
                "After the stop there was no leader for {took:.1} s, and {late} ticks were late."
            );
        }
        let as_promised = promises.iter().all(|promise| promise.kept);
        if as_promised {
            println!("Everything came out as promised.");
        } else {
            println!("NOT as promised: see above.");
        }
        as_promised
    }

    fn promises(&self) -> Vec<Promise> {
        let due = self.due.clone().count();
        let ran = self.due.clone();
        let ran = ran
            .filter(|tick| self.books.ticks.contains_key(tick))
            .count();
        let missed = due - ran;
        let twice = self.books.runs.saturating_sub(self.books.ticks.len());

        let kills: Vec<_> = self.changes.iter().filter(|c| c.kind.is_kill()).collect();
        let late = kills.iter().map(|kill| self.late(kill)).max().unwrap_or(0);
        let killed = kills.len();
        let during = kills.iter().filter(|kill| self.was_cut_off(kill)).count();
        let took = kills.iter().map(|kill| kill.took).max().unwrap_or_default();

        let refused = self.books.late_writes.len();
        let leaders = self.seen.first().map_or(0, |seen| seen.terms.len());
        let observers = self.seen.len();
        let promise = |kept, what, count, remark| Promise {
            kept,
            what,
            count,
            remark,
        };
        vec![
            promise(
                missed == 0,
                "ticks run",
                ran,
                format!("of {due} that were due"),
            ),
            promise(twice == 0, "ticks run twice", twice, String::new()),
            promise(
                late <= 1 && during > 0,
                "ticks late after a kill",
                late,
                format!("at most; {killed} leaders were killed, {during} of them during a tick"),
            ),
            promise(
                // If nothing were released before it expires, it would take longer.
                took < TTL / 2,
                "ms without a leader",
                usize::try_from(took.as_millis()).unwrap_or(usize::MAX),
                format!("at most after a kill, with a TTL of {} s", TTL.as_secs()),
            ),
            promise(
                refused > 0,
                "late writes refused",
                refused,
                "for the token of an earlier leader".to_owned(),
            ),
            promise(
                self.is_orderly(),
                "leaders",
                leaders,
                format!("with rising tokens, seen alike by {observers} observers"),
            ),
        ]
    }

    /// Returns the number of ticks that this change made late. A tick counts if it was due before the next leader began its
    /// first one, and if that leader began it at least a period late, when other ticks were due.
    fn late(&self, change: &Change) -> usize {
        let term = || {
            let ticks = self.books.ticks.iter();
            ticks.filter(|(_, run)| run.token == change.to)
        };
        let Some((first, run)) = term().next() else {
            return 0;
        };
        let due_by_then = first + run.late / self.period;
        term()
            .take_while(|(tick, _)| **tick <= due_by_then)
            .filter(|(_, run)| run.late >= self.period)
            .count()
    }

    /// Returns whether the leader before did not get to the end of a tick.
    fn was_cut_off(&self, change: &Change) -> bool {
        let Kind::Killed { running } = change.kind else {
            return false;
        };
        let run = running.and_then(|tick| self.books.ticks.get(&tick));
        run.is_some_and(|run| run.token != change.from)
    }

    /// Returns whether all observers saw the same leaders, with rising tokens. An observer that may have missed some, by its
    /// own account, need not have seen all of them.
    fn is_orderly(&self) -> bool {
        let tokens = |seen: &Seen| -> Vec<_> { seen.terms.iter().map(|t| t.token).collect() };
        let rising = |seen: &Seen| tokens(seen).is_sorted_by(|a, b| a < b);
        let complete = self.seen.iter().filter(|seen| !seen.skipped).map(tokens);
        let complete: Vec<_> = complete.collect();
        self.seen.iter().all(rising) && complete.windows(2).all(|two| two[0] == two[1])
    }
}

impl Kind {
    fn is_kill(self) -> bool {
        matches!(self, Self::Killed { .. })
    }
}
