//! Opening of a lease stream: by one `open`, or by several if the client resumes many locks.

use std::{collections::HashMap, time::Duration};

use leasehold_core::name::{ClientName, LockName};
use leasehold_proto::v1::{SessionOpen, SessionRequest, session_request::Request};

use super::streams::{Opener, Peer, Streams, not_open};
use crate::{
    access::rules::{Permission, Place},
    convert::{self, Resumptions},
    session::{driver::Opened, wire::Plain},
    status::{Reason, Refusal},
};

/// What the messages of a stream have said so far.
#[derive(Debug, Default)]
pub(super) struct Opening {
    first: Option<First>,
    resume: Resumptions,
}

/// What the first one said.
#[derive(Debug)]
struct First {
    request_id: u64,
    client_name: ClientName,
    ttl: Duration,
    disconnect_grace: Duration,
    metadata: HashMap<String, String>,
}

impl Opening {
    /// Takes a message in; opens a session with the last.
    pub(super) fn hear(
        &mut self,
        streams: &Streams,
        request: SessionRequest,
        peer: &Peer,
    ) -> Result<Option<(Opened, Plain)>, Refusal> {
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
        let first = match self.first.take() {
            Some(first) => first,
            None => {
                let ttl = convert::ttl("open.ttl", ttl, streams.coordinator.bounds())?;
                convert::metadata("open.metadata", &metadata)?;
                let grace = "open.disconnect_grace";
                First {
                    request_id: request.request_id,
                    client_name: convert::client_name("open.client_name", &client_name)?,
                    ttl,
                    disconnect_grace: convert::disconnect_grace(grace, disconnect_grace, ttl)?,
                    metadata,
                }
            }
        };
        // What a session has already it keeps, though it may be more than one may ask for by now.
        let limit = streams.coordinator.limits().most_locks();
        let coordinator = &streams.coordinator;
        self.resume
            .add(resume, first.request_id, limit, coordinator)?;
        if more {
            self.first = Some(first);
            return Ok(None);
        }
        // What is held of an election of that name is an exclusive hold; if this is not, it is lost when it is known.
        let may_be = |name: &LockName| {
            let granted = peer.rights.granted();
            granted.permits(Permission::Acquire, Place::Either, name.as_str())
        };
        let (resume, denied) = std::mem::take(&mut self.resume).finish(may_be);
        let opener = Opener {
            request_id: first.request_id,
            client_name: first.client_name,
            ttl: first.ttl,
            disconnect_grace: first.disconnect_grace,
            resume,
            denied,
            metadata: first.metadata,
        };
        Ok(Some((streams.open(opener, peer)?, Plain)))
    }
}
