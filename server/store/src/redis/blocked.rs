//! Exchange of blocked waits between coordinators, for the detector of deadlocks. Sends only what has changed, in both
//! directions.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{
    deadlock::{BlockedWait, Omissions, Publication},
    id::{Actor, CoordinatorId, OwnerId, SessionId},
    name::LockName,
};
use redis::{Cmd, Script, Value};

use leasehold_core::failure::StoreError;

/// The script; `lua/blocked.lua` describes it.
pub static SCRIPT: &str = include_str!("../../lua/blocked.lua");

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// First byte of a publication. One with another first byte is not read.
const FORMAT: u8 = 1;

/// Board with this coordinator's last publication, and the known ones of all others.
#[derive(Debug)]
pub(super) struct Board {
    coordinator: CoordinatorId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The version of the last publication that was sent.
    version: u64,
    /// The last publication, if the store is known to have it.
    mine: Option<Arc<Publication>>,
    /// Known publications, by coordinator, this one included.
    known: BTreeMap<String, (u64, Arc<Publication>)>,
}

/// One call of the script.
#[derive(Debug)]
struct Question {
    command: Cmd,
    mine: Arc<Publication>,
}

impl Board {
    pub(super) fn new(coordinator: CoordinatorId) -> Self {
        Self {
            coordinator,
            state: Mutex::default(),
        }
    }

    /// Publishes `mine` and returns the publications of all coordinators. `send` executes the call.
    pub(super) async fn exchange<F>(
        &self,
        key: &str,
        mine: Arc<Publication>,
        send: impl Fn(Cmd) -> F,
    ) -> Result<Vec<Arc<Publication>>, StoreError>
    where
        F: Future<Output = Result<Value, StoreError>>,
    {
        // Twice if the store has lost the publication, for example in a fail-over.
        for _ in 0..2 {
            let question = self.question(key, &mine);
            let reply = send(question.command.clone()).await?;
            if let Some(all) = self.answer(&question, reply)? {
                return Ok(all);
            }
        }
        Err(garbled())
    }

