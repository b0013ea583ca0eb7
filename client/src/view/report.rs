//! Answers of a coordinator about its sessions, its state, force releases and fencing tokens.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use crate::{
    proto::{from_enum, from_message},
    token::FencingToken,
};

/// One session of a coordinator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct SessionView {
    /// The session's id. Not secret.
    pub session_id: String,
    /// The name that the client gave itself, at most 256 bytes; empty if it gave none.
    pub client_name: String,
    /// The network address of the client.
    pub peer: String,
    /// The coordinator that serves the session.
    pub coordinator: String,
    /// The TTL of the session's locks.
    pub ttl: Duration,
    /// Time at which the session was opened, by the coordinator's wall clock.
    pub opened_at: Option<SystemTime>,
    /// Time since the coordinator received the last heartbeat.
    pub since_heartbeat: Duration,
    /// Number of locks that the session holds.
    pub hold_count: u32,
    /// Number of acquires of the session that wait.
    pub waiter_count: u32,
    /// The metadata that the client gave when it opened the session.
    pub metadata: HashMap<String, String>,
    /// The identity that opened the session, for example `cert:billing`; none if the coordinator asks for no identity.
    pub identity: Option<String>,
}

from_message!(SessionView => SessionView {
    session_id, client_name, peer, coordinator, ttl, opened_at, since_heartbeat, hold_count,
    waiter_count, metadata, identity,
});

/// Result of the end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SessionEnded {
    /// Whether anything ended; false if no coordinator has such a session, and no lock names it.
    pub ended: bool,
    /// Number of sessions that coordinators have ended: more than 1 if others had resumed some of its locks; 0 if its coordinator
    /// is gone, in which case only what it left in the store was ended.
    pub session_count: u32,
    /// Number of holds that were ended.
    pub hold_count: u32,
    /// Number of waits that were ended.
    pub waiter_count: u32,
}

from_message!(EndSessionResponse => SessionEnded {
    ended, session_count, hold_count, waiter_count,
});

/// Result of a force release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ForceReleased {
    /// Whether anything ended; false if the name was free, or had no such holder or waiter.
    pub released: bool,
    /// The name's token after it: greater than the former holder's; the next waiter's, if one was granted. None
    /// if no token of the name is on record.
    pub fencing_token: Option<FencingToken>,
}

from_message!(ForceReleaseResponse => ForceReleased {
    released, fencing_token,
});

/// Result of a check of a fencing token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TokenCheck {
    /// Whether no newer token of the name is on record. A token that is older than the record (twice the maximum TTL
    /// without a grant or a renewal) is unknown, and thus not current.
    pub current: bool,
    /// The newest token on record; none if none is.
    pub newest_token: Option<FencingToken>,
}

from_message!(CheckTokenResponse => TokenCheck {
    current, newest_token,
});

/// State of a coordinator's store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StoreState {
    /// The store answers.
    Up,
    /// The store is out of reach, or must not be used.
    Down,
}

from_enum!(StoreState { Up, Down });

/// Answer of one coordinator about its own state. A caller without the permission `inspect` on every lock sees
/// `coordinator`, `version`, `uptime` and `serving` only, and from `time` to `permissions`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct CoordinatorView {
    /// The coordinator's id, as listings show it.
    pub coordinator: String,
    /// The coordinator's version, for example `0.1.0`.
    pub version: String,
    /// Time since the coordinator started.
    pub uptime: Option<Duration>,
    /// Whether the coordinator serves, as its health check says.
    pub serving: bool,
    /// Reason for which the coordinator does not serve, for people, or what its store has refused in the last minute while it
    /// serves; none if neither, or if the caller may not see it.
    pub reason: Option<String>,
    /// The URL of the store without its passwords; none if the caller may not see it.
    pub store: Option<String>,
    /// Whether the coordinator reaches its store; none if the caller may not see it.
    pub store_state: Option<StoreState>,
    /// Number of the coordinator's sessions; none if the caller may not see it.
    pub session_count: Option<u64>,
    /// Number of locks that these sessions hold; none if the caller may not see it.
    pub hold_count: Option<u64>,
    /// Number of acquires of these sessions that wait or are in flight; none if the caller may not see it.
    pub waiter_count: Option<u64>,
    /// The coordinator's wall clock when it answered; none from a coordinator of an earlier version.
    pub time: Option<SystemTime>,
    /// Whether the coordinator drains.
    pub draining: bool,
    /// The caller's identity there; none if it asks for none.
    pub identity: Option<String>,
    /// What the caller may do there.
    pub permissions: Vec<PermissionView>,
    /// The smallest TTL; none if the caller may not see it.
    pub min_ttl: Option<Duration>,
    /// The TTL of callers that ask for none; none if the caller may not see it.
    pub default_ttl: Option<Duration>,
    /// The largest TTL; none if the caller may not see it.
    pub max_ttl: Option<Duration>,
    /// The prefix of the locks' keys in Redis; none if the caller may not see it.
    pub key_prefix: Option<String>,
    /// Number of replicas that must acknowledge a grant; none if the caller may not see it.
    pub min_replicas: Option<u32>,
    /// Limits, and how much of each is in use; empty if the caller may not see it.
    pub limits: Vec<LimitView>,
    /// Certificates in force; empty if the caller may not see it.
    pub certificates: Vec<CertificateView>,
}

/// Permission of a caller at a coordinator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PermissionView {
    /// `acquire`, `inspect` or `administer`.
    pub permission: String,
    /// Prefixes of the names of locks that it is for; the empty one stands for every name.
    pub locks: Vec<String>,
    /// Prefixes of the names of elections that it is for; the empty one stands for every name.
    pub elections: Vec<String>,
}

from_message!(PermissionView => PermissionView {
    permission, locks, elections,
});

/// Limit of a coordinator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LimitView {
    /// The setting, such as `max-sessions`; or `open-files`.
    pub name: String,
    /// How much of it is in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

from_message!(LimitView => LimitView {
    name, used, limit,
});

/// Certificate of a coordinator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct CertificateView {
    /// What it is for: `server`, `admin` or `store`.
    pub purpose: String,
    /// Time at which the first certificate of its chain expires.
    pub expires: Option<SystemTime>,
}

from_message!(CertificateView => CertificateView {
    purpose, expires,
});

from_message!(GetStatusResponse => CoordinatorView {
    coordinator, version, uptime, serving, reason, store, store_state, session_count,
    hold_count, waiter_count, time, draining, identity, permissions, min_ttl, default_ttl, max_ttl,
    key_prefix, min_replicas, limits, certificates,
});
