//! `LockService`: the lease stream and the unary calls.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::OptionFuture};
use leasehold_core::{
    command::{Op, Reply},
    lease::drift_margin,
    session::{CallOutcome, CallRequest, NotGranted, Wait},
    time::{InUnits, Moment},
};
use leasehold_proto::v1::{
    self, AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest,
    RenewResponse, SessionRequest, lock_service_server::LockService,
};
use leasehold_store::clock;
use tonic::{Request, Response, Status, Streaming};

use super::{call, names, request_key, streams::Streams};
use crate::{
    access::rules::{Permission, Place},
    admission::CallQueue,
    audit::Holder,
    convert::{self, stream::Kind},
    listener::ConnectionHandle,
    outbox::channel::Receiver,
    status::{Reason, Refusal},
    telemetry::Followed,
};

/// The service.
#[derive(Clone, Debug)]
pub struct Locks {
    /// The parts that the services share.
    pub streams: Streams,
}

#[tonic::async_trait]
impl LockService for Locks {
    type SessionStream = Receiver;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (_, extensions, requests) = request.into_parts();
        let answers = self
            .streams
            .begin(&extensions, requests.boxed(), Kind::LeaseStream)?;
        Ok(Response::new(answers))
    }

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let followed = Followed::of(request.extensions());
        let connection = request.extensions().get::<ConnectionHandle>().cloned();
        let request = request.into_inner();
        let bounds = coordinator.bounds();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let wait = convert::wait("wait", request.wait, Wait::No, coordinator.max_wait())?;
        let limit = (request.limit, request.limit_revision);
        let permits = (request.permits, request.permits_at_least);
        let mode = convert::mode("", request.mode, permits, limit)?;
        let ttl = convert::ttl("ttl", request.ttl, bounds)?;
        let mut request = CallRequest {
            name: name.clone(),
            mode,
            wait,
            client_name: convert::client_name("client_name", &request.client_name)?,
            value: convert::value("value", &request.value)?,
            ttl,
            lock_delay: convert::lock_delay("lock_delay", request.lock_delay, bounds)?,
            max_hold: None,
            mark: convert::request_key("request_key", &request.request_key)?
                .map(|key| request_key::mark(rights.caller(), &name, mode, key)),
        };
        rights.check(Permission::Acquire, Place::Lock, name.as_str())?;
        let bound = rights.granted().max_hold(Place::Lock, name.as_str());
        if let (Some(bound), Some(_)) = (bound, request.mark) {
            let why = "a repeated request would extend it; acquire it without a request_key, or on a session";
            return Err(bounded(name.as_str(), bound, why).into());
        }
        // The caller can't renew it beyond that, nor can a session that resumes it.
        let ttl = bound.map_or(ttl, |bound| ttl.min(bound));
        (request.ttl, request.max_hold) = (ttl, bound);
        let mut rights_then = rights.clone();
        let holder = Holder {
            identity: coordinator.audit().text(rights.caller().identity()),
            is_candidate: false,
        };
        // However long it waits, it may do so for as long as it has the permission.
        let lost = rights.lost(Permission::Acquire, Place::Lock, name.as_str());
        let queue = connection.map(|connection| {
            let queue = connection.calls(coordinator.admission());
            Arc::clone(queue)
        });
        let acquired = async {
            let since = Instant::now();
            let permit = OptionFuture::from(queue.as_ref().map(CallQueue::permit));
            let permit = match wait {
                Wait::For(wait) => tokio::time::timeout(wait, permit).await,
                Wait::No | Wait::Forever => Ok(permit.await),
            };
            // It waits for admission no longer than it would for the lock.
            let Ok(mut permit) = permit else {
                return CallOutcome::NotGranted(NotGranted::TimedOut, None);
            };
            if let Wait::For(wait) = &mut request.wait {
                *wait = wait.saturating_sub(since.elapsed());
            }
            followed.script();
            let queued = || {
                followed.waits();
                // It is not on its way any more.
                permit.take();
            };
            call::acquire(coordinator, request, holder, queued).await
        };
        let acquired = tokio::select! {
            biased;
            acquired = acquired => acquired,
            refusal = lost => return Err(refusal.into()),
            () = self.streams.shutdown.stopping.cancelled() => return Err(stopping().into()),
        };
        let (why, holder) = match acquired {
            CallOutcome::Granted {
                owner,
                token,
                permits,
                sent_at,
            } => {
                followed.handed_off(|| sent_at.until(clock::now()));
                coordinator.audit().stands_until(owner, sent_at.after(ttl));
                let response = AcquireResponse {
                    outcome: v1::AcquireOutcome::Granted.into(),
                    owner_id: owner.as_bytes().to_vec(),
                    fencing_token: token.get(),
                    ttl: Some(convert::wire_duration(left(sent_at.after(ttl), ttl))),
                    holder: None,
                    permits,
                };
                return Ok(Response::new(response));
            }
            CallOutcome::NotGranted(why, holder) => (why, holder),
            CallOutcome::Refused(refused) => {
                let limits = self.streams.coordinator.limits();
                let refusal = convert::session::refusal(refused, limits, rights_then.granted());
                return Err(refusal.into());
            }
        };
        // It may not be what it was when the wait began.
        rights_then.look_again()?;
        let granted = rights_then.granted();
        let may_inspect = granted.permits(Permission::Inspect, Place::Either, name.as_str());
        Ok(Response::new(AcquireResponse {
            outcome: convert::session::not_granted(why).into(),
            holder: holder.as_ref().filter(|_| may_inspect).map(convert::holder),
            ..Default::default()
        }))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let followed = Followed::of(request.extensions());
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let owner = convert::owner_id("owner_id", &request.owner_id)?;
        let ttl = convert::ttl("ttl", request.ttl, coordinator.bounds())?;
        rights.check(Permission::Acquire, Place::Lock, name.as_str())?;
        if let Some(bound) = rights.granted().max_hold(Place::Lock, name.as_str()) {
            let why = "a hold of the unary calls lasts for its first TTL; acquire it with a TTL that suffices, or on a session";
            return Err(bounded(name.as_str(), bound, why).into());
        }
        let token = None;
        let op = Op::Renew { owner, token, ttl };
        followed.script();
        let stamped = coordinator
            .execute(&name, op)
            .await
            .map_err(|error| rights.shown(error.into()))?;
        let renewed = stamped.executed.reply == Reply::Renewed;
        if renewed {
            let until = stamped.sent_at.after(ttl);
            coordinator.audit().stands_until(owner, until);
        } else if let Reply::Lost(loss) = stamped.executed.reply {
            coordinator.audit().lost_by_caller(&owner, loss);
        }
        let left = renewed.then(|| convert::wire_duration(left(stamped.sent_at.after(ttl), ttl)));
        Ok(Response::new(RenewResponse { renewed, ttl: left }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let followed = Followed::of(request.extensions());
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let owner = convert::owner_id("owner_id", &request.owner_id)?;
        rights.check(Permission::Acquire, Place::Lock, name.as_str())?;
        followed.script();
        let released = names::release(coordinator, &name, owner, rights.caller().identity()).await;
        let released = released.map_err(|refusal| rights.shown(refusal))?;
        Ok(Response::new(ReleaseResponse { released }))
    }
}

/// Returns the time for which a hold of the unary calls lasts from now, less the margin for clock drift.
fn left(stands_until: Moment, ttl: Duration) -> Duration {
    clock::now()
        .until(stands_until)
        .saturating_sub(drift_margin(ttl))
}

/// Returns the refusal of what would extend a hold that may not last longer than its first TTL.
fn bounded(name: &str, max_hold: Duration, why: &str) -> Refusal {
    let message = format!(
        "a hold of {name:?} may last {} at most, by the max-hold of the coordinator's [[permission]], and {why}",
        InUnits(max_hold)
    );
    Refusal::new(Reason::PermissionDenied, message)
        .with("permission", Permission::Acquire.as_str())
        .with("name", name)
}

fn stopping() -> Refusal {
    Refusal::new(
        Reason::Draining,
        "the coordinator is stopping; try another one",
    )
}
