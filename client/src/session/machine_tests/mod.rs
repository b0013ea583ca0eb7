//! Tests of the session's rules without I/O: every test gives the inputs with their times, and checks all outputs.

use std::{sync::Arc, time::Duration};

mod credentials;
mod deadlines;
mod family;
mod life;
mod moves;
mod optional_moves;
mod reentry;
mod requests;
mod rests;
mod stopped;
mod table;
mod traces;

use uuid::Uuid;

use self::Seen::*;
use super::{
    fate::Fate,
    lock_spec::{LockSpec, Mode},
    machine::{Machine, StreamEnd},
    messages::Change,
    output::Output,
    spec::{AcquireSpec, Locks},
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure, HoldFailure},
    lease::{Lease, LostReason},
    proto::{
        v1::{self, session_request::Request, session_response::Response},
        wire,
    },
};

const TTL: u64 = 10_000;
const INTERVAL: u64 = 3_000;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn wire_ms(millis: u64) -> Option<prost_types::Duration> {
    Some(wire(ms(millis)))
}

/// An output of the machine, for comparison.
#[derive(PartialEq, Debug)]
enum Seen {
    Open,
    Acquire {
        id: u64,
        name: String,
        wait: Option<u64>,
    },
    Cancel(u64),
    /// A release of this id, of the hold with this owner id.
    Release(u64, u8),
    SetValue(u64),
    Downgrade(u64),
    Reduce(u64, u32),
    Heartbeat(u64),
    Close,
    Acquired(u32),
    Failed(u32, &'static str),
    Done(u32),
    HoldFailed(u32, &'static str),
    Opened,
    Draining,
    HangUp,
    Leave,
    Ended,
}

struct Session {
    machine: Machine<u32, u32>,
    /// The stream that was connected last.
    stream: u64,
    leases: Vec<(u64, Arc<Lease>)>,
}

impl Session {
    /// Returns a session that is not connected yet.
    fn new() -> Self {
        Self::with_grace(0)
    }

    fn with_grace(grace: u64) -> Self {
        let open = v1::SessionOpen {
            disconnect_grace: wire_ms(grace),
            ..v1::SessionOpen::default()
        };
        Self {
            machine: Machine::new(ms(5_000), open, || Uuid::new_v4().into_bytes().to_vec()),
            stream: 0,
            leases: Vec::new(),
        }
    }

    /// Returns a session that was opened at `now`; the `open` is request 1, and the next request 2.
    fn open_at(now: u64) -> Self {
        let mut session = Self::new();
        session.reopen(now);
        session
    }

    fn reopen(&mut self, now: u64) -> Vec<Seen> {
        self.stream = self.machine.connected(at(now), "http://test".into());
        assert_eq!(self.seen(), [Open]);
        self.message(
            now,
            1,
            Response::Opened(v1::SessionOpened {
                session_id: "s".into(),
                ttl: wire_ms(TTL),
                heartbeat_interval: wire_ms(INTERVAL),
                coordinator: "c".into(),
                ..Default::default()
            }),
        )
    }

    fn message(&mut self, now: u64, request_id: u64, response: Response) -> Vec<Seen> {
        self.message_on(now, self.stream, request_id, response)
    }

    fn message_on(&mut self, now: u64, stream: u64, id: u64, response: Response) -> Vec<Seen> {
        self.say(now, stream, id, response);
        self.seen()
    }

    /// Hands a message to the machine, and leaves its outputs to the test.
    fn say(&mut self, now: u64, stream: u64, request_id: u64, response: Response) {
        let message = v1::SessionResponse {
            request_id,
            response: Some(response),
        };
        self.machine.message(at(now), stream, message);
    }

    fn acquire(&mut self, now: u64, id: u64, wait: Option<u64>) -> Vec<Seen> {
        self.acquire_with_delay(now, id, wait, 0)
    }

    fn acquire_with_delay(
        &mut self,
        now: u64,
        id: u64,
        wait: Option<u64>,
        lock_delay: u64,
    ) -> Vec<Seen> {
        let spec = AcquireSpec {
            wait: wait.map(ms),
            lock_delay: ms(lock_delay),
            ..exclusive(&[id])
        };
        self.ask(now, id, spec)
    }

    fn ask(&mut self, now: u64, id: u64, spec: AcquireSpec) -> Vec<Seen> {
        self.machine.acquire(at(now), id, spec, id as u32);
        self.seen()
    }

    fn cancel(&mut self, now: u64, id: u64) -> Vec<Seen> {
        self.machine.cancel(at(now), id);
        self.seen()
    }

    /// Returns a grant of `lock<lock>`; the owner id is one byte.
    fn grant(&mut self, now: u64, request: u64, lock: u64, owner: u8, acked: u64) -> Vec<Seen> {
        self.grant_all(now, request, &[(lock, owner, 1)], acked)
    }

    /// Returns a grant of several locks, each with its owner id and hold count.
    fn grant_all(
        &mut self,
        now: u64,
        request: u64,
        locks: &[(u64, u8, u32)],
        acked: u64,
    ) -> Vec<Seen> {
        let granted = v1::SessionGranted {
            locks: locks.iter().copied().map(granted_lock).collect(),
            valid_for: wire_ms(9_900),
            acked_heartbeat: acked,
            bounded: Vec::new(),
        };
        self.message(now, request, Response::Granted(granted))
    }

    /// Releases a guard as the guard itself does it: ends its lease first.
    fn release(&mut self, now: u64, index: usize, reply: Option<u32>) -> Vec<Seen> {
        let (key, lease) = &self.leases[index];
        lease.end(at(now), LostReason::Released).ok();
        self.machine.release(at(now), *key, None, reply);
        self.seen()
    }

    fn change(&mut self, now: u64, index: usize, change: Change, reply: u32) -> Vec<Seen> {
        let key = self.leases[index].0;
        self.machine.change(at(now), key, change, None, reply);
        self.seen()
    }

    /// Returns whether the lease is held, or why not.
    fn held(&self, now: u64, index: usize) -> Result<(), LostReason> {
        self.lease(index).alive(at(now)).map(|_| ())
    }

    fn ack(&mut self, now: u64, sequence: u64, valid_for: u64) -> Vec<Seen> {
        let ack = v1::SessionHeartbeatAck {
            acked_heartbeat: sequence,
            valid_for: wire_ms(valid_for),
            next_within: None,
        };
        self.message(now, 0, Response::Heartbeat(ack))
    }

    fn failure(&mut self, now: u64, request: u64, code: tonic::Code) -> Vec<Seen> {
        let failure = v1::SessionFailure {
            code: code as i32,
            ..Default::default()
        };
        self.message(now, request, Response::Error(failure))
    }

    fn stream_ended(&mut self, now: u64) {
        self.stream_ends(now, StreamEnd::Left);
    }

    fn stream_ends(&mut self, now: u64, end: StreamEnd) {
        self.machine.stream_ended(at(now), self.stream, end);
    }

    fn connect_failed(&mut self, now: u64, retryable: bool) -> Vec<Seen> {
        self.machine
            .connect_failed(at(now), &unreachable(retryable));
        self.seen()
    }

    fn tick(&mut self, now: u64) -> Vec<Seen> {
        self.machine.tick(at(now));
        self.seen()
    }

    fn alarm(&self) -> Option<u64> {
        self.machine.alarm().map(|at| at.as_nanos() / 1_000_000)
    }

    fn lease(&self, index: usize) -> &Lease {
        &self.leases[index].1
    }

    fn seen(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(output) = self.machine.next_output() {
            seen.push(match output {
                Output::Send(_, request) => sent(request),
                Output::Acquired(who, Ok(granted)) => {
                    let granted = granted.into_iter();
                    self.leases
                        .extend(granted.map(|granted| (granted.key, granted.lease)));
                    Acquired(who)
                }
                Output::Acquired(who, Err(error)) => Failed(who, acquire_error(&error)),
                Output::HoldDone(who, Ok(())) => Done(who),
                Output::HoldDone(who, Err(error)) => HoldFailed(who, hold_error(&error)),
                Output::Opened(..) => Opened,
                Output::Draining(_) => Draining,
                Output::HangUp(..) => HangUp,
                Output::Leave(_) => Leave,
                Output::Ended => Ended,
            });
        }
        seen
    }
}

fn sent(request: v1::SessionRequest) -> Seen {
    let id = request.request_id;
    assert_ne!(id, 0);
    match request.request.unwrap() {
        Request::Open(_) => Open,
        Request::Acquire(acquire) => Acquire {
            id,
            name: format!("{}{}", acquire.name, acquire.names.join(",")),
            wait: acquire
                .wait
                .map(|wait| Duration::try_from(wait).unwrap().as_millis() as u64),
        },
        Request::Cancel(cancel) => Cancel(cancel.acquire_request_id),
        Request::Release(release) => Release(id, release.owner_id[0]),
        Request::SetValue(_) => SetValue(id),
        Request::Downgrade(_) => Downgrade(id),
        Request::Reduce(reduce) => Reduce(id, reduce.permits),
        Request::Heartbeat(heartbeat) => Heartbeat(heartbeat.sequence),
        Request::Close(_) => Close,
    }
}

fn acquire_error(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::Busy { .. } => "busy",
        AcquireError::TimedOut { .. } => "timed out",
        AcquireError::Refused { .. } => "refused",
        AcquireError::Unavailable { .. } => "unavailable",
        AcquireError::SessionClosed { .. } => "closed",
        AcquireError::SelfDeadlock { .. } => "self-deadlock",
        AcquireError::AlreadyCandidate { .. } => "already candidate",
        AcquireError::UpgradeRefused { .. } => "upgrade",
        AcquireError::LimitMismatch { .. } => "limit",
        AcquireError::Deadlock { .. } => "deadlock",
        AcquireError::ForceReleased { .. } => "force-released",
        AcquireError::Unauthenticated { .. } => "unauthenticated",
        AcquireError::PermissionDenied { .. } => "permission denied",
        AcquireError::LimitReached { .. } => "limit reached",
    }
}

fn hold_error(error: &HoldFailure) -> &'static str {
    match error {
        HoldFailure::Lost(_) => "lost",
        HoldFailure::Unconfirmed => "unconfirmed",
        HoldFailure::Refused(_) => "refused",
    }
}

