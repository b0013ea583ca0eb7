//! The requests of one session that are traced or told in the log, from asked to answered.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use leasehold_core::{id::SessionId, name::MAX_NAME, session::Response};

use crate::{
    convert::{request::Heading, session::not_granted},
    status::Refusal,
    telemetry::{
        requests::are_logged,
        traces::{CallerContext, Traced, Traces},
        waits::RequestKind,
    },
};

/// Requests of a session that are under way, if they are traced or logged: none if nothing is traced and the log is above
/// debug.
#[derive(Debug, Default)]
pub struct Following {
    traces: Traces,
    /// Context that its stream was opened with.
    caller: CallerContext,
    session: Option<SessionId>,
    under_way: HashMap<u64, Follow>,
    renewal: Option<Follow>,
}

/// One of them.
#[derive(Debug)]
struct Follow {
    kind: &'static str,
    since: Instant,
    traced: Option<Traced>,
}

impl Following {
    /// Follows the requests of a stream.
    #[must_use]
    pub fn new(traces: Traces, caller: CallerContext) -> Self {
        Self {
            traces,
            caller,
            session: None,
            under_way: HashMap::new(),
            renewal: None,
        }
    }

    /// They are the requests of this session.
    pub fn of(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    /// Returns the session of the requests, once it is open.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// A request has come.
    pub fn asked(&mut self, request: &Heading<'_>) {
        if !self.traces.are_on() && !are_logged() {
            return;
        }
        // What the session is about is told as it opens and ends, heartbeats with the renewals that they lead to.
        if !matches!(
            request.kind,
            RequestKind::Acquire
                | RequestKind::Release
                | RequestKind::SetValue
                | RequestKind::Downgrade
                | RequestKind::Reduce
        ) {
            return;
        }
        let kind = request.kind.as_str();
        // One that is refused because of the other is not followed for itself.
        if self.under_way.contains_key(&request.id) {
            return;
        }
        let traced = self.traces.begin(kind, &self.caller, request.traceparent);
        let Some(mut follow) = self.follow(kind, traced) else {
            return;
        };
        if let Some(traced) = &mut follow.traced {
            let number = i64::try_from(request.id).unwrap_or(i64::MAX);
            traced.set("leasehold.request", number);
            // A longer one is none, and would be kept until the spans are sent.
            if request.name.len() <= MAX_NAME {
                traced.set("leasehold.lock", request.name.to_owned());
            }
        }
        self.under_way.insert(request.id, follow);
    }

    /// A command was sent to the store for a request.
    pub fn script(&mut self, request_id: u64) {
        if let Some(traced) = self.traced(request_id) {
            traced.part("script");
        }
    }

    /// A request that waited got its turn: the command that handed the lock over was sent so long ago.
    pub fn handed_off(&mut self, request_id: u64, ago: impl FnOnce() -> Duration) {
        if let Some(traced) = self.traced(request_id) {
            traced.handed_off(ago());
        }
    }

    /// A request is answered, or waits from now on.
    pub fn answered(&mut self, request_id: u64, response: &Response) {
        if self.under_way.is_empty() {
            return;
        }
        let outcome = match response {
            Response::Queued { position, .. } => {
                if let Some(traced) = self.traced(request_id) {
                    let position = i64::try_from(*position).unwrap_or(i64::MAX);
                    traced.set("leasehold.position", position);
                    traced.part("wait");
                }
                return;
            }
            // It answers nothing.
            Response::ReleaseRequested { .. } => return,
            Response::Granted { .. } => "granted",
            Response::NotGranted { why, .. } => not_granted(*why).as_str_name(),
            Response::Released { released: true, .. } => "released",
            Response::ValueSet(true) => "value set",
            Response::Downgraded(true) => "downgraded",
            Response::Reduced(true) => "reduced",
            _ => "not held",
        };
        self.ends(request_id, outcome, None);
    }

    /// A request was refused.
    pub fn refused(&mut self, request_id: u64, refusal: &Refusal) {
        if !self.under_way.is_empty() {
            let reason = refusal.reason().as_str();
            self.ends(request_id, reason, Some(reason));
        }
    }

    /// A request is answered elsewhere: on the stream that resumed it.
    pub fn moved(&mut self, request_id: u64) {
        self.ends(request_id, "moved", None);
    }

    /// So many holds are renewed.
    pub fn renews(&mut self, holds: usize) {
        if !self.traces.are_on() && !are_logged() {
            return;
        }
        // A session may live for long: its renewals are no part of what its stream was opened for.
        let traced = self.traces.begin("renew", &CallerContext::default(), "");
        self.renewal = self.follow("renew", traced);
        if let Some(traced) = self
            .renewal
            .as_mut()
            .and_then(|renewal| renewal.traced.as_mut())
        {
            traced.set("leasehold.holds", i64::try_from(holds).unwrap_or(i64::MAX));
            traced.part("script");
        }
    }

    /// They were, but for those that were lost; or the store did not answer.
    pub fn renewed(&mut self, lost: usize, failed: bool) {
        if let Some(mut renewal) = self.renewal.take() {
            if let Some(traced) = &mut renewal.traced {
                traced.set("leasehold.lost", i64::try_from(lost).unwrap_or(i64::MAX));
            }
            let outcome = if failed { "failed" } else { "renewed" };
            self.tell(
                0,
                renewal,
                outcome,
                failed.then_some("the store did not renew all"),
            );
        }
    }

    fn follow(&self, kind: &'static str, mut traced: Option<Traced>) -> Option<Follow> {
        if let Some(traced) = &mut traced
            && let Some(session) = self.session
        {
            traced.set("leasehold.session", session.to_string());
        }
        (traced.is_some() || are_logged()).then(|| Follow {
            kind,
            since: Instant::now(),
            traced,
        })
    }

    fn traced(&mut self, request_id: u64) -> Option<&mut Traced> {
        if self.under_way.is_empty() {
            return None;
        }
        self.under_way.get_mut(&request_id)?.traced.as_mut()
    }

    fn ends(&mut self, request_id: u64, outcome: &'static str, error: Option<&'static str>) {
        if let Some(mut follow) = self.under_way.remove(&request_id) {
            if let Some(traced) = &mut follow.traced {
                traced.set("leasehold.outcome", outcome);
            }
            self.tell(request_id, follow, outcome, error);
        }
    }

    fn tell(
        &self,
        request: u64,
        follow: Follow,
        outcome: &'static str,
        error: Option<&'static str>,
    ) {
        tracing::debug!(
            target: "leasehold_server::requests",
            session = self.session.map(tracing::field::display),
            request,
            kind = follow.kind,
            outcome,
            took = ?follow.since.elapsed(),
            trace = follow.traced.as_ref().map(Traced::id),
            "answered"
        );
        if let Some(traced) = follow.traced {
            traced.end(error);
        }
    }
}
