//! Opening of a lease stream: by one `open`, or by several if the client resumes many locks.

use std::{collections::HashMap, time::Duration};

use leasehold_core::{
    name::ClientName,
    session::{LostLock, Resumption},
};
use leasehold_proto::v1::{SessionOpen, SessionRequest, session_request::Request};

use crate::{
    access::rules::Granted,
    convert::{self, Resumptions},
    coordinator::Coordinator,
    status::{Reason, Refusal},
};

/// Opening messages of a stream that have come so far.
#[derive(Debug, Default)]
pub(super) struct Opening {
    first: Option<Opener>,
    resume: Resumptions,
}

/// Session that a client asks for.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) request_id: u64,
    pub(super) client_name: ClientName,
    pub(super) ttl: Duration,
    pub(super) disconnect_grace: Duration,
    pub(super) metadata: HashMap<String, String>,
    pub(super) resume: Vec<Resumption>,
    /// Locks that it may not resume.
    pub(super) denied: Vec<LostLock>,
}

impl Opening {
    /// Takes a message in. Returns what the client asks for with the last.
    pub(super) fn hear(
        &mut self,
        request: SessionRequest,
        coordinator: &Coordinator,
        granted: &Granted,
    ) -> Result<Option<Opener>, Refusal> {
        let Some(Request::Open(open)) = request.request else {
            return Err(match self.first {
                None => not_open("open"),
                Some(_) => Refusal::new(
                    Reason::NotOpen,
                    "an `open` with `more` must be followed by another `open`, with the rest",
                ),
            });
        };
        let SessionOpen {
            client_name,
            ttl,
            metadata,
            disconnect_grace,
            resume,
            more,
        } = open;
        let mut first = match self.first.take() {
            Some(first) => first,
            None => {
                let ttl = convert::ttl("open.ttl", ttl, coordinator.bounds())?;
                convert::metadata("open.metadata", &metadata)?;
                let grace = "open.disconnect_grace";
                Opener {
                    request_id: request.request_id,
                    client_name: convert::client_name("open.client_name", &client_name)?,
                    ttl,
                    disconnect_grace: convert::disconnect_grace(grace, disconnect_grace, ttl)?,
                    metadata,
                    resume: Vec::new(),
                    denied: Vec::new(),
                }
            }
        };
        // What a session has already it keeps, though it may be more than one may ask for by now.
        let limit = coordinator.limits().most_locks();
        let bounds = coordinator.field_bounds();
        self.resume.add(resume, first.request_id, limit, bounds)?;
        if more {
            self.first = Some(first);
            return Ok(None);
        }
        (first.resume, first.denied) = std::mem::take(&mut self.resume).finish(granted);
        Ok(Some(first))
    }
}

/// Returns the refusal of a stream whose first message is another one than `called`.
pub(super) fn not_open(called: &str) -> Refusal {
    let message = format!("the stream's first message must be `{called}`");
    Refusal::new(Reason::NotOpen, message)
}