/// Returns one of these locks, or several together.
fn exclusive(locks: &[u64]) -> AcquireSpec {
    let mut specs = locks
        .iter()
        .map(|lock| LockSpec::exclusive(format!("lock{lock}")));
    AcquireSpec::new(match locks {
        [_] => Locks::One(specs.next().unwrap()),
        _ => Locks::All(specs.collect()),
    })
}

/// Returns the same acquire, with all of its locks in this mode.
fn in_mode(mode: Mode, spec: AcquireSpec) -> AcquireSpec {
    AcquireSpec {
        locks: spec.locks.in_mode(mode),
        ..spec
    }
}

fn reentrant(locks: &[u64], actor: u64) -> AcquireSpec {
    AcquireSpec {
        actor,
        reentrant: true,
        ..exclusive(locks)
    }
}

fn asked(id: u64, lock: u64, wait: Option<u64>) -> Seen {
    Acquire {
        id,
        name: format!("lock{lock}"),
        wait,
    }
}

/// Returns the answer to an acquire that waits as the first in its queue.
fn queued(ticket: &[u8]) -> Response {
    Response::Queued(v1::SessionQueued {
        position: 1,
        ticket: ticket.to_vec(),
    })
}

/// Returns `lock1`, resumed: a hold that may have a bound.
fn resumed_hold(next_owner_id: &[u8], ends_in: Option<u64>) -> v1::ResumedLock {
    v1::ResumedLock {
        name: "lock1".into(),
        owner_id: next_owner_id.to_vec(),
        what: Some(v1::resumed_lock::What::Hold(v1::ResumedHold {
            fencing_token: 7,
            hold_count: 1,
        })),
        ends_in: ends_in.and_then(wire_ms),
        permits: 0,
    }
}

