//! Marks of sessions that operators have ended. Every coordinator looks at them, and ends the sessions in question that it has.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{id::SessionId, time::StoreTime};

/// Most marks that are kept at a time. `ended_sessions.lua` has the same number.
pub const MOST_ENDED: usize = 1000;
/// Most marks of one caller that are kept at a time. `ended_sessions.lua` has the same number.
pub const MOST_ENDED_BY_ONE: usize = 100;

/// Mark of a session that is to end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The session.
    pub session: SessionId,
    /// The caller that ends it. The coordinator that has a session decides by its own rules whether this one may.
    pub by: Arc<str>,
}

/// Number of sessions, holds and waits that coordinators have ended because of one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndedCount {
    /// The sessions: the one of that id, and those that have resumed what it had.
    pub sessions: u32,
    /// Their holds.
    pub holds: u32,
    /// Their acquires that waited or were in flight.
    pub waiters: u32,
    /// Sessions that go on, because the caller may not administer all that they have.
    pub denied: u32,
}

impl EndedCount {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            holds: self.holds.saturating_add(other.holds),
            waiters: self.waiters.saturating_add(other.waiters),
            denied: self.denied.saturating_add(other.denied),
        }
    }

    /// Returns what was added since an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_sub(earlier.sessions),
            holds: self.holds.saturating_sub(earlier.holds),
            waiters: self.waiters.saturating_sub(earlier.waiters),
            denied: self.denied.saturating_sub(earlier.denied),
        }
    }

    /// Returns the larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.max(other.sessions),
            holds: self.holds.max(other.holds),
            waiters: self.waiters.max(other.waiters),
            denied: self.denied.max(other.denied),
        }
    }
}

/// Change of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndChange {
    /// The session is to end, wherever it is; the mark is kept for so long from now on.
    Mark(Mark, Duration),
    /// A coordinator has ended this because of the mark.
    Count(Mark, EndedCount),
    /// The mark has done its work, and is kept no longer than for so long from now on.
    Settle(Mark, Duration),
}

impl EndChange {
    /// Returns the mark that it changes.
    #[must_use]
    pub const fn mark(&self) -> &Mark {
        match self {
            Self::Mark(mark, _) | Self::Count(mark, _) | Self::Settle(mark, _) => mark,
        }
    }
}

/// The marks.
#[derive(Clone, Debug, Default)]
pub struct EndedSessions(BTreeMap<Mark, (StoreTime, EndedCount)>);

impl EndedSessions {
    /// Carries a change out, if there is one. Returns all marks; `None` if there is no room for another one.
    pub fn change(
        &mut self,
        change: Option<EndChange>,
        now: StoreTime,
    ) -> Option<Vec<(Mark, EndedCount)>> {
        self.0.retain(|_, (until, _)| *until > now);
        match change {
            Some(EndChange::Mark(mark, kept_for)) => {
                if !self.0.contains_key(&mark) && !self.has_room(&mark.by) {
                    return None;
                }
                let until = now.after(kept_for);
                let (kept_until, _) = self.0.entry(mark).or_insert((until, EndedCount::default()));
                *kept_until = until.max(*kept_until);
            }
            Some(EndChange::Count(mark, count)) => {
                if let Some((_, counted)) = self.0.get_mut(&mark) {
                    *counted = counted.plus(count);
                }
            }
            Some(EndChange::Settle(mark, kept_for)) => {
                if let Some((until, _)) = self.0.get_mut(&mark) {
                    *until = now.after(kept_for).min(*until);
                }
            }
            None => {}
        }
        let marks = self.0.iter();
        Some(
            marks
                .map(|(mark, (_, count))| (mark.clone(), *count))
                .collect(),
        )
    }

    fn has_room(&self, by: &str) -> bool {
        let of_one = self.0.keys().filter(|mark| &*mark.by == by).count();
        self.0.len() < MOST_ENDED && of_one < MOST_ENDED_BY_ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(10);

    fn mark(number: usize, by: &str) -> Mark {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Mark {
            session: SessionId::from_bytes(bytes),
            by: by.into(),
        }
    }

    fn at(seconds: i64) -> StoreTime {
        StoreTime::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_mark_is_kept_for_its_time_and_counts_what_was_ended() {
        let mut ended = EndedSessions::default();
        let (one, other) = (mark(1, "a"), mark(1, "b"));
        let count = EndedCount {
            sessions: 1,
            holds: 2,
            waiters: 3,
            denied: 1,
        };
        let none = EndedCount::default();
        let seen = ended.change(Some(EndChange::Mark(one.clone(), KEPT)), at(0));
        assert_eq!(seen, Some(vec![(one.clone(), none)]));
        // What has no mark is not counted.
        let seen = ended.change(Some(EndChange::Count(other.clone(), count)), at(1));
        assert_eq!(seen, Some(vec![(one.clone(), none)]));
        ended.change(Some(EndChange::Count(one.clone(), count)), at(1));
        // The same mark again keeps the count.
        let seen = ended.change(Some(EndChange::Mark(one.clone(), KEPT)), at(5));
        assert_eq!(seen, Some(vec![(one.clone(), count)]));
        let seen = ended.change(Some(EndChange::Count(one.clone(), count)), at(14));
        assert_eq!(seen, Some(vec![(one.clone(), count.plus(count))]));
        assert_eq!(ended.change(None, at(15)), Some(vec![]));

        // One that has done its work goes sooner, and never lasts longer for that.
        ended.change(Some(EndChange::Mark(one.clone(), KEPT)), at(20));
        ended.change(Some(EndChange::Settle(one.clone(), KEPT * 9)), at(20));
        ended.change(Some(EndChange::Settle(other, KEPT)), at(20));
        assert_eq!(ended.change(None, at(30)), Some(vec![]));
        ended.change(Some(EndChange::Mark(one.clone(), KEPT)), at(40));
        ended.change(Some(EndChange::Settle(one, KEPT / 2)), at(40));
        assert_eq!(ended.change(None, at(45)), Some(vec![]));
    }

    #[test]
    fn there_is_room_for_a_bounded_number_of_marks_and_each_caller_has_a_share() {
        let mut ended = EndedSessions::default();
        for number in 0..MOST_ENDED {
            let by = format!("caller {}", number / MOST_ENDED_BY_ONE);
            let change = EndChange::Mark(mark(number, &by), KEPT);
            assert!(ended.change(Some(change), at(0)).is_some());
        }
        let another = Some(EndChange::Mark(mark(MOST_ENDED, "another"), KEPT));
        assert_eq!(ended.change(another.clone(), at(0)), None);
        let again = EndChange::Mark(mark(0, "caller 0"), KEPT);
        assert!(ended.change(Some(again), at(0)).is_some());
        assert!(ended.change(another, at(10)).is_some());
        for number in 0..=MOST_ENDED_BY_ONE {
            let change = EndChange::Mark(mark(number, "greedy"), KEPT);
            let has_room = ended.change(Some(change), at(10)).is_some();
            assert_eq!(has_room, number < MOST_ENDED_BY_ONE, "{number}");
        }
    }
}
