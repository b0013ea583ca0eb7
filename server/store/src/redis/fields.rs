//! Parser of the parts of replies.

use std::time::Duration;

use leasehold_core::{
    id::{Actor, CoordinatorId, FencingToken, OwnerId, Predecessors, SessionId, WaiterNumber},
    mode::{Limit, Mode, Permits},
    name::{ClientName, Value as LockValue},
    time::StoreTime,
};
use redis::Value;

/// Fault of a reply.
#[derive(Debug)]
pub enum Garbled {
    /// It answers another command: the replies on the connection are out of step.
    Foreign,
    /// It does not have the script's format.
    Shape(&'static str),
}

impl Garbled {
    /// Returns the fault in words.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Foreign => "it answers another command",
            Self::Shape(what) => what,
        }
    }
}

pub(crate) type Decoded<T> = Result<T, Garbled>;

/// Extras of a hold, which most lack: see `lua/hold.lua`.
pub(crate) struct Extras {
    pub(crate) mode: Mode,
    pub(crate) actor: Actor,
    pub(crate) count: u32,
    pub(crate) max_hold: Option<Duration>,
}

impl Extras {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self {
                mode: Mode::Exclusive,
                actor: Actor::NOBODY,
                count: 1,
                max_hold: None,
            });
        }
        let (letter, bytes) = bytes.split_first()?;
        let (permits, bytes) = bytes.split_first_chunk()?;
        let (limit, bytes) = bytes.split_first_chunk()?;
        let (actor, bytes) = bytes.split_first_chunk()?;
        let (count, bytes) = bytes.split_first_chunk()?;
        // Each of these is there if it, or one behind it, is not 0.
        let (max_hold, bytes) = or_zero(bytes)?;
        let (revision, bytes) = or_zero(bytes)?;
        let (at_least, bytes) = or_zero(bytes)?;
        if !bytes.is_empty() {
            return None;
        }
        let (max_hold, revision) = (u64::from_be_bytes(max_hold), u32::from_be_bytes(revision));
        let mode = match letter {
            b'x' => Mode::Exclusive,
            b's' => Mode::Shared,
            b'p' => {
                let (permits, limit) = (u32::from_be_bytes(*permits), u32::from_be_bytes(*limit));
                let permits = Permits::new(permits, limit).ok()?;
                let at_least = u32::from_be_bytes(at_least);
                Mode::Semaphore(permits.of_revision(revision).or_at_least(at_least))
            }
            _ => return None,
        };
        Some(Self {
            mode,
            actor: Actor::new(u64::from_be_bytes(*actor)),
            count: u32::from_be_bytes(*count),
            max_hold: (max_hold > 0).then(|| Duration::from_millis(max_hold)),
        })
    }
}

/// Splits off the first bytes; zeros if there are none.
fn or_zero<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    if bytes.is_empty() {
        return Some(([0; N], bytes));
    }
    let (first, rest) = bytes.split_first_chunk()?;
    Some((*first, rest))
}

/// Parses the session of a hold or waiter, and those that it was resumed from: see `lua/hold.lua`.
pub(crate) fn parse_sessions(bytes: &[u8]) -> Option<(Option<SessionId>, Predecessors)> {
    if !bytes.len().is_multiple_of(16) {
        return None;
    }
    let mut sessions = bytes.chunks_exact(16).filter_map(SessionId::parse);
    let session = sessions.next();
    Some((session, Predecessors::new(sessions)))
}

