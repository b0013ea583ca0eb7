//! Commands to one script call.

use std::{sync::LazyLock, time::Duration};

use leasehold_core::{
    command::{Acquire, Command, End, Op},
    id::SessionId,
    time::StoreTime,
};
use redis::{Cmd, Script, ToRedisArgs};

use super::keys::LockKeys;

/// The script: what the operations share, the operations, and what carries them out.
pub static SCRIPT: &str = concat!(
    include_str!("../../lua/common.lua"),
    "\n",
    include_str!("../../lua/acquire.lua"),
    "\n",
    include_str!("../../lua/renew.lua"),
    "\n",
    include_str!("../../lua/release.lua"),
    "\n",
    include_str!("../../lua/refresh.lua"),
    "\n",
    include_str!("../../lua/force_release.lua"),
    "\n",
    include_str!("../../lua/set_value.lua"),
    "\n",
    include_str!("../../lua/view.lua"),
    "\n",
    include_str!("../../lua/dispatch.lua"),
);

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// About how many bytes a command takes in a call; more grows the buffer.
const TYPICAL: usize = 512;

/// The script call that carries out these commands. `nonce` is repeated in its reply; a command that reaches the server
/// after `not_after`, or what it says itself, does nothing (but for releases and views).
pub fn encode<'a>(
    commands: impl Iterator<Item = (&'a Command, &'a LockKeys)> + Clone,
    nonce: u64,
    not_after: Option<StoreTime>,
) -> Cmd {
    let number = commands.size_hint().0;
    let mut cmd = Cmd::with_capacity(number * 18 + 4, number * TYPICAL);
    let keys: usize = commands
        .clone()
        .map(|(command, _)| shape(&command.op).1)
        .sum();
    cmd.arg("EVALSHA").arg(&*HASH).arg(keys);
    for (command, keys) in commands.clone() {
        for key in &keys.all[..shape(&command.op).1] {
            cmd.arg(key);
        }
    }
    cmd.arg(nonce);
    for (command, _) in commands {
        let caller = &command.caller;
        cmd.arg(shape(&command.op).0)
            .arg(caller.coordinator.as_str())
            .arg(caller.floor.get())
            .arg(millis(caller.token_memory))
            .arg(
                caller
                    .not_after
                    .or(not_after)
                    .map_or(0, StoreTime::as_micros),
            );
        arguments(&mut cmd, &command.op);
    }
    cmd
}

/// An operation's name, and how many keys it is given. Renewals and values name only keys that exist while the lock is
/// held, so that a slot that is being migrated does not answer TRYAGAIN.
fn shape(op: &Op) -> (&'static str, usize) {
    match op {
        Op::Acquire(_) => ("acquire", 6),
        Op::Renew { .. } => ("renew", 3),
        Op::Release { .. } => ("release", 6),
        Op::Refresh { .. } => ("refresh", 6),
        Op::ForceRelease => ("force_release", 6),
        Op::SetValue { .. } => ("set_value", 2),
        Op::View { .. } => ("view", 6),
    }
}

fn arguments(cmd: &mut Cmd, op: &Op) {
    match op {
        Op::Acquire(acquire) => acquire_arguments(cmd, acquire),
        Op::Renew { owner, ttl } => {
            cmd.arg(&owner.as_bytes()[..]).arg(millis(*ttl));
        }
        Op::Release { owner, end } => {
            cmd.arg(&owner.as_bytes()[..])
                .arg(u8::from(*end == End::Unclean));
        }
        Op::Refresh { oldest } => {
            cmd.arg(
                oldest
                    .as_ref()
                    .map_or(&[][..], |oldest| &oldest.as_bytes()[..]),
            );
        }
        Op::ForceRelease => {}
        Op::SetValue { owner, value } => {
            cmd.arg(&owner.as_bytes()[..]).arg(value.as_bytes());
        }
        Op::View { waiters } => {
            cmd.arg(*waiters);
        }
    }
}

fn acquire_arguments(cmd: &mut Cmd, acquire: &Acquire) {
    let session = |session: &'_ Option<SessionId>| session.map(|session| *session.as_bytes());
    cmd.arg(&acquire.owner.as_bytes()[..])
        .arg(millis(acquire.ttl))
        .arg(millis(acquire.lock_delay))
        .arg(u8::from(acquire.wait))
        .arg(
            session(&acquire.session)
                .as_ref()
                .map_or(&[][..], |bytes| &bytes[..]),
        )
        .arg(acquire.client_name.as_str())
        .arg(acquire.value.as_bytes());
}

/// Whole milliseconds, rounded up: nothing expires earlier than was asked for, and nothing is kept for 0 ms.
fn millis(duration: Duration) -> impl ToRedisArgs {
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
