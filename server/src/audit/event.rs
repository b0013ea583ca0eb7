//! Events of the audit log, and their lines.

use std::{
    io::Write,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use leasehold_core::{
    command::One,
    id::{FencingToken, SessionId},
    mode::Mode,
    name::{ClientName, LockName},
    time::StoreTime,
};

/// Facts of a hold, or of a waiter.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The lock, or the election.
    pub name: LockName,
    /// Whether a candidate campaigns for it.
    pub is_election: bool,
    /// Mode in which it is held or asked for.
    pub mode: Mode,
    /// Number of permits that were granted, if the acquire left it to the store.
    pub permits: Option<u32>,
    /// Its token, once it is granted.
    pub token: Option<FencingToken>,
    /// Its client's name.
    pub client_name: ClientName,
    /// Its caller's identity, if the caller has one.
    pub identity: Option<Arc<str>>,
    /// Its session; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// Time of its grant, if it is known here.
    pub granted_at: Option<StoreTime>,
    /// Time from the acquire to the grant, if both are known here.
    pub waited: Option<Duration>,
}

impl Facts {
    /// Returns the facts of a hold or waiter of which no more than this is known.
    pub(super) fn new(name: &LockName, mode: Mode, client_name: ClientName) -> Self {
        Self {
            name: name.clone(),
            is_election: false,
            mode,
            permits: None,
            token: None,
            client_name,
            identity: None,
            session: None,
            granted_at: None,
            waited: None,
        }
    }
}

/// Reason for which a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its client released it.
    Client,
    /// Its client closed the session.
    Closed,
    /// Its client never heard of the grant, or gave it back because it could not have all names.
    GivenBack,
    /// Its client ended the stream, or its process did.
    ClientGone,
    /// Its client sent no heartbeat for the TTL.
    Silent,
    /// The stream broke, and was not resumed.
    CutOff,
    /// Its client lost the permission.
    PermissionRevoked,
    /// It was held for as long as it may be.
    MaxHold,
    /// Nobody renewed it in time.
    NotRenewed,
    /// A hold of the unary calls was not renewed, or was released through another coordinator.
    NotSeen,
    /// Its key was deleted.
    Deleted,
    /// Its key has another owner.
    Taken,
    /// It was gone when it was to be released.
    FoundGone,
    /// An operator took it.
    Operator,
    /// An operator ended its session.
    SessionEnded,
    /// The coordinator stopped.
    Stopped,
}

impl Why {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Closed => "closed",
            Self::GivenBack => "given_back",
            Self::ClientGone => "client_gone",
            Self::Silent => "silent",
            Self::CutOff => "cut_off",
            Self::PermissionRevoked => "permission_revoked",
            Self::MaxHold => "max_hold",
            Self::NotRenewed => "not_renewed",
            Self::NotSeen => "not_seen",
            Self::Deleted => "deleted",
            Self::Taken => "taken",
            Self::FoundGone => "found_gone",
            Self::Operator => "operator",
            Self::SessionEnded => "session_ended",
            Self::Stopped => "stopped",
        }
    }
}

/// Kind of an end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// It was given back, by whomever.
    Released,
    /// Its time ran out.
    Expired,
    /// Something else took it away.
    Lost,
    /// An operator took it.
    ForceReleased,
    /// The coordinator stopped and left it in the store: it expires unless its client resumes it.
    Left,
}

impl EndKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::ForceReleased => "force_released",
            Self::Left => "left",
        }
    }
}

/// Action of an operator.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// The lock, if it concerned one.
    pub lock: Option<LockName>,
    /// The one hold or wait of the lock that was meant, if not all.
    pub only: Option<One>,
    /// The session, if it concerned one.
    pub session: Option<SessionId>,
    /// The operator.
    pub by: Operator,
    /// Whether anything was released, asked or ended.
    pub has_effect: bool,
}

/// Operator, as far as it is known.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The identity that was shown.
    pub identity: Option<String>,
    /// The address.
    pub peer: Option<SocketAddr>,
}

/// Something that the audit log tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// A lock was granted, or a candidate was elected.
    Granted(Facts),
    /// A hold was resumed on another stream.
    Resumed(Facts),
    /// A hold ended.
    Ended(Facts, EndKind, Why),
    /// An operator did something.
    Operator(Action),
    /// A caller was denied what it asked for.
    Denied {
        /// The reason, as in `google.rpc.ErrorInfo`.
        reason: &'static str,
        /// The missing permission.
        permission: Option<String>,
        /// The lock or election.
        name: Option<String>,
        /// The caller's identity.
        identity: Option<Arc<str>>,
        /// The caller's address, if it has shown no identity.
        peer: Option<String>,
    },
    /// The coordinator started.
    Started,
    /// The coordinator stopped.
    Stopped,
    /// So many lines were dropped.
    Dropped(u64),
}

