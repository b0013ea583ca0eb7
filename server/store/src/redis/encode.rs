//! Encoder of commands: many become one script call.

use std::{io::Write, sync::Arc};

use leasehold_core::{
    command::{Acquire, Caller, Command, End, One, Op},
    id::FencingToken,
    mode::Mode,
    name::KEPT_CLIENT_NAME,
    time::StoreTime,
};
use redis::{Cmd, RedisWrite, Script};

use super::{
    keys::{Channels, Key, LockKeys},
    packed::{details, millis, release_request, stream},
};

/// Script: the shared functions, the operations as the body of a function that few calls need, and the dispatcher. Inside
/// that function are three more: one for locks with several holders, one with the rare operations, and one with those that only
/// look. They are apart because Lua bounds the local variables of others that a function uses, 60 in all. Another function is
/// only needed while a feed follows locks.
///
/// All but the first file of that function is a function in it, because that halves the time that a call takes to make them all:
/// Lua 5.1 looks for each variable that a new function uses among all those of the function around it that were used so far,
/// but copies those of functions further out.
static SCRIPT: [&str; 41] = [
    include_str!("../../lua/common.lua"),
    "local function operations()",
    include_str!("../../lua/hold.lua"),
    "return (function()",
    "local function many_functions()",
    include_str!("../../lua/many.lua"),
    "end",
    include_str!("../../lua/holders.lua"),
    include_str!("../../lua/queue.lua"),
    include_str!("../../lua/limit.lua"),
    include_str!("../../lua/acquire.lua"),
    include_str!("../../lua/renew.lua"),
    include_str!("../../lua/release.lua"),
    "local function others()",
    include_str!("../../lua/found.lua"),
    include_str!("../../lua/refresh.lua"),
    include_str!("../../lua/downgrade.lua"),
    include_str!("../../lua/reduce.lua"),
    include_str!("../../lua/resumed.lua"),
    include_str!("../../lua/resume.lua"),
    include_str!("../../lua/force_release.lua"),
    include_str!("../../lua/set_value.lua"),
    include_str!("../../lua/set_count.lua"),
    include_str!("../../lua/others.lua"),
    "end",
    "local function views()",
    include_str!("../../lua/waiting.lua"),
    include_str!("../../lua/view.lua"),
    include_str!("../../lua/edges.lua"),
    include_str!("../../lua/look_for_feed.lua"),
    include_str!("../../lua/request_release.lua"),
    include_str!("../../lua/views.lua"),
    "end",
    include_str!("../../lua/operations.lua"),
    "end)()",
    "end",
    include_str!("../../lua/gate.lua"),
    "if is_watched then watch = (function()",
    include_str!("../../lua/watch.lua"),
    "end)() end",
    include_str!("../../lua/dispatch.lua"),
];

/// Script for the locks of one database, with its channels.
#[derive(Clone, Debug)]
pub struct LockScript {
    text: Arc<str>,
    hash: String,
}

impl LockScript {
    /// Returns the script of a database.
    pub fn of_database(database: u32) -> Self {
        Self::of(&Channels::of_database(database), false)
    }

    /// Returns the script of a cluster, which has one database.
    pub fn of_cluster() -> Self {
        Self::of(&Channels::of_database(0), true)
    }

    fn of(channels: &Channels, is_cluster: bool) -> Self {
        let text = format!(
            "{}local IS_CLUSTER, KEPT_CLIENT = {is_cluster}, {KEPT_CLIENT_NAME}\n{}",
            channels.in_lua(),
            SCRIPT.join("\n")
        );
        #[cfg(feature = "planted")]
        let text = super::planted::plant(text);
        Self {
            hash: Script::new(&text).get_hash().to_owned(),
            text: text.into(),
        }
    }

    /// Returns the text to be loaded.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }
}

/// Typical bytes of a command in a call; more grows the buffer.
const TYPICAL: usize = 384;
/// Most arguments of a command: its keys, its caller, and its own.
const ARGUMENTS: usize = 13;
/// Other arguments of a call.
const FIXED: usize = 13;

/// Letter of a command that is not executed together with others.
const ALONE: u8 = b'.';