    fn question(&self, key: &str, mine: &Arc<Publication>) -> Question {
        let mut state = self.state();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*HASH).arg(1).arg(key);
        command.arg(self.coordinator.as_str());
        if mine.is_empty() {
            command.arg(0).arg("");
        } else if state.mine.as_ref() == Some(mine) {
            command.arg(state.version).arg("");
        } else {
            state.version += 1;
            command.arg(state.version).arg(write(mine));
        }
        for (id, (version, _)) in &state.known {
            command.arg(id).arg(*version);
        }
        // Unknown until the store answers.
        state.mine = None;
        Question {
            command,
            mine: Arc::clone(mine),
        }
    }

    /// Returns the publications of all; `None` if this coordinator must send its own again.
    fn answer(
        &self,
        question: &Question,
        reply: Value,
    ) -> Result<Option<Vec<Arc<Publication>>>, StoreError> {
        let (is_known, told) = decode(reply).ok_or_else(garbled)?;
        let mut state = self.state();
        let mut known = std::mem::take(&mut state.known);
        for (id, version, bytes) in told {
            let publication = match bytes {
                Some(bytes) => Arc::new(read(&bytes).unwrap_or_else(Publication::unreadable)),
                None if id == self.coordinator.as_str() => Arc::clone(&question.mine),
                None => match known.remove(&id) {
                    Some((has, publication)) if has == version => publication,
                    _ => Arc::new(Publication::unreadable()),
                },
            };
            state.known.insert(id, (version, publication));
        }
        if !is_known {
            return Ok(None);
        }
        state.mine = Some(Arc::clone(&question.mine));
        let all = state.known.values().map(|(_, told)| Arc::clone(told));
        Ok(Some(all.collect()))
    }

    /// Takes in a reply in the place of the script's.
    pub(super) fn take(
        &self,
        mine: &Arc<Publication>,
        reply: Value,
    ) -> Result<Option<Vec<Arc<Publication>>>, StoreError> {
        self.answer(&self.question("key", mine), reply)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn garbled() -> StoreError {
    StoreError::Garbled {
        reason: "it does not exchange blocked waits as this version does".into(),
    }
}

/// A coordinator, the version of its publication, and the publication if it is new.
type Told = (String, u64, Option<Vec<u8>>);

fn decode(reply: Value) -> Option<(bool, Vec<Told>)> {
    let Value::Array(items) = reply else {
        return None;
    };
    let mut items = items.into_iter();
    let is_known: u8 = redis::from_redis_value(items.next()?).ok()?;
    let told = items.map(|item| redis::from_redis_value(item).ok());
    Some((is_known == 1, told.collect::<Option<_>>()?))
}

fn write(publication: &Publication) -> Vec<u8> {
    let Publication { waits, omissions } = publication;
    let mut bytes = vec![FORMAT, u8::from(omissions.anybody)];
    // A publication has fewer sessions than that.
    let sessions = u16::try_from(omissions.sessions.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&sessions.to_be_bytes());
    for session in omissions.sessions.iter().take(usize::from(sessions)) {
        bytes.extend_from_slice(session.as_bytes());
    }
    for wait in waits {
        let name = wait.name.as_str().as_bytes();
        // Names have at most 512 bytes.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(wait.session.as_bytes());
        bytes.extend_from_slice(&wait.actor.get().to_be_bytes());
        bytes.extend_from_slice(wait.ticket.as_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&name[..usize::from(length)]);
    }
    bytes
}

/// Reads a publication; `None` if it is not in the format that [`write`] uses.
pub(super) fn read(bytes: &[u8]) -> Option<Publication> {
    let ([format, anybody], rest) = bytes.split_first_chunk()?;
    if *format != FORMAT {
        return None;
    }
    let (sessions, rest) = rest.split_first_chunk()?;
    let (sessions, mut rest) =
        rest.split_at_checked(16 * usize::from(u16::from_be_bytes(*sessions)))?;
    let sessions = sessions.chunks_exact(16).map(SessionId::parse);
    let mut publication = Publication {
        waits: Vec::new(),
        omissions: Omissions {
            sessions: sessions.collect::<Option<_>>()?,
            anybody: *anybody != 0,
        },
    };
    while !rest.is_empty() {
        let wait;
        (wait, rest) = read_wait(rest)?;
        publication.waits.push(wait);
    }
    Some(publication)
}

fn read_wait(told: &[u8]) -> Option<(BlockedWait, &[u8])> {
    let (session, rest) = told.split_at_checked(16)?;
    let (actor, rest) = rest.split_first_chunk()?;
    let (ticket, rest) = rest.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let wait = BlockedWait {
        session: SessionId::parse(session)?,
        actor: Actor::new(u64::from_be_bytes(*actor)),
        ticket: OwnerId::parse(ticket)?,
        name: LockName::parse(std::str::from_utf8(name).ok()?).ok()?,
    };
    Some((wait, rest))
}

#[cfg(test)]
mod tests {
    use redis::Arg;

    use super::*;

    /// Bytes of a wait without its name: session, actor, ticket, length of the name.
    const FIXED: usize = 16 + 8 + 16 + 2;

    fn wait(number: u8, name: &str) -> BlockedWait {
        BlockedWait {
            session: SessionId::from_bytes([number; 16]),
            actor: Actor::new(u64::MAX - u64::from(number)),
            ticket: OwnerId::from_bytes([number + 1; 16]),
            name: LockName::parse(name).unwrap(),
        }
    }

    fn publication<const N: usize>(waits: &[BlockedWait], sessions: [u8; N]) -> Publication {
        Publication {
            waits: waits.to_vec(),
            omissions: Omissions {
                sessions: sessions
                    .map(|number| SessionId::from_bytes([number; 16]))
                    .into(),
                anybody: false,
            },
        }
    }

    #[test]
    fn a_publication_is_read_as_it_was_written() {
        let long = "x".repeat(512);
        for publication in [
            publication(&[], []),
            publication(&[], [7]),
            publication(&[wait(1, "a"), wait(2, "ключ }{"), wait(3, &long)], [4, 5]),
            Publication::unreadable(),
        ] {
            assert_eq!(read(&write(&publication)), Some(publication));
        }
    }

    #[test]
    fn a_publication_that_is_cut_short_or_of_another_format_is_not_read() {
        let whole = write(&publication(&[wait(1, "a")], [7]));
        for length in 0..whole.len() {
            // Without its waits, it is a publication of none.
            let is_whole = length == whole.len() - (FIXED + 1);
            assert_eq!(read(&whole[..length]).is_some(), is_whole, "{length}");
        }
        let newer = [&[FORMAT + 1], &whole[1..]].concat();
        assert_eq!(read(&newer), None);
    }

    /// Returns the arguments of the call after the number of keys: key, coordinator, version, publication, known publications.
    fn arguments(question: &Question) -> Vec<Vec<u8>> {
        let arguments = question.command.args_iter().skip(3);
        arguments
            .map(|argument| match argument {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            })
            .collect()
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn told(id: &str, version: i64, publication: Option<&Publication>) -> Value {
        let publication = publication.map_or(Value::Nil, |told| Value::BulkString(write(told)));
        Value::Array(vec![text(id), Value::Int(version), publication])
    }

    fn reply(is_known: i64, told: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(std::iter::once(Value::Int(is_known)).chain(told).collect())
    }

    #[test]
    fn only_what_has_changed_is_sent_and_asked_for() {
        let board = Board::new(CoordinatorId::new("me"));
        let mine = Arc::new(publication(&[wait(1, "a")], []));
        let theirs = publication(&[wait(2, "b")], []);

        let first = board.question("key", &mine);
        assert_eq!(arguments(&first)[2], b"1");
        assert_eq!(arguments(&first)[3], write(&mine));
        let answer = reply(
            1,
            [told("me", 1, Some(&mine)), told("other", 7, Some(&theirs))],
        );
        let all = board.answer(&first, answer).unwrap().unwrap();
        assert_eq!(all.len(), 2);

        let second = board.question("key", &mine);
        let expected: [&[u8]; 6] = [b"key", b"me", b"1", b"", b"me", b"1"];
        assert_eq!(arguments(&second)[..6], expected);
        assert_eq!(arguments(&second)[6..], [&b"other"[..], b"7"]);
        let answer = reply(1, [told("me", 1, None), told("other", 7, None)]);
        assert_eq!(board.answer(&second, answer).unwrap().unwrap(), all);

        // The store has lost what was published: it is sent again.
        let third = board.question("key", &mine);
        assert_eq!(board.answer(&third, reply(0, [])).unwrap(), None);
        let fourth = board.question("key", &mine);
        assert_eq!(arguments(&fourth)[2..4], [b"2".to_vec(), write(&mine)]);
        assert_eq!(arguments(&fourth).len(), 4, "nothing of others is known");

        // A publication that changes is sent; so is one whose call was not answered.
        let more = Arc::new(publication(&[wait(1, "a"), wait(3, "c")], []));
        for version in [b"3", b"4"] {
            let question = board.question("key", &more);
            assert_eq!(arguments(&question)[2..4], [version.to_vec(), write(&more)]);
        }
        let none = board.question("key", &Arc::default());
        assert_eq!(arguments(&none)[2..4], [b"0".to_vec(), Vec::new()]);
    }

    #[test]
    fn a_coordinators_own_publication_is_not_sent_back() {
        let board = Board::new(CoordinatorId::new("me"));
        for number in 1..3 {
            let mine = Arc::new(publication(&[wait(number, "a")], []));
            let question = board.question("key", &mine);
            let answer = reply(1, [told("me", number.into(), None)]);
            assert_eq!(board.answer(&question, answer).unwrap(), Some(vec![mine]));
        }
    }

    #[test]
    fn a_publication_that_cannot_be_read_may_leave_out_anybody() {
        let board = Board::new(CoordinatorId::new("me"));
        let question = board.question("key", &Arc::default());
        let strange = Value::Array(vec![text("newer"), Value::Int(1), text("?")]);
        let all = board.answer(&question, reply(1, [strange])).unwrap();
        assert_eq!(*all.unwrap()[0], Publication::unreadable());
        assert!(board.answer(&question, Value::Int(1)).is_err());
    }
}