/// Elements of an array, one after the other.
pub(crate) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(crate) fn of(value: Value) -> Decoded<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            _ => Err(Garbled::Shape("not an array")),
        }
    }

    /// Returns the remaining elements.
    pub(super) fn rest(self) -> impl Iterator<Item = Value> {
        self.0
    }

    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn next(&mut self) -> Decoded<Value> {
        self.0.next().ok_or(Garbled::Shape("too short"))
    }

    pub(crate) fn int(&mut self) -> Decoded<i64> {
        match self.next()? {
            Value::Int(int) => Ok(int),
            _ => Err(Garbled::Shape("not an integer")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Decoded<Vec<u8>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(Garbled::Shape("not a string")),
        }
    }

    /// Reads a string, or `None` if the script replied `false`.
    pub(crate) fn maybe_bytes(&mut self) -> Decoded<Option<Vec<u8>>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            _ => Err(Garbled::Shape("not a string")),
        }
    }

    /// Reads a nested array, or `None` if the script replied `false`.
    pub(super) fn list(&mut self) -> Decoded<Option<Self>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            list => Self::of(list).map(Some),
        }
    }

    pub(super) fn nested(&mut self) -> Decoded<Self> {
        self.list()?.ok_or(Garbled::Shape("no array"))
    }

    /// Reads each element of a nested array.
    pub(super) fn each<T>(&mut self, element: impl Fn(Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let list = self.nested()?.0;
        list.map(|item| element(Self::of(item)?)).collect()
    }

    pub(crate) fn flag(&mut self) -> Decoded<bool> {
        Ok(self.int()? != 0)
    }

    pub(super) fn count(&mut self) -> Decoded<u64> {
        u64::try_from(self.int()?).map_err(|_| Garbled::Shape("negative count"))
    }

    pub(super) fn waiter_number(&mut self) -> Decoded<WaiterNumber> {
        self.count().map(WaiterNumber::new)
    }

    pub(super) fn number(&mut self) -> Decoded<u32> {
        u32::try_from(self.int()?).map_err(|_| Garbled::Shape("number out of range"))
    }

    /// Reads a number, or `None` if it is 0.
    pub(super) fn optional_number(&mut self) -> Decoded<Option<u32>> {
        Ok(Some(self.number()?).filter(|number| *number != 0))
    }

    /// Reads a limit and its revision.
    pub(super) fn limit(&mut self) -> Decoded<Limit> {
        Ok(Limit {
            number: self.number()?,
            revision: self.number()?,
        })
    }

    /// Reads a limit and its revision, or `None` if it is 0.
    pub(super) fn optional_limit(&mut self) -> Decoded<Option<Limit>> {
        Ok(Some(self.limit()?).filter(|limit| limit.number != 0))
    }

    pub(crate) fn time(&mut self) -> Decoded<StoreTime> {
        self.int().map(StoreTime::from_micros)
    }

    pub(super) fn extras(&mut self) -> Decoded<Extras> {
        Extras::parse(&self.bytes()?).ok_or(Garbled::Shape("extras"))
    }

    pub(crate) fn token(&mut self) -> Decoded<FencingToken> {
        self.int().map(FencingToken::new)
    }

    /// Reads milliseconds, or `None` without an expiry.
    pub(crate) fn expiry(&mut self) -> Decoded<Option<Duration>> {
        Ok(u64::try_from(self.int()?).ok().map(Duration::from_millis))
    }

    /// Reads milliseconds, or `None` if they are 0.
    pub(crate) fn non_zero(&mut self) -> Decoded<Option<Duration>> {
        Ok(self.expiry()?.filter(|duration| !duration.is_zero()))
    }

    pub(super) fn owner(&mut self) -> Decoded<OwnerId> {
        OwnerId::parse(&self.bytes()?).ok_or(Garbled::Shape("owner id"))
    }

    pub(super) fn session(&mut self) -> Decoded<Option<SessionId>> {
        Ok(self.sessions()?.0)
    }

    /// Reads a session, and those that it was resumed from.
    pub(super) fn sessions(&mut self) -> Decoded<(Option<SessionId>, Predecessors)> {
        parse_sessions(&self.bytes()?).ok_or(Garbled::Shape("session"))
    }

    /// Reads milliseconds, 0 without an expiry.
    pub(super) fn time_left(&mut self) -> Decoded<Duration> {
        Ok(self.expiry()?.unwrap_or_default())
    }

    pub(super) fn value(&mut self) -> Decoded<LockValue> {
        LockValue::parse(&self.bytes()?).map_err(|_| Garbled::Shape("value"))
    }

    fn text(&mut self) -> Decoded<String> {
        String::from_utf8(self.bytes()?).map_err(|_| Garbled::Shape("not UTF-8"))
    }

    pub(crate) fn coordinator(&mut self) -> Decoded<CoordinatorId> {
        Ok(CoordinatorId::new(&self.text()?))
    }

    pub(super) fn client_name(&mut self) -> Decoded<ClientName> {
        ClientName::parse(&self.text()?).map_err(|_| Garbled::Shape("client name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Semaphore with 2 permits of 5, actor 7, held 3 times; bound 9 ms; revision 4; at least 1 permit.
    const EXTRAS: &[u8; 37] = b"p\0\0\0\x02\0\0\0\x05\0\0\0\0\0\0\0\x07\0\0\0\x03\
        \0\0\0\0\0\0\0\x09\0\0\0\x04\0\0\0\x01";

    /// Coordinators that know no bound, revision or smallest number write fewer bytes.
    #[test]
    fn extras_that_end_sooner_are_read() {
        let permits = Permits::new(2, 5).unwrap();
        let bound = Duration::from_millis(9);
        for (length, permits, max_hold) in [
            (21, permits, None),
            (29, permits, Some(bound)),
            (33, permits.of_revision(4), Some(bound)),
            (37, permits.of_revision(4).or_at_least(1), Some(bound)),
        ] {
            let extras = Extras::parse(&EXTRAS[..length]).unwrap();
            assert_eq!(extras.mode, Mode::Semaphore(permits), "{length}");
            assert_eq!((extras.actor, extras.count), (Actor::new(7), 3));
            assert_eq!(extras.max_hold, max_hold, "{length}");
        }
        for length in [20, 22, 30, 36] {
            assert!(Extras::parse(&EXTRAS[..length]).is_none(), "{length}");
        }
    }

    /// Coordinators that know no predecessors write none.
    #[test]
    fn a_session_without_predecessors_is_read() {
        let ids = [1; 16].into_iter().chain([2; 16]).collect::<Vec<u8>>();
        let session = SessionId::parse(&ids[..16]);
        let none = Predecessors::new([]);
        assert_eq!(parse_sessions(&[]), Some((None, none.clone())));
        assert_eq!(parse_sessions(&ids[..16]), Some((session, none)));
        let former = Predecessors::new(SessionId::parse(&ids[16..]));
        assert_eq!(parse_sessions(&ids), Some((session, former)));
        assert_eq!(parse_sessions(&ids[..17]), None);
    }
}
