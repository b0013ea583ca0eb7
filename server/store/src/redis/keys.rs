//! Redis keys of a lock. No other module makes key strings.

use std::{
    io::Write,
    sync::{Arc, LazyLock},
};

use leasehold_core::{
    id::{CoordinatorId, FeedId},
    name::{Invalid, LockName},
};
use redis::{Cmd, RedisWrite};

/// Number of hash slots of Redis Cluster.
pub const SLOTS: u16 = 16_384;
/// Prefix of Leasehold's own keys, which no lock key may have.
const OURS: &str = "lh:";
/// Keys that nothing is ever stored in, of different slots of a cluster.
pub(super) const NOTHING: [&str; 2] = ["lh:{0}:nothing", "lh:{1}:nothing"];

/// Short text for every slot, which hashes to it.
///
/// The companions of a lock must be in its slot so that one script may use them all. `{<lock key>}` is no suitable hash tag: of
/// a key with a `}` in it, only a part would count.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); usize::from(SLOTS)];
    let mut missing = SLOTS;
    let mut number = 0_u32;
    while missing > 0 {
        let tag = base36(number);
        let place = &mut tags[usize::from(crc16(tag.as_bytes()) % SLOTS)];
        if place.is_empty() {
            *place = tag;
            missing -= 1;
        }
        number += 1;
    }
    tags
});

/// Keys of one store.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: Arc<str>,
}

/// Keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeys {
    lock: String,
    /// The lock key's hash slot.
    pub slot: u16,
}

/// Key of a lock; `lua/common.lua` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The lock itself.
    Lock,
    /// The record of the newest grant, with its token.
    Record,
    /// The queue.
    Queue,
    /// The waiters' acquires, and the refreshes of their coordinators.
    Waiters,
    /// Coordinators that have waiters, on one of several independent masters.
    Others,
}

impl LockKeys {
    /// Returns the lock key.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Appends a key to a command.
    pub fn write(&self, cmd: &mut Cmd, key: Key) {
        let kind = match key {
            Key::Lock => {
                cmd.arg(&self.lock);
                return;
            }
            Key::Record => "}:token:",
            Key::Queue => "}:queue:",
            Key::Waiters => "}:waiters:",
            Key::Others => "}:others:",
        };
        let tag = &TAGS[usize::from(self.slot)];
        let mut writer = cmd.writer_for_next_arg();
        for part in [OURS, "{", tag, kind, &self.lock] {
            // Writing to a buffer in memory does not fail.
            let _ = writer.write_all(part.as_bytes());
        }
    }
}

impl Keys {
    /// Returns keys with a prefix.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// Prepares the table that the keys need; otherwise the first key makes it, which takes a while.
    pub fn prepare() {
        LazyLock::force(&TAGS);
    }

    /// Returns the keys of a lock.
    pub fn of(&self, name: &LockName) -> LockKeys {
        let lock = [&self.prefix, name.as_str()].concat();
        let slot = slot_of(lock.as_bytes());
        LockKeys { lock, slot }
    }

    /// Returns the key of the coordinators' publications of blocked waits. Earlier builds used `lh:blocked:…` in another format;
    /// this one neither reads nor writes that key.
    pub fn blocked(&self) -> String {
        format!("{OURS}blocked-waits:{}", self.prefix)
    }

    /// Returns the key of the marks of ended sessions. Earlier builds used `lh:ended-sessions:…` in another format; this one neither
    /// reads nor writes that key.
    pub fn ended_sessions(&self) -> String {
        format!("{OURS}session-ends:{}", self.prefix)
    }

    /// Returns the key of the coordinators' agreement at each of several independent masters.
    pub fn agreement(&self) -> String {
        format!("{OURS}quorum:{}", self.prefix)
    }

    /// Returns the key of the mark of how long one of several independent masters has run.
    pub fn mark(&self) -> String {
        format!("{OURS}run:{}", self.prefix)
    }

    /// Returns the pattern for `SCAN` of the token records of all locks.
    pub fn record_pattern(&self) -> String {
        format!("{OURS}{{*}}:token:{}", self.pattern(""))
    }

    /// Returns the lock of a key, if it is a lock key.
    pub fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let key = std::str::from_utf8(key).ok()?;
        if key.starts_with(OURS) {
            return None;
        }
        LockName::parse(key.strip_prefix(&*self.prefix)?).ok()
    }

    /// Refuses names whose lock key would look like one of Leasehold's own keys.
    pub fn check(&self, name: &LockName) -> Result<(), Invalid> {
        if format!("{}{name}", self.prefix).starts_with(OURS) {
            return Err(Invalid(format!(
                "must not make a Redis key that begins with {OURS:?}, which is kept for Leasehold's own keys"
            )));
        }
        Ok(())
    }

    /// Returns the pattern for `SCAN` of the lock keys whose names begin with `prefix`, taken literally.
    pub fn pattern(&self, prefix: &str) -> String {
        let mut pattern = String::new();
        for c in self.prefix.chars().chain(prefix.chars()) {
            if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        pattern
    }
}

