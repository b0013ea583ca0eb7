//! Transitions of the session's machine, over the rules of locks, on virtual time.

mod acquires;
mod actors;
mod asked;
mod bounds;
mod changes;
mod crossings;
mod detached;
mod endings;
mod fixtures;
mod modes;
mod promises;
mod renewals;
mod rests;
mod resumes;
mod scene;
mod several;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::{
    acquires::{not_granted, refused},
    changes::{downgrade, reduce, set_value},
    fixtures::*,
    renewals::{acks, beat, full, renewing_two},
    resumes::{hold, opened, resuming, resuming_a},
    scene::*,
    several::several,
};
use super::{
    AcquireRequest, Closer, CommandFailure, CommandId, Config, Context, Draining, Effect,
    GrantedLock, Input, Interest, LockSpec, LockSpecs, LostLock, LostWhy, MAX_IN_FLIGHT,
    MAX_PENDING_ACKS, MaxHold, NotGranted, Note, OneOrMore, Opened, Output, PendingCleanup, Phase,
    Refused, RegistryEvent, Request, RequestId, Response, Resumed, ResumedLock, ResumedWhat,
    Resumption, Session, StreamEnd, Wait, WaitEnd, acquire::unexpected,
};
use crate::{
    command::{
        Acquire, Caller, Command, End, Executed, Loss, Op, PLACES_KEPT, ReleaseRequest, Reply,
        Resume, Stamped,
    },
    failure::StoreError,
    id::{Actor, CoordinatorId, FencingToken, OwnerId, ReleaseRequestId, SessionId},
    lease::{Lease, drift_margin},
    mode::{Limit, Mode, Permits},
    name::{ClientName, KEPT_CLIENT_NAME, LockName, ReleaseReason, Value},
    table::LockTable,
    time::{Moment, StoreTime},
    view::NameView,
};