/// Writes an object's fields, in order.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
}

impl Fields<'_> {
    fn key(&mut self, key: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        // Writing a string into memory does not fail.
        let _ = serde_json::to_writer(&mut *self.out, text);
    }

    fn some_text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn number(&mut self, key: &str, number: impl std::fmt::Display) {
        self.key(key);
        let _ = write!(self.out, "{number}");
    }

    /// Writes a duration in milliseconds, with three decimals.
    fn duration(&mut self, key: &str, duration: Option<Duration>) {
        if let Some(duration) = duration {
            let micros = duration.as_micros();
            let (millis, rest) = (micros / 1000, micros % 1000);
            self.key(key);
            let _ = write!(self.out, "{millis}.{rest:03}");
        }
    }

    fn session(&mut self, session: Option<SessionId>) {
        if let Some(session) = session {
            self.key("session");
            let _ = write!(self.out, "\"{session}\"");
        }
    }

    fn facts(&mut self, facts: &Facts, at: StoreTime) {
        let place = if facts.is_election {
            "election"
        } else {
            "lock"
        };
        self.text(place, facts.name.as_str());
        let mode = match facts.mode {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Semaphore(_) => "semaphore",
        };
        self.text("mode", mode);
        if let Mode::Semaphore(permits) = facts.mode {
            let permits = facts.permits.unwrap_or(permits.number());
            self.number("permits", permits);
        }
        if let Some(token) = facts.token {
            self.number("token", token.get());
        }
        self.text("client", facts.client_name.as_str());
        self.some_text("identity", facts.identity.as_deref());
        self.session(facts.session);
        self.duration("waited_ms", facts.waited);
        let held = facts.granted_at.map(|granted| granted.until(at));
        self.duration("held_ms", held.filter(|_| facts.granted_at != Some(at)));
    }
}

impl Event {
    /// Appends the event's line, with the line's end.
    pub(super) fn encode(&self, at: StoreTime, coordinator: &str, out: &mut Vec<u8>) {
        let micros = u64::try_from(at.as_micros()).unwrap_or(0);
        let time = UNIX_EPOCH + Duration::from_micros(micros);
        let _ = write!(
            out,
            "{{\"time\":\"{}\"",
            humantime::format_rfc3339_micros(time)
        );
        let mut fields = Fields { out };
        fields.text("event", self.name());
        match self {
            Self::Granted(facts) => fields.facts(facts, facts.granted_at.unwrap_or(at)),
            Self::Resumed(facts) => fields.facts(facts, at),
            Self::Ended(facts, _, why) => {
                fields.text("why", why.as_str());
                fields.facts(facts, at);
            }
            Self::Operator(action) => {
                fields.text("action", action.name);
                fields.some_text("lock", action.lock.as_ref().map(LockName::as_str));
                match action.only {
                    Some(One::Holder(token)) => fields.number("token", token.get()),
                    Some(One::Waiter(number)) => fields.number("waiter", number.get()),
                    None => {}
                }
                fields.session(action.session);
                fields.some_text("identity", action.by.identity.as_deref());
                let peer = action.by.peer.map(|peer| peer.to_string());
                fields.some_text("peer", peer.as_deref());
                fields.number("effect", action.has_effect);
            }
            Self::Denied {
                reason,
                permission,
                name,
                identity,
                peer,
            } => {
                fields.text("reason", reason);
                fields.some_text("permission", permission.as_deref());
                fields.some_text("lock", name.as_deref());
                fields.some_text("identity", identity.as_deref());
                fields.some_text("peer", peer.as_deref());
            }
            Self::Dropped(lines) => fields.number("lines", lines),
            Self::Started | Self::Stopped => {}
        }
        fields.text("coordinator", coordinator);
        out.extend_from_slice(b"}\n");
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Granted(facts) if facts.is_election => "elected",
            Self::Granted(_) => "granted",
            Self::Resumed(_) => "resumed",
            Self::Ended(_, kind, _) => kind.as_str(),
            Self::Operator(_) => "operator",
            Self::Denied { .. } => "denied",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Dropped(_) => "dropped",
        }
    }
}
