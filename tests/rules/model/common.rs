//! Ids, durations, commands, and looks at a lock that change nothing, for every model.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Op, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    lock::LockState,
    mode::Mode,
    name::{ClientName, Value},
    time::StoreTime,
    view::NameView,
};

/// Time without any use after which nothing may be left of a name.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(40);

pub(crate) fn seconds(number: u8) -> Duration {
    Duration::from_secs(number.into())
}

pub(crate) fn coordinator(number: usize) -> CoordinatorId {
    CoordinatorId::new(["a", "b"][number])
}

pub(crate) fn owner(client: usize, begun: u8) -> OwnerId {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1]) = (u8::try_from(client).unwrap() + 1, begun);
    OwnerId::from_bytes(bytes)
}

/// Returns a coordinator without a floor, whose commands are never late.
pub(crate) fn caller(number: usize, token_memory: u8) -> Caller {
    Caller {
        coordinator: coordinator(number),
        floor: FencingToken::default(),
        token_memory: seconds(token_memory),
        not_after: None,
    }
}

/// Returns a client's acquire of the whole lock, which waits.
pub(crate) fn acquire(client: usize, owner: OwnerId, ttl: u8) -> Acquire {
    Acquire {
        owner,
        session: Some(SessionId::from_bytes([u8::try_from(client).unwrap(); 16])),
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: seconds(ttl),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    }
}

/// Executes a command that changes nothing, on a copy.
pub(crate) fn look(lock: &LockState, op: &Op, now: StoreTime) -> Reply {
    lock.clone().apply(&caller(0, 0), op, now).reply
}

/// Returns the owner ids that hold the lock at this time, with their modes.
pub(crate) fn holders(lock: &LockState, now: StoreTime) -> Vec<(OwnerId, Mode)> {
    let Reply::Edges(edges) = look(lock, &Op::Edges, now) else {
        panic!("the store answers with edges");
    };
    let holders = edges.holders.iter();
    holders.map(|hold| (hold.owner, hold.mode)).collect()
}

/// Returns the view of the lock at this time.
pub(crate) fn view(lock: &LockState, now: StoreTime) -> NameView {
    match look(lock, &Op::view(0), now) {
        Reply::Seen(view) => *view,
        other => panic!("a view was answered by {other:?}"),
    }
}
