//! Marks of sessions that operators have ended. Every coordinator looks at them, and ends the sessions in question that it has.

use std::{collections::BTreeMap, time::Duration};

use crate::{id::SessionId, time::StoreTime};

/// Most marks that are kept at a time. `ended_sessions.lua` has the same number.
pub const MOST_ENDED: usize = 1000;

/// Number of sessions, holds and waits that coordinators have ended because of one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndedCount {
    /// The sessions: the one of that id, and those that have resumed what it had.
    pub sessions: u32,
    /// Their holds.
    pub holds: u32,
    /// Their acquires that waited or were in flight.
    pub waiters: u32,
}

impl EndedCount {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            holds: self.holds.saturating_add(other.holds),
            waiters: self.waiters.saturating_add(other.waiters),
        }
    }

    /// Returns the larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.max(other.sessions),
            holds: self.holds.max(other.holds),
            waiters: self.waiters.max(other.waiters),
        }
    }
}

/// Change of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndChange {
    /// The session is to end, wherever it is; the mark is kept for so long from now on.
    Mark(SessionId, Duration),
    /// A coordinator has ended this because of the mark.
    Count(SessionId, EndedCount),
}

/// The marks.
#[derive(Clone, Debug, Default)]
pub struct EndedSessions(BTreeMap<SessionId, (StoreTime, EndedCount)>);

impl EndedSessions {
    /// Carries a change out, if there is one. Returns all marks; `None` if there is no room for another one.
    pub fn change(
        &mut self,
        change: Option<EndChange>,
        now: StoreTime,
    ) -> Option<Vec<(SessionId, EndedCount)>> {
        self.0.retain(|_, (until, _)| *until > now);
        match change {
            Some(EndChange::Mark(session, kept_for)) => {
                if self.0.len() >= MOST_ENDED && !self.0.contains_key(&session) {
                    return None;
                }
                let until = now.after(kept_for);
                let mark = self.0.entry(session);
                let mark = mark.or_insert((until, EndedCount::default()));
                mark.0 = mark.0.max(until);
            }
            Some(EndChange::Count(session, count)) => {
                if let Some((_, counted)) = self.0.get_mut(&session) {
                    *counted = counted.plus(count);
                }
            }
            None => {}
        }
        let marks = self.0.iter();
        Some(marks.map(|(id, (_, count))| (*id, *count)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(10);

    fn session(number: usize) -> SessionId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        SessionId::from_bytes(bytes)
    }

    fn at(seconds: i64) -> StoreTime {
        StoreTime::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_mark_is_kept_for_its_time_and_counts_what_was_ended() {
        let mut ended = EndedSessions::default();
        let (one, other) = (session(1), session(2));
        let count = EndedCount {
            sessions: 1,
            holds: 2,
            waiters: 3,
        };
        let none = EndedCount::default();
        let seen = ended.change(Some(EndChange::Mark(one, KEPT)), at(0));
        assert_eq!(seen, Some(vec![(one, none)]));
        // A session without a mark is not counted.
        let seen = ended.change(Some(EndChange::Count(other, count)), at(1));
        assert_eq!(seen, Some(vec![(one, none)]));
        ended.change(Some(EndChange::Count(one, count)), at(1));
        // The same mark again keeps the count.
        let seen = ended.change(Some(EndChange::Mark(one, KEPT)), at(5));
        assert_eq!(seen, Some(vec![(one, count)]));
        let seen = ended.change(Some(EndChange::Count(one, count)), at(14));
        assert_eq!(seen, Some(vec![(one, count.plus(count))]));
        assert_eq!(ended.change(None, at(15)), Some(vec![]));
    }

    #[test]
    fn there_is_room_for_a_bounded_number_of_marks() {
        let mut ended = EndedSessions::default();
        for number in 0..MOST_ENDED {
            let change = EndChange::Mark(session(number), KEPT);
            assert!(ended.change(Some(change), at(0)).is_some());
        }
        let another = Some(EndChange::Mark(session(MOST_ENDED), KEPT));
        assert_eq!(ended.change(another, at(0)), None);
        let again = EndChange::Mark(session(0), KEPT);
        assert!(ended.change(Some(again), at(0)).is_some());
        assert!(ended.change(another, at(10)).is_some());
    }
}
