//! Operations on one master, as script calls, and their replies.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use leasehold_core::{
    command::{Loss, Resume},
    id::{CoordinatorId, FencingToken, OwnerId},
    name::Value as LockValue,
    time::StoreTime,
};
use redis::{Cmd, Script, Value};

use crate::measure;
use crate::redis::{
    encode::millis,
    fields::{Fields, Garbled},
    keys::{Key, Keys, LockKeys},
};

const COMMON: &str = include_str!("../../lua/quorum/common.lua");

/// Operation on a master.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// See `propose.lua`.
    Propose {
        owner: OwnerId,
        lasts: Duration,
        floor: FencingToken,
        memory: Duration,
        waiter: Option<CoordinatorId>,
    },
    /// See `write_back.lua`.
    WriteBack {
        owner: OwnerId,
        token: FencingToken,
        memory: Duration,
        details: Arc<[u8]>,
    },
    /// See `extend.lua`.
    Extend {
        owner: OwnerId,
        ttl: Duration,
        memory: Duration,
        coordinator: CoordinatorId,
    },
    /// See `restore.lua`.
    Restore {
        owner: OwnerId,
        ttl: Duration,
        memory: Duration,
        record: Arc<[u8]>,
        /// The owner ids that were replaced, one after the other.
        former: Arc<[u8]>,
    },
    /// See `resume.lua`.
    Resume {
        resume: Arc<Resume>,
        memory: Duration,
        coordinator: CoordinatorId,
    },
    /// See `release.lua`.
    Release {
        owner: OwnerId,
        coordinator: CoordinatorId,
        is_unclean: bool,
        memory: Duration,
    },
    /// See `undo.lua`.
    Undo {
        owner: OwnerId,
        coordinator: CoordinatorId,
        token: FencingToken,
        /// Whether to wake other coordinators with waiters.
        wakes: bool,
    },
    /// See `raise.lua`.
    Raise {
        token: FencingToken,
        memory: Duration,
        /// Whether it ends an older grant under any owner id.
        ends: bool,
        /// The owner id whose hold is ended in any case.
        ended: Option<OwnerId>,
    },
    /// See `force_release.lua`.
    ForceRelease { coordinator: CoordinatorId },
    /// See `set_value.lua`.
    SetValue { owner: OwnerId, value: LockValue },
    /// See `set_count.lua`.
    SetCount { owner: OwnerId, count: u32 },
    /// See `look.lua`.
    Look,
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
    /// It was extended; without a token: there is no record of it.
    Extended { token: Option<i64> },
    /// It is under its next owner id.
    Resumed { token: i64, record: Vec<u8> },
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
        former: Option<(OwnerId, CoordinatorId)>,
    },
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

static OPERATIONS: LazyLock<[Operation; 12]> = LazyLock::new(|| {
    [
        include_str!("../../lua/quorum/propose.lua"),
        include_str!("../../lua/quorum/write_back.lua"),
        include_str!("../../lua/quorum/extend.lua"),
        include_str!("../../lua/quorum/restore.lua"),
        include_str!("../../lua/quorum/release.lua"),
        include_str!("../../lua/quorum/raise.lua"),
        include_str!("../../lua/quorum/force_release.lua"),
        include_str!("../../lua/quorum/set_value.lua"),
        include_str!("../../lua/quorum/set_count.lua"),
        include_str!("../../lua/quorum/look.lua"),
        include_str!("../../lua/quorum/undo.lua"),
        include_str!("../../lua/quorum/resume.lua"),
    ]
    .map(|operation| Operation::of([COMMON, operation].join("\n")))
});

static AGREE: LazyLock<Operation> =
    LazyLock::new(|| Operation::of(include_str!("../../lua/quorum/agree.lua").to_owned()));

static BOOTSTRAP: LazyLock<Operation> =
    LazyLock::new(|| Operation::of(include_str!("../../lua/quorum/bootstrap.lua").to_owned()));

/// Time for which the mark of a master's run outlives the last coordinator.
const MARK_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Operation {
    fn of(text: String) -> Self {
        Self {
            hash: Script::new(&text).get_hash().to_owned(),
            text: text.into(),
        }
    }
}

