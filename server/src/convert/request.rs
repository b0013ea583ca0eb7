//! Messages from a session's client, checked and made into requests to the rules.

use futures_util::stream::BoxStream;
use leasehold_core::{
    id::Actor,
    session::{AcquireRequest, Closer, Request, RequestId, Wait},
};
use leasehold_proto::v1;
use tonic::Status;

use super::fields::{
    FieldBounds, kept_permits, lock_delay, lock_name, lock_specs, max_hold, owner_id, value, wait,
};
use crate::{
    status::{Reason, Refusal},
    telemetry::waits::RequestKind,
};

/// Message of a session's client.
pub type Message = v1::SessionRequest;
/// Messages of a session's client.
pub type Requests = BoxStream<'static, Result<Message, Status>>;

/// Parts of a request that metrics, limits and traces need before its fields are checked.
#[derive(Debug)]
pub struct Heading<'a> {
    /// The request id.
    pub id: RequestId,
    /// The kind.
    pub kind: RequestKind,
    /// The lock's name, if it names one.
    pub name: &'a str,
    /// The trace that it is a part of, as the client says.
    pub traceparent: &'a str,
}

/// Returns the heading of a request.
pub fn heading(request: &v1::SessionRequest) -> Heading<'_> {
    use v1::session_request::Request as Asked;
    let (kind, name) = match &request.request {
        Some(Asked::Open(_)) => (RequestKind::Open, ""),
        Some(Asked::Acquire(acquire)) => (RequestKind::Acquire, &*acquire.name),
        Some(Asked::Release(release)) => (RequestKind::Release, &*release.name),
        Some(Asked::Heartbeat(_)) => (RequestKind::Heartbeat, ""),
        Some(Asked::SetValue(set)) => (RequestKind::SetValue, &*set.name),
        Some(Asked::Downgrade(downgrade)) => (RequestKind::Downgrade, &*downgrade.name),
        Some(Asked::Reduce(reduce)) => (RequestKind::Reduce, &*reduce.name),
        Some(Asked::Cancel(_)) => (RequestKind::Cancel, ""),
        Some(Asked::Close(_)) => (RequestKind::Close, ""),
        None => (RequestKind::Unknown, ""),
    };
    Heading {
        id: request.request_id,
        kind,
        name,
        traceparent: &request.traceparent,
    }
}

/// Checks an acquire.
fn acquire(
    request_id: u64,
    request: v1::SessionAcquire,
    bounds: FieldBounds<'_>,
) -> Result<AcquireRequest, Refusal> {
    // Its grant would look like something that the coordinator sends of itself.
    if request_id == 0 {
        return Err(Refusal::field(
            "request_id",
            "must not be 0 for an acquire: answers under it could not be told apart",
        ));
    }
    let max_names = bounds.limits.config().max_names_per_acquire;
    let locks = lock_specs(&request, bounds.store, max_names)?;
    let wait = wait("acquire.wait", request.wait, Wait::Forever, bounds.max_wait)?;
    let value = value("acquire.value", &request.value)?;
    let lock_delay = lock_delay("acquire.lock_delay", request.lock_delay, bounds.ttl)?;
    let max_hold = max_hold("acquire.max_hold", request.max_hold)?;
    let actor = Actor::new(request.actor);
    if request.reentrant && actor.is_nobody() {
        let what = "needs an actor: nobody (actor 0) is a stranger to itself";
        return Err(Refusal::field("acquire.reentrant", what));
    }
    Ok(AcquireRequest {
        locks,
        wait,
        value,
        lock_delay,
        max_hold,
        actor,
        reentrant: request.reentrant,
    })
}

/// Checks the fields of a request, and returns it. `closer` is the cause named if the request closes the session.
pub fn request(
    request: v1::SessionRequest,
    bounds: FieldBounds<'_>,
    closer: Closer,
) -> Result<Request, Refusal> {
    use v1::session_request::Request as Asked;
    // The fields are spelt out: to put their names together would cost every request its allocations.
    let lock = |(name_field, owner_field): (&str, &str), name: &str, owner: &[u8]| {
        let name = lock_name(name_field, name, bounds.store)?;
        Ok::<_, Refusal>((name, owner_id(owner_field, owner)?))
    };
    Ok(match request.request {
        Some(Asked::Acquire(asked)) => {
            Request::Acquire(acquire(request.request_id, asked, bounds)?)
        }
        Some(Asked::Release(release)) => {
            let fields = ("release.name", "release.owner_id");
            let (name, owner) = lock(fields, &release.name, &release.owner_id)?;
            let expired = release.expired;
            Request::Release {
                name,
                owner,
                expired,
            }
        }
        Some(Asked::SetValue(set)) => {
            let fields = ("set_value.name", "set_value.owner_id");
            let (name, owner) = lock(fields, &set.name, &set.owner_id)?;
            let value = value("set_value.value", &set.value)?;
            Request::SetValue { name, owner, value }
        }
        Some(Asked::Downgrade(downgrade)) => {
            let fields = ("downgrade.name", "downgrade.owner_id");
            let (name, owner) = lock(fields, &downgrade.name, &downgrade.owner_id)?;
            Request::Downgrade { name, owner }
        }
        Some(Asked::Reduce(reduce)) => {
            let fields = ("reduce.name", "reduce.owner_id");
            let (name, owner) = lock(fields, &reduce.name, &reduce.owner_id)?;
            let permits = kept_permits("reduce.permits", reduce.permits)?;
            Request::Reduce {
                name,
                owner,
                permits,
            }
        }
        Some(Asked::Heartbeat(heartbeat)) => Request::Heartbeat {
            sequence: heartbeat.sequence,
        },
        Some(Asked::Cancel(cancel)) => Request::Cancel(cancel.acquire_request_id),
        Some(Asked::Close(_)) => Request::Close(closer),
        Some(Asked::Open(_)) => {
            return Err(Refusal::new(
                Reason::AlreadyOpen,
                "this stream's session is open already; open another stream for another session",
            ));
        }
        None => return Err(unknown_request()),
    })
}

/// Returns the refusal of a message without a known request.
pub fn unknown_request() -> Refusal {
    Refusal::new(
        Reason::UnknownRequest,
        "the message holds no request that this coordinator knows; set one of the fields of `request`",
    )
}
