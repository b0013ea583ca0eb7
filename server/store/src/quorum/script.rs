//! Operations on one master, as script calls, and their replies.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use leasehold_core::{
    command::{Acquire, Caller, End, HoldAt, Loss, OwnerAt, ReleaseRequest, Resume},
    id::{FencingToken, OwnerId},
    name::Value as LockValue,
    time::StoreTime,
};
use redis::{Cmd, ToRedisArgs, Value};

use crate::measure::Script;
use crate::redis::{
    ended,
    fields::{Decoded, Fields, Garbled},
    keys::{Key, Keys, LockKeys},
    packed::{details, millis, release_request, session},
};

/// Operation on a master: a script and its arguments, without those that differ from master to master.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    script: Script,
    arguments: Vec<Vec<u8>>,
}

/// Reply of a master.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// It was done.
    Done,
    /// It was not done, because the caller had given up.
    Late,
    /// The lock is the owner's, and this would be its token.
    Proposed {
        token: i64,
        /// Whether it is the token of an existing grant.
        stands: bool,
    },
    /// The contents of the lock's key, if any.
    Holds(Found),
    /// It was extended, or is under its next owner id.
    Kept {
        /// 0 if there is no record of it.
        token: i64,
        /// Empty in the reply to a renewal.
        record: Vec<u8>,
    },
    /// The hold is not here.
    Gone(Loss),
    /// The hold is not here, but another one of this token, or the same under another owner id.
    Other { token: i64 },
    /// A newer token is here.
    Above(i64),
    /// The result of a release.
    Released {
        held: bool,
        closed_for: Option<Duration>,
        token: Option<i64>,
        woken: i64,
    },
    /// The result of a force-release.
    Forced {
        held: bool,
        newest: i64,
        former: Option<OwnerAt>,
    },
    /// The holder that is asked to release, if there is one.
    Asked(Option<HoldAt>),
}

/// Contents of a lock's key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) holder: Option<Vec<u8>>,
    pub(super) left: Option<Duration>,
    pub(super) record: Option<Vec<u8>>,
    /// The owner ids that were replaced, one after the other, if requested.
    pub(super) former: Vec<u8>,
}

/// A reply, and the master's time.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) said: Said,
    pub(super) at: StoreTime,
}

/// One script, as it is loaded and called.
struct Operation {
    text: Arc<str>,
    hash: String,
}

/// Includes a script of `lua/quorum/`.
macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!("../../lua/quorum/", $name, ".lua"))
    };
}

static OPERATIONS: LazyLock<HashMap<Script, Operation>> = LazyLock::new(|| {
    [
        (Script::Propose, lua!("propose")),
        (Script::WriteBack, lua!("write_back")),
        (Script::Extend, lua!("extend")),
        (Script::Restore, lua!("restore")),
        (
            Script::Resume,
            concat!(include_str!("../../lua/resumed.lua"), lua!("resume")),
        ),
        (Script::Release, lua!("release")),
        (Script::Undo, lua!("undo")),
        (Script::Raise, lua!("raise")),
        (Script::ForceRelease, lua!("force_release")),
        (Script::RequestRelease, lua!("request_release")),
        (Script::SetValue, lua!("set_value")),
        (Script::SetCount, lua!("set_count")),
        (Script::Look, lua!("look")),
    ]
    .map(|(script, text)| (script, Operation::of([lua!("common"), text].join("\n"))))
    .into()
});

static AGREE: LazyLock<Operation> = LazyLock::new(|| Operation::of(lua!("agree").to_owned()));

static BOOTSTRAP: LazyLock<Operation> =
    LazyLock::new(|| Operation::of(lua!("bootstrap").to_owned()));

/// Time for which the mark of a master's run outlives the last coordinator.
const MARK_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Operation {
    fn of(text: String) -> Self {
        Self {
            hash: redis::Script::new(&text).get_hash().to_owned(),
            text: text.into(),
        }
    }
}

/// Returns every script, to be loaded.
pub(super) fn texts() -> Vec<Arc<str>> {
    let all = OPERATIONS.values().chain([&*AGREE, &*BOOTSTRAP]);
    let texts = all.map(|operation| Arc::clone(&operation.text));
    texts.chain([Arc::from(ended::SCRIPT)]).collect()
}

/// Returns the call of `agree.lua`; `seen` is how long the caller has seen this run of the server.
pub(super) fn agree(
    keys: &Keys,
    (hold, kept_for): (u64, Duration),
    serves: bool,
    (run, seen): (&str, Duration),
) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(&AGREE.hash).arg(2);
    cmd.arg(keys.agreement()).arg(keys.mark());
    cmd.arg(hold).arg(millis(kept_for)).arg(u8::from(serves));
    // In whole milliseconds, rounded down.
    cmd.arg(run).arg(seen.as_millis().to_string());
    cmd.arg(millis(MARK_KEPT_FOR));
    cmd
}