/// Returns the channel of a coordinator's wake-ups: what others did to its waiters and holders.
pub fn wake_channel(coordinator: &CoordinatorId) -> String {
    format!("{OURS}wake:{coordinator}")
}

/// Returns the key that a coordinator writes in a slot before it asks replicas to acknowledge.
pub fn acknowledged(slot: u16, coordinator: &CoordinatorId) -> String {
    let tag = &TAGS[usize::from(slot)];
    format!("{OURS}{{{tag}}}:acknowledged:{coordinator}")
}

/// Returns the channel of wake-ups for the locks of one slot of a cluster, from Redis 7 on. Only that slot's node carries it.
pub fn wake_channel_of_slot(slot: u16, coordinator: &CoordinatorId) -> Vec<u8> {
    let tag = &TAGS[usize::from(slot)];
    format!("{OURS}{{{tag}}}:wake:{coordinator}").into_bytes()
}

/// Channels of feeds. Pub/sub ignores databases, so most contain their database's number.
#[derive(Clone, Debug)]
pub struct Channels {
    everything: String,
    gate: String,
}

impl Channels {
    /// Returns the channels of a database.
    pub fn of_database(database: u32) -> Self {
        Self {
            everything: format!("{OURS}watch:{database}"),
            gate: format!("{OURS}watching:{database}"),
        }
    }

    /// Returns the channel that every feed subscribes to, also as a pattern, and on which nothing is published. Without a
    /// subscriber, scripts check no other channel.
    pub fn gate(&self) -> Vec<u8> {
        self.gate.clone().into_bytes()
    }

    /// Returns the channel of changes of all locks.
    pub fn everything(&self) -> Vec<u8> {
        self.everything.clone().into_bytes()
    }

    /// Returns the channel of changes of one lock.
    pub fn of_lock(&self, keys: &LockKeys) -> Vec<u8> {
        format!("{}:{}", self.everything, keys.lock).into_bytes()
    }

    /// Returns their definition for scripts: see `lua/watch.lua`.
    pub fn in_lua(&self) -> String {
        let Self { everything, gate } = self;
        format!("local GATE, EVERYTHING = '{gate}', '{everything}'\n")
    }

    /// Returns the lock key of a channel of one lock.
    pub fn lock_of<'a>(&self, channel: &'a [u8]) -> Option<&'a [u8]> {
        channel
            .strip_prefix(self.everything.as_bytes())?
            .strip_prefix(b":")
    }

    /// Returns the one channel for the locks of one slot of a cluster, from Redis 7 on. Only that slot's node carries it.
    pub fn of_slot(slot: u16) -> Vec<u8> {
        let tag = &TAGS[usize::from(slot)];
        format!("{OURS}{{{tag}}}:watch").into_bytes()
    }

    /// Returns the channel of the views that a feed's looks saw.
    pub fn of_feed(feed: FeedId) -> Vec<u8> {
        format!("{OURS}feed:{:016x}", feed.get()).into_bytes()
    }
}

/// Returns the slot of a key, by its hash tag if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// Returns the CRC-16/XMODEM, with which Redis Cluster hashes keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ CRC_OF_BYTE[usize::from(high ^ byte)]
    })
}

/// The CRC of each single byte.
const CRC_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::Arg;

    use super::*;

    fn written(keys: &LockKeys) -> Vec<Vec<u8>> {
        let mut cmd = Cmd::new();
        for key in [Key::Lock, Key::Record, Key::Queue, Key::Waiters] {
            keys.write(&mut cmd, key);
        }
        cmd.args_iter()
            .map(|arg| match arg {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` gives them.
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn companions_share_the_slot_whatever_braces_a_name_has() {
        let keys = Keys::new("lock:");
        for name in ["plain", "{a}b", "a}b", "{", "}{", "{}", "x{y}z{w}", "ключ"] {
            let keys = keys.of(&LockName::parse(name).unwrap());
            for key in written(&keys) {
                assert_eq!(slot_of(&key), keys.slot, "{key:?}");
            }
        }
    }

    #[test]
    fn the_wake_channel_of_a_slot_is_in_it() {
        for slot in [0, 1, 8_000, SLOTS - 1] {
            let channel = wake_channel_of_slot(slot, &CoordinatorId::new("a{b}c"));
            assert_eq!(slot_of(&channel), slot, "{channel:?}");
            assert_eq!(slot_of(&Channels::of_slot(slot)), slot);
        }
    }

    #[test]
    fn names_come_back_from_keys() {
        let keys = Keys::new("lock:");
        let name = LockName::parse("a*b").unwrap();
        let [lock, record, ..] = &written(&keys.of(&name))[..] else {
            panic!("there are at least two keys")
        };
        assert_eq!(keys.name_of(lock), Some(name));
        assert_eq!(keys.name_of(record), None);
        assert_eq!(keys.pattern("a*"), "lock:a\\**");
    }

    #[test]
    fn our_own_keys_are_no_lock_keys() {
        let name = LockName::parse("lh:x").unwrap();
        assert!(Keys::new("").check(&name).is_err());
        assert!(Keys::new("lock:").check(&name).is_ok());
    }
}