/// Returns the script call that executes these commands. Its reply repeats `nonce`. A command that reaches the server after
/// `not_after`, or after its own deadline, does nothing, except releases and views. A look that comes late would
/// show a feed a state of long ago: a master that was stopped and replaced may carry it out when it goes on.
///
/// Commands whose callers differ only by the floor share the highest floor: a token may be higher than requested.
pub fn encode<'a>(
    commands: impl Iterator<Item = (&'a Command, &'a LockKeys)> + Clone,
    nonce: u64,
    not_after: Option<StoreTime>,
    script: &LockScript,
) -> Cmd {
    let Plan {
        letters,
        first,
        floor,
        keys,
    } = Plan::of(commands.clone());
    let number = letters.len();
    let mut cmd = Cmd::with_capacity(number * ARGUMENTS + FIXED, number * TYPICAL);
    cmd.arg("EVALSHA").arg(&script.hash).arg(keys);

    let planned = letters.iter().copied().zip(commands);
    let among = |kinds: &'static [u8]| planned.clone().filter(|(letter, _)| kinds.contains(letter));
    // As lua/dispatch.lua has them.
    let columns: [(Key, &[&[u8]]); 4] = [
        (Key::Queue, &[b"R", b"r", b"aw"]),
        (Key::Lock, &[b"aw", b"R", b"r", b"n"]),
        (Key::Record, &[b"R", b"r", b"n", b"aw"]),
        (Key::Waiters, &[b"R", b"r", b"aw"]),
    ];
    for (key, kinds) in columns {
        for kind in kinds {
            among(kind).for_each(|(_, (_, keys))| keys.write(&mut cmd, key));
        }
    }
    for (_, (command, keys)) in among(&[ALONE]) {
        let all = [Key::Lock, Key::Record, Key::Queue, Key::Waiters];
        for key in &all[..keys_of(&command.op)] {
            keys.write(&mut cmd, *key);
        }
    }

    cmd.arg(nonce).arg(&letters);
    for kind in [&b"Rr"[..], b"n", b"aw", b"R"] {
        cmd.arg(
            letters
                .iter()
                .filter(|letter| kind.contains(letter))
                .count(),
        );
    }
    let mut told = first.map(|caller| (caller, floor));
    if let Some(caller) = first {
        tell_caller(&mut cmd, caller, floor, not_after);
    }
    for kind in [&b"R"[..], b"r", b"n", b"aw"] {
        for (_, (command, _)) in among(kind) {
            arguments(&mut cmd, command);
        }
    }
    for (_, (command, _)) in among(&[ALONE]) {
        let caller = &command.caller;
        if !told.is_some_and(|(told, floor)| floor == caller.floor && agree(told, caller)) {
            cmd.arg("c");
            tell_caller(&mut cmd, caller, caller.floor, not_after);
            told = Some((caller, caller.floor));
        }
        cmd.arg(&[letter(&command.op)][..]);
        arguments(&mut cmd, command);
    }
    cmd
}

/// Plan to execute the commands of a call.
struct Plan<'a> {
    /// The letter of each command that is executed together with others; [`ALONE`] for the others.
    letters: Vec<u8>,
    /// The caller of the first command: commands with the same one may go together.
    first: Option<&'a Caller>,
    /// The highest floor of those commands.
    floor: FencingToken,
    keys: usize,
}

impl<'a> Plan<'a> {
    fn of(commands: impl Iterator<Item = (&'a Command, &'a LockKeys)>) -> Self {
        let mut plan = Self {
            letters: Vec::with_capacity(commands.size_hint().0),
            first: None,
            floor: FencingToken::default(),
            keys: 0,
        };
        // By slot, so that two locks sometimes count as the same, which does no harm.
        let mut seen = [0_u64; 256];
        for (command, keys) in commands {
            let (word, bit) = (usize::from(keys.slot >> 6), 1 << (keys.slot & 63));
            let is_first = seen[word] & bit == 0;
            seen[word] |= bit;
            let caller = &command.caller;
            let agrees = agree(plan.first.get_or_insert(caller), caller);
            plan.keys += keys_of(&command.op);
            let together = together(&command.op).filter(|_| is_first && agrees);
            if together.is_some() {
                plan.floor = plan.floor.max(caller.floor);
            }
            plan.letters.push(together.unwrap_or(ALONE));
        }
        plan
    }
}

/// Returns whether two callers are the same except for their floors.
fn agree(one: &Caller, other: &Caller) -> bool {
    one.coordinator == other.coordinator
        && one.token_memory == other.token_memory
        && one.not_after == other.not_after
}

fn tell_caller(cmd: &mut Cmd, caller: &Caller, floor: FencingToken, not_after: Option<StoreTime>) {
    let not_after = caller.not_after.or(not_after);
    cmd.arg(caller.coordinator.as_str())
        .arg(floor.get())
        .arg(millis(caller.token_memory))
        .arg(not_after.map_or(0, StoreTime::as_micros));
}

