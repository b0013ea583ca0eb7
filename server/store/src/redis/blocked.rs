//! What coordinators tell one another of actors that wait while they hold something.

use std::sync::LazyLock;

use leasehold_core::{
    deadlock::BlockedWait,
    id::{Actor, CoordinatorId, OwnerId, SessionId},
    name::LockName,
};
use redis::{Cmd, Script, Value};

use crate::error::StoreError;

/// The script; `lua/blocked.lua` describes it.
pub static SCRIPT: &str = include_str!("../../lua/blocked.lua");

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// Bytes of a wait but for its name: session, actor, ticket, length of the name.
const FIXED: usize = 16 + 8 + 16 + 2;

/// The call that tells `mine` and asks for everybody's.
pub fn encode(key: &str, coordinator: &CoordinatorId, mine: &[BlockedWait]) -> Cmd {
    let mut told = Vec::with_capacity(mine.len() * (FIXED + 32));
    for wait in mine {
        let name = wait.name.as_str().as_bytes();
        // Names have at most 512 bytes.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        told.extend_from_slice(wait.session.as_bytes());
        told.extend_from_slice(&wait.actor.get().to_be_bytes());
        told.extend_from_slice(wait.ticket.as_bytes());
        told.extend_from_slice(&length.to_be_bytes());
        told.extend_from_slice(&name[..usize::from(length)]);
    }
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(&*HASH).arg(1).arg(key);
    cmd.arg(coordinator.as_str()).arg(told);
    cmd
}

/// What everybody told, or that this version can't read it.
pub(super) fn told_by_all(reply: Value) -> Result<Vec<BlockedWait>, StoreError> {
    decode(reply).ok_or_else(|| StoreError::Garbled {
        reason: "it does not tell blocked actors as this version does".into(),
    })
}

/// What everybody told; `None` if it can't be read. A newer version of the coordinator may tell what this one can't read.
pub fn decode(reply: Value) -> Option<Vec<BlockedWait>> {
    let told: Vec<Vec<u8>> = redis::from_redis_value(reply).ok()?;
    let mut waits = Vec::new();
    for mut told in told.iter().map(Vec::as_slice) {
        while !told.is_empty() {
            let (wait, rest) = read(told)?;
            waits.push(wait);
            told = rest;
        }
    }
    Some(waits)
}

fn read(told: &[u8]) -> Option<(BlockedWait, &[u8])> {
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
    #![expect(clippy::unwrap_used, reason = "tests")]
    use redis::Arg;

    use super::*;

    fn wait(number: u8, name: &str) -> BlockedWait {
        BlockedWait {
            session: SessionId::from_bytes([number; 16]),
            actor: Actor::new(u64::MAX - u64::from(number)),
            ticket: OwnerId::from_bytes([number + 1; 16]),
            name: LockName::parse(name).unwrap(),
        }
    }

    fn told(mine: &[BlockedWait]) -> Vec<u8> {
        let cmd = encode("key", &CoordinatorId::new("c"), mine);
        match cmd.args_iter().last() {
            Some(Arg::Simple(told)) => told.to_vec(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn what_is_told_comes_back() {
        let (ours, theirs) = (
            [wait(1, "a"), wait(2, "ключ }{")],
            [wait(3, &"x".repeat(512))],
        );
        let reply = [told(&ours), told(&theirs)].map(Value::BulkString);
        let expected: Vec<_> = ours.into_iter().chain(theirs).collect();
        assert_eq!(decode(Value::Array(reply.into())), Some(expected));
        assert_eq!(decode(Value::Array(Vec::new())), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_short_is_not_read() {
        let whole = told(&[wait(1, "a")]);
        for length in 1..whole.len() {
            let cut = Value::BulkString(whole[..length].to_vec());
            assert_eq!(decode(Value::Array(vec![cut])), None, "{length}");
        }
    }
}