/// Every script, to be loaded.
pub(super) fn texts() -> Vec<Arc<str>> {
    let all = OPERATIONS.iter().chain([&*AGREE, &*BOOTSTRAP]);
    all.map(|operation| Arc::clone(&operation.text)).collect()
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
    /// Returns its name among all scripts.
    pub(super) fn script(&self) -> measure::Script {
        match self {
            Self::Propose { .. } => measure::Script::Propose,
            Self::WriteBack { .. } => measure::Script::WriteBack,
            Self::Extend { .. } => measure::Script::Extend,
            Self::Restore { .. } => measure::Script::Restore,
            Self::Resume { .. } => measure::Script::Resume,
            Self::Release { .. } => measure::Script::Release,
            Self::Undo { .. } => measure::Script::Undo,
            Self::Raise { .. } => measure::Script::Raise,
            Self::ForceRelease { .. } => measure::Script::ForceRelease,
            Self::SetValue { .. } => measure::Script::SetValue,
            Self::SetCount { .. } => measure::Script::SetCount,
            Self::Look => measure::Script::Look,
        }
    }

    fn place(&self) -> usize {
        match self {
            Self::Propose { .. } => 0,
            Self::WriteBack { .. } => 1,
            Self::Extend { .. } => 2,
            Self::Restore { .. } => 3,
            Self::Release { .. } => 4,
            Self::Raise { .. } => 5,
            Self::ForceRelease { .. } => 6,
            Self::SetValue { .. } => 7,
            Self::SetCount { .. } => 8,
            Self::Look => 9,
            Self::Undo { .. } => 10,
            Self::Resume { .. } => 11,
        }
    }

    /// Returns whether it is harmless, or must be done, however late it comes.
    pub(super) fn may_be_late(&self) -> bool {
        matches!(
            self,
            Self::Release { .. } | Self::Raise { .. } | Self::Undo { .. } | Self::Look
        )
    }

    /// Returns the call. `not_after` is 0 for no deadline.
    pub(super) fn encode(&self, keys: &LockKeys, nonce: u64, not_after: i64) -> Cmd {
        let (kinds, operation): (&[Key], _) = match self {
            Self::Propose { .. }
            | Self::Release { .. }
            | Self::ForceRelease { .. }
            | Self::Undo { .. } => (
                &[Key::Lock, Key::Record, Key::Others],
                &OPERATIONS[self.place()],
            ),
            _ => (&[Key::Lock, Key::Record], &OPERATIONS[self.place()]),
        };
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&operation.hash).arg(kinds.len());
        for kind in kinds {
            keys.write(&mut cmd, *kind);
        }
        cmd.arg(nonce).arg(not_after);
        match self {
            Self::Propose {
                owner,
                lasts,
                floor,
                memory,
                waiter,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(millis(*lasts));
                cmd.arg(floor.get());
                cmd.arg(waiter.as_ref().map_or("", CoordinatorId::as_str));
                cmd.arg(millis(*memory));
            }
            Self::WriteBack {
                owner,
                token,
                memory,
                details,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(token.get());
                cmd.arg(millis(*memory)).arg(&details[..]);
            }
            Self::Extend {
                owner,
                ttl,
                memory,
                coordinator,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(millis(*ttl));
                cmd.arg(millis(*memory)).arg(coordinator.as_str());
            }
            Self::Restore {
                owner,
                ttl,
                memory,
                record,
                former,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(millis(*ttl));
                cmd.arg(millis(*memory)).arg(&record[..]).arg(&former[..]);
            }
            Self::Resume {
                resume,
                memory,
                coordinator,
            } => {
                let from = resume.from.iter().flat_map(OwnerId::as_bytes);
                let from: Vec<u8> = from.copied().collect();
                cmd.arg(&resume.next.as_bytes()[..]).arg(from);
                cmd.arg(millis(resume.ttl)).arg(millis(*memory));
                cmd.arg(coordinator.as_str());
                cmd.arg(&resume.session.as_bytes()[..]);
                cmd.arg(resume.client_name.as_str()).arg(resume.count);
            }
            Self::Release {
                owner,
                coordinator,
                is_unclean,
                memory,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(coordinator.as_str());
                cmd.arg(if *is_unclean { "u" } else { "c" });
                cmd.arg(millis(*memory));
            }
            Self::Undo {
                owner,
                coordinator,
                token,
                wakes,
            } => {
                cmd.arg(&owner.as_bytes()[..]).arg(coordinator.as_str());
                cmd.arg(token.get()).arg(u8::from(*wakes));
            }
            Self::Raise {
                token,
                memory,
                ends,
                ended,
            } => {
                cmd.arg(token.get()).arg(millis(*memory));
                cmd.arg(u8::from(*ends));
                cmd.arg(ended.as_ref().map_or(&[][..], |owner| owner.as_bytes()));
            }
            Self::ForceRelease { coordinator } => {
                cmd.arg(coordinator.as_str());
            }
            Self::SetValue { owner, value } => {
                cmd.arg(&owner.as_bytes()[..]).arg(value.as_bytes());
            }
            Self::SetCount { owner, count } => {
                cmd.arg(&owner.as_bytes()[..]).arg(*count);
            }
            Self::Look => {}
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
        let said = match (fields.int()?, self) {
            (-1, _) => Said::Late,
            (0, Self::Propose { .. }) => Said::Proposed {
                token: fields.int()?,
                stands: fields.flag()?,
            },
            (2, Self::Propose { .. }) | (0, Self::Look) => Said::Holds(Found {
                holder: fields.maybe_bytes()?,
                left: fields.expiry()?,
                record: fields.maybe_bytes()?,
                former: match self {
                    Self::Look => fields.bytes()?,
                    _ => Vec::new(),
                },
            }),
            (0, Self::Extend { .. }) => Said::Extended {
                token: Some(fields.int()?).filter(|token| *token != 0),
            },
            (0, Self::Resume { .. }) => Said::Resumed {
                token: fields.int()?,
                record: fields.bytes()?,
            },
            (2, Self::Extend { .. }) => match fields.int()? {
                0 => Said::Gone(Loss::Taken),
                token => Said::Other { token },
            },
            (0, Self::Release { .. }) => Said::Released {
                held: fields.flag()?,
                closed_for: fields.non_zero()?,
                token: Some(fields.int()?).filter(|token| *token != 0),
                woken: fields.int()?,
            },
            (0, Self::ForceRelease { .. }) => Said::Forced {
                held: fields.flag()?,
                newest: fields.int()?,
                former: {
                    let owner = fields.bytes()?;
                    let coordinator = fields.coordinator()?;
                    OwnerId::parse(&owner).map(|owner| (owner, coordinator))
                },
            },
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