/// Returns the call of `bootstrap.lua`, which declares a run of a server a first start, or only asks.
pub(super) fn bootstrap(keys: &Keys, run: &str, declare: bool) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(&BOOTSTRAP.hash).arg(2);
    cmd.arg(keys.agreement()).arg(keys.mark());
    cmd.arg(run)
        .arg(u8::from(declare))
        .arg(millis(MARK_KEPT_FOR));
    cmd
}

impl Ask {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            arguments: Vec::new(),
        }
    }

    fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.arguments.extend(argument.to_redis_args());
        self
    }

    fn owner(self, owner: &OwnerId) -> Self {
        self.arg(&owner.as_bytes()[..])
    }

    /// Returns a call of `propose.lua`. If the acquire waits, the master wakes its coordinator when the lock comes free.
    pub(super) fn propose(caller: &Caller, acquire: &Acquire, floor: FencingToken) -> Self {
        let waiter = if acquire.wait {
            caller.coordinator.as_str()
        } else {
            ""
        };
        Self::new(Script::Propose)
            .owner(&acquire.owner)
            .arg(millis(acquire.ttl + acquire.lock_delay))
            .arg(floor.get())
            .arg(waiter)
            .arg(millis(caller.token_memory))
    }

    /// Returns a call of `write_back.lua`.
    pub(super) fn write_back(caller: &Caller, acquire: &Acquire, token: i64) -> Self {
        let mut written = Vec::new();
        // Writing to memory does not fail.
        let _ = details(&mut written, caller, acquire);
        Self::new(Script::WriteBack)
            .owner(&acquire.owner)
            .arg(token)
            .arg(millis(caller.token_memory))
            .arg(written)
    }

    /// Returns a call of `extend.lua`.
    pub(super) fn extend(caller: &Caller, owner: &OwnerId, ttl: Duration) -> Self {
        Self::new(Script::Extend)
            .owner(owner)
            .arg(millis(ttl))
            .arg(millis(caller.token_memory))
            .arg(caller.coordinator.as_str())
    }

    /// Returns a call of `restore.lua`; `former` has the owner ids that were replaced, one after the other.
    pub(super) fn restore(
        caller: &Caller,
        owner: &OwnerId,
        ttl: Duration,
        record: &[u8],
        former: &[u8],
    ) -> Self {
        Self::new(Script::Restore)
            .owner(owner)
            .arg(millis(ttl))
            .arg(millis(caller.token_memory))
            .arg(record)
            .arg(former)
    }

    /// Returns a call of `resume.lua`.
    pub(super) fn resume(caller: &Caller, resume: &Resume) -> Self {
        Self::new(Script::Resume)
            .owner(&resume.next)
            .arg(former(resume))
            .arg(millis(resume.ttl))
            .arg(millis(caller.token_memory))
            .arg(caller.coordinator.as_str())
            .arg(session(resume.session.as_ref()))
            .arg(resume.client_name.as_str())
            .arg(resume.count)
            .arg(resume.max_hold.map_or(0, millis))
    }

    /// Returns a call of `release.lua`.
    pub(super) fn release(caller: &Caller, owner: &OwnerId, end: End) -> Self {
        Self::new(Script::Release)
            .owner(owner)
            .arg(caller.coordinator.as_str())
            .arg(if end == End::Unclean { "u" } else { "c" })
            .arg(millis(caller.token_memory))
    }

    /// Returns a call of `undo.lua`; `wakes` says whether to wake other coordinators with waiters.
    pub(super) fn undo(caller: &Caller, owner: &OwnerId, token: i64, wakes: bool) -> Self {
        Self::new(Script::Undo)
            .owner(owner)
            .arg(caller.coordinator.as_str())
            .arg(token)
            .arg(u8::from(wakes))
    }

    /// Returns a call of `raise.lua`; `ends` says whether it ends an older grant under any owner id, and `ended` is the owner
    /// id whose hold is ended in any case.
    pub(super) fn raise(caller: &Caller, token: i64, ends: bool, ended: Option<&OwnerId>) -> Self {
        Self::new(Script::Raise)
            .arg(token)
            .arg(millis(caller.token_memory))
            .arg(u8::from(ends))
            .arg(ended.map_or(&[][..], |owner| owner.as_bytes()))
    }

    /// Returns a call of `force_release.lua`.
    pub(super) fn force_release(caller: &Caller, only: Option<FencingToken>) -> Self {
        Self::new(Script::ForceRelease)
            .arg(caller.coordinator.as_str())
            .arg(only.map_or(0, FencingToken::get))
    }

    /// Returns a call of `request_release.lua`.
    pub(super) fn request_release(
        caller: &Caller,
        only: Option<FencingToken>,
        request: &ReleaseRequest,
    ) -> Self {
        let mut written = Vec::new();
        // Writing to memory does not fail.
        let _ = release_request(&mut written, request);
        Self::new(Script::RequestRelease)
            .arg(caller.coordinator.as_str())
            .arg(only.map_or(0, FencingToken::get))
            .arg(written)
    }

    /// Returns a call of `set_value.lua`.
    pub(super) fn set_value(owner: &OwnerId, value: &LockValue) -> Self {
        let ask = Self::new(Script::SetValue).owner(owner);
        ask.arg(value.as_bytes())
    }

    /// Returns a call of `set_count.lua`.
    pub(super) fn set_count(owner: &OwnerId, count: u32) -> Self {
        Self::new(Script::SetCount).owner(owner).arg(count)
    }

    /// Returns a call of `look.lua`.
    pub(super) fn look() -> Self {
        Self::new(Script::Look)
    }

    /// Returns its name among all scripts.
    pub(super) fn script(&self) -> Script {
        self.script
    }

    /// Returns whether it is harmless, or must be done, however late it comes.
    pub(super) fn may_be_late(&self) -> bool {
        matches!(
            self.script,
            Script::Release | Script::Raise | Script::Undo | Script::Look
        )
    }

    /// Returns the call. `not_after` is 0 for no deadline.
    pub(super) fn encode(&self, keys: &LockKeys, nonce: u64, not_after: i64) -> Cmd {
        let kinds: &[Key] = match self.script {
            Script::Propose | Script::Release | Script::ForceRelease | Script::Undo => {
                &[Key::Lock, Key::Record, Key::Others]
            }
            _ => &[Key::Lock, Key::Record],
        };
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&OPERATIONS[&self.script].hash).arg(kinds.len());
        for kind in kinds {
            keys.write(&mut cmd, *kind);
        }
        cmd.arg(nonce).arg(not_after);
        for argument in &self.arguments {
            cmd.arg(argument);
        }
        cmd
    }

    /// Reads the reply.
    pub(super) fn decode(&self, reply: Value, nonce: u64) -> Result<Reply, Garbled> {
        let mut fields = Fields::of(reply)?;
        if fields.int()? != i64::try_from(nonce).unwrap_or(-1) {
            return Err(Garbled::Foreign);
        }
        let at = fields.time()?;
        let said = match (fields.int()?, self.script) {
            (-1, _) => Said::Late,
            (0, Script::Propose) => Said::Proposed {
                token: fields.int()?,
                stands: fields.flag()?,
            },
            (2, Script::Propose) | (0, Script::Look) => Said::Holds(Found {
                holder: fields.maybe_bytes()?,
                left: fields.expiry()?,
                record: fields.maybe_bytes()?,
                former: match self.script {
                    Script::Look => fields.bytes()?,
                    _ => Vec::new(),
                },
            }),
            (0, Script::Extend) => Said::Kept {
                token: fields.int()?,
                record: Vec::new(),
            },
            (0, Script::Resume) => Said::Kept {
                token: fields.int()?,
                record: fields.bytes()?,
            },
            (2, Script::Extend) => match fields.int()? {
                0 => Said::Gone(Loss::Taken),
                token => Said::Other { token },
            },
            (0, Script::Release) => Said::Released {
                held: fields.flag()?,
                closed_for: fields.non_zero()?,
                token: Some(fields.int()?).filter(|token| *token != 0),
                woken: fields.int()?,
            },
            (0, Script::ForceRelease) => Said::Forced {
                held: fields.flag()?,
                newest: fields.int()?,
                former: holder(&mut fields)?,
            },
            (0, Script::RequestRelease) => Said::Asked(hold_at(&mut fields)?),
            (0, _) => Said::Done,
            (1, _) => Said::Gone(Loss::Deleted),
            (2, _) => Said::Gone(Loss::Taken),
            (3, _) => Said::Gone(Loss::Expired),
            (4, _) => Said::Above(fields.int()?),
            (5, _) => Said::Gone(Loss::Resumed),
            _ => return Err(Garbled::Shape("unknown status")),
        };
        Ok(Reply { said, at })
    }
}

/// Reads a holder; `None` if its owner id is empty.
fn holder(fields: &mut Fields) -> Decoded<Option<OwnerAt>> {
    let (owner, coordinator) = (fields.bytes()?, fields.coordinator()?);
    Ok(OwnerId::parse(&owner).map(|owner| OwnerAt { owner, coordinator }))
}

/// Reads a holder and its token; `None` if its owner id is empty.
fn hold_at(fields: &mut Fields) -> Decoded<Option<HoldAt>> {
    let (holder, token) = (holder(fields)?, fields.token()?);
    Ok(holder.map(|holder| HoldAt { holder, token }))
}

/// Returns the owner ids that a resume replaces, one after the other.
pub(super) fn former(resume: &Resume) -> Vec<u8> {
    resume
        .from
        .iter()
        .flat_map(OwnerId::as_bytes)
        .copied()
        .collect()
}
