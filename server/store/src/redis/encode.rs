//! Commands to script calls.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Command, End, Op},
    id::SessionId,
    time::StoreTime,
};
use redis::{Cmd, Script, ToRedisArgs};

use super::keys::LockKeys;

macro_rules! script {
    ($file:literal) => {
        concat!(
            include_str!("../../lua/common.lua"),
            "\n",
            include_str!(concat!("../../lua/", $file))
        )
    };
}

/// The scripts' texts, in the order of `ScriptId`.
pub static SCRIPTS: [&str; 7] = [
    script!("acquire.lua"),
    script!("renew.lua"),
    script!("release.lua"),
    script!("refresh.lua"),
    script!("force_release.lua"),
    script!("set_value.lua"),
    script!("view.lua"),
];

static HASHES: LazyLock<[String; 7]> =
    LazyLock::new(|| SCRIPTS.map(|text| Script::new(text).get_hash().to_owned()));

/// How many keys each script is given: renewals and values name only keys that exist while the lock is held, so that a
/// slot that is being migrated does not answer TRYAGAIN.
const KEYS: [usize; 7] = [6, 3, 6, 6, 6, 2, 6];

#[derive(Clone, Copy)]
enum ScriptId {
    Acquire,
    Renew,
    Release,
    Refresh,
    ForceRelease,
    SetValue,
    View,
}

/// The script call for a command. `nonce` is repeated in its reply; an acquire that reaches the server after
/// `not_after`, or what it says itself, does nothing.
pub fn encode(command: &Command, keys: &LockKeys, nonce: u64, not_after: Option<StoreTime>) -> Cmd {
    match &command.op {
        Op::Acquire(acquire) => {
            let mut cmd = call(ScriptId::Acquire, command, keys, nonce);
            acquire_args(&mut cmd, acquire, not_after);
            cmd
        }
        Op::Renew { owner, ttl } => {
            let mut cmd = call(ScriptId::Renew, command, keys, nonce);
            cmd.arg(&owner.as_bytes()[..]).arg(millis(*ttl));
            cmd
        }
        Op::Release { owner, end } => {
            let mut cmd = call(ScriptId::Release, command, keys, nonce);
            cmd.arg(&owner.as_bytes()[..])
                .arg(u8::from(*end == End::Unclean));
            cmd
        }
        Op::Refresh { oldest } => {
            let mut cmd = call(ScriptId::Refresh, command, keys, nonce);
            cmd.arg(
                oldest
                    .as_ref()
                    .map_or(&[][..], |oldest| &oldest.as_bytes()[..]),
            );
            cmd
        }
        Op::ForceRelease => call(ScriptId::ForceRelease, command, keys, nonce),
        Op::SetValue { owner, value } => {
            let mut cmd = call(ScriptId::SetValue, command, keys, nonce);
            cmd.arg(&owner.as_bytes()[..]).arg(value.as_bytes());
            cmd
        }
        Op::View { waiters } => {
            let mut cmd = call(ScriptId::View, command, keys, nonce);
            cmd.arg(*waiters);
            cmd
        }
    }
}

fn call(script: ScriptId, command: &Command, keys: &LockKeys, nonce: u64) -> Cmd {
    let script = script as usize;
    let mut cmd = Cmd::with_capacity(20, 1024);
    cmd.arg("EVALSHA").arg(&HASHES[script]).arg(KEYS[script]);
    for key in &keys.all[..KEYS[script]] {
        cmd.arg(key);
    }
    cmd.arg(nonce)
        .arg(command.caller.coordinator.as_str())
        .arg(command.caller.floor.get())
        .arg(millis(command.caller.token_memory));
    cmd
}

fn acquire_args(cmd: &mut Cmd, acquire: &Acquire, not_after: Option<StoreTime>) {
    cmd.arg(&acquire.owner.as_bytes()[..])
        .arg(millis(acquire.ttl))
        .arg(millis(acquire.lock_delay))
        .arg(u8::from(acquire.wait))
        .arg(acquire.not_after.or(not_after).map_or(0, StoreTime::as_micros))
        .arg(
            acquire
                .session
                .as_ref()
                .map_or(&[][..], |session| &SessionId::as_bytes(session)[..]),
        )
        .arg(acquire.client_name.as_str())
        .arg(acquire.value.as_bytes());
}

/// Whole milliseconds, rounded up: nothing expires earlier than was asked for, and nothing is kept for 0 ms.
fn millis(duration: Duration) -> impl ToRedisArgs {
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