fn opened_with(resumed: Vec<v1::ResumedLock>) -> Response {
    Response::Opened(v1::SessionOpened {
        ttl: wire_ms(TTL),
        heartbeat_interval: wire_ms(INTERVAL),
        resumed,
        valid_for: wire_ms(9_900),
        ..Default::default()
    })
}

/// Returns the answer to an `open` that resumes a place, which is the first in the queue of `lock1`.
fn opened_in_place(next_owner_id: &[u8]) -> Response {
    let place = v1::ResumedLock {
        what: Some(v1::resumed_lock::What::Position(1)),
        ..resumed_hold(next_owner_id, None)
    };
    opened_with(vec![place])
}

/// Returns a lock that is granted, by its number, its owner id and its hold count.
fn granted_lock((lock, owner, hold_count): (u64, u8, u32)) -> v1::GrantedLock {
    v1::GrantedLock {
        name: format!("lock{lock}"),
        owner_id: vec![owner],
        fencing_token: 7,
        hold_count,
        permits: 0,
    }
}

fn lost_lock(lock: u64, owner_id: Vec<u8>, reason: v1::LostReason) -> v1::LostLock {
    v1::LostLock {
        name: format!("lock{lock}"),
        owner_id,
        reason: reason.into(),
    }
}

fn lost(lock: u64, owner: u8, reason: v1::LostReason) -> Response {
    let locks = vec![lost_lock(lock, vec![owner], reason)];
    Response::Lost(v1::SessionLost { locks })
}

/// Returns the answer to an `open` that resumes a hold of `lock1`, which is gone for this reason.
fn opened_without(next_owner_id: Vec<u8>, reason: v1::LostReason) -> Response {
    Response::Opened(v1::SessionOpened {
        refused: vec![lost_lock(1, next_owner_id, reason)],
        ttl: wire_ms(TTL),
        ..Default::default()
    })
}

fn not_granted(outcome: v1::AcquireOutcome) -> Response {
    Response::NotGranted(v1::SessionNotGranted {
        outcome: outcome.into(),
        holder: None,
    })
}

fn unreachable(retryable: bool) -> Arc<ConnectError> {
    let endpoint = "http://test".into();
    Arc::new(if retryable {
        ConnectError::Ended { endpoint }
    } else {
        ConnectError::InvalidEndpoint {
            endpoint,
            source: None,
        }
    })
}