/// Returns the letter of an operation that may be executed together with others, if it may.
fn together(op: &Op) -> Option<u8> {
    match op {
        Op::Acquire(acquire) if acquire.mode == Mode::Exclusive && !acquire.again => {
            Some(letter(op))
        }
        Op::Renew { .. } => Some(b'n'),
        Op::Release {
            end: End::Clean, ..
        } => Some(b'R'),
        Op::Release {
            end: End::Plain, ..
        } => Some(b'r'),
        _ => None,
    }
}

/// Returns the letter of an operation.
fn letter(op: &Op) -> u8 {
    match op {
        Op::Acquire(Acquire { wait, again, .. }) => match (wait, again) {
            (false, false) => b'a',
            (true, false) => b'w',
            (false, true) => b'A',
            (true, true) => b'W',
        },
        Op::Renew { .. } => b'n',
        Op::Release {
            end: End::Clean | End::Plain,
            ..
        } => b'r',
        Op::Release {
            end: End::Unclean, ..
        } => b'u',
        Op::Refresh { .. } => b'f',
        Op::ForceRelease => b'x',
        Op::ForceReleaseOne(_) => b'y',
        Op::RequestRelease { .. } => b'q',
        Op::SetValue { .. } => b'v',
        Op::SetCount { .. } => b'k',
        Op::Downgrade { .. } => b'd',
        Op::Reduce { .. } => b'p',
        Op::Resume(_) => b'm',
        Op::View { .. } => b's',
        Op::Edges => b'e',
        Op::Look { .. } => b'o',
    }
}

/// Returns how many keys an operation gets. Renewals, values and counts get only keys that exist while the lock is held, so
/// that a slot that is being migrated does not answer TRYAGAIN.
fn keys_of(op: &Op) -> usize {
    match op {
        Op::Renew { .. } | Op::SetValue { .. } | Op::SetCount { .. } => 2,
        _ => 4,
    }
}

fn arguments(cmd: &mut Cmd, command: &Command) {
    match &command.op {
        Op::Acquire(acquire) => {
            cmd.arg(&acquire.owner.as_bytes()[..])
                .arg(millis(acquire.ttl).saturating_add(millis(acquire.lock_delay)));
            // Writing to a buffer in memory does not fail.
            let _ = details(&mut cmd.writer_for_next_arg(), &command.caller, acquire);
        }
        Op::Renew { owner, token, ttl } => {
            cmd.arg(&owner.as_bytes()[..]).arg(millis(*ttl));
            let token = token.map(|token| token.get().to_be_bytes());
            cmd.arg(token.as_ref().map_or(&[][..], |token| &token[..]));
        }
        Op::Release { owner, .. } | Op::Downgrade { owner } => {
            cmd.arg(&owner.as_bytes()[..]);
        }
        Op::Refresh { oldest } => {
            cmd.arg(oldest.as_ref().map_or(&[][..], |owner| owner.as_bytes()));
        }
        Op::ForceRelease | Op::Edges => {}
        Op::ForceReleaseOne(One::Holder(token)) => {
            cmd.arg("h").arg(token.get());
        }
        Op::ForceReleaseOne(One::Waiter(number)) => {
            cmd.arg("w").arg(number.get());
        }
        Op::RequestRelease { only, request } => {
            cmd.arg(only.map_or(0, FencingToken::get));
            // Writing to a buffer in memory does not fail.
            let _ = release_request(&mut cmd.writer_for_next_arg(), request);
        }
        Op::SetValue { owner, value } => {
            cmd.arg(&owner.as_bytes()[..]).arg(value.as_bytes());
        }
        Op::SetCount { owner, count } => {
            cmd.arg(&owner.as_bytes()[..]).arg(*count);
        }
        Op::Reduce { owner, permits } => {
            cmd.arg(&owner.as_bytes()[..]).arg(*permits);
        }
        Op::Resume(resume) => {
            let mut owners = cmd.writer_for_next_arg();
            for owner in [&resume.next].into_iter().chain(&resume.from) {
                // Writing to a buffer in memory does not fail.
                let _ = owners.write_all(owner.as_bytes());
            }
            drop(owners);
            cmd.arg(millis(resume.ttl));
            let _ = stream(&mut cmd.writer_for_next_arg(), resume);
        }
        Op::View {
            waiters,
            value_bytes,
        } => {
            cmd.arg(*waiters).arg(*value_bytes);
        }
        Op::Look { feed } => {
            cmd.arg(Channels::of_feed(*feed));
        }
    }
}
