//! `AdminService`: listings, force-release and status, for operators.

use std::sync::atomic::Ordering;

use futures_util::stream;
use leasehold_core::{
    ended::EndedCount,
    name::{LockName, MAX_NAME},
};
use leasehold_proto::v1::{
    CheckTokenRequest, CheckTokenResponse, EndSessionRequest, EndSessionResponse,
    ForceReleaseRequest, ForceReleaseResponse, GetLockRequest, GetLockResponse, GetStatusRequest,
    GetStatusResponse, ListLocksRequest, ListLocksResponse, ListSessionsRequest,
    ListSessionsResponse, RequestReleaseRequest, RequestReleaseResponse, SessionView,
    WatchLocksRequest, WatchLocksResponse, admin_service_server::AdminService,
};
use leasehold_store::{Page, clock};
use tonic::{Request, Response, Status};

use super::{
    ending::Ending,
    listing::{Listings, SHOWN_WAITERS},
    names,
    server_stream::{self, ServerStream},
    status::{StatusSources, sees_all},
    streams::{Streams, draining},
};
use crate::{
    access::rules::{Granted, Permission, Place},
    convert,
    sessions::SessionInfo,
    status::{Reason, Refusal},
    watch::Watching,
};

/// Carries an operator's action out to its end, with its lines in the log and the audit log, though its caller goes away meanwhile.
async fn to_its_end<T: Send + 'static>(
    action: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let carried_out = tokio::spawn(action).await;
    carried_out.unwrap_or_else(|_| Err(names::unexpected("an operator's action")))
}

/// Returns whether what failed may have happened: the audit log tells of it then.
fn may_have_happened(refusal: &Refusal) -> bool {
    matches!(
        refusal.reason,
        Reason::StoreIndeterminate | Reason::NotReplicated
    )
}

/// Implementation of `AdminService`.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The parts that the services share.
    pub streams: Streams,
    /// Reads of listings.
    pub listings: Listings,
    /// The hub of watchers.
    pub watching: Watching,
    /// Sources of the status.
    pub status: StatusSources,
}

#[tonic::async_trait]
impl AdminService for Admin {
    type WatchLocksStream = ServerStream<WatchLocksResponse>;

    async fn list_locks(
        &self,
        request: Request<ListLocksRequest>,
    ) -> Result<Response<ListLocksResponse>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        let request = request.into_inner();
        check_prefix(&request.prefix)?;
        let size = convert::page_size("page_size", request.page_size, self.max_page_size())?;
        let page = self.visible(&request, size, rights.granted()).await?;
        let views = self
            .listings
            .views(&self.streams.coordinator, &page.names, 0)
            .await?;
        let mut locks = Vec::with_capacity(views.len());
        for (name, view) in page.names.iter().zip(views) {
            let Some(view) = view else { continue };
            // A lock that came free since it was found is not listed.
            if view.holder_count > 0 || view.closed_for.is_some() || view.waiter_count > 0 {
                locks.push(convert::lock_view(name, &view));
            }
        }
        Ok(Response::new(ListLocksResponse {
            locks,
            next_page_token: page.next,
        }))
    }

    async fn get_lock(
        &self,
        request: Request<GetLockRequest>,
    ) -> Result<Response<GetLockResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let name = convert::lock_name("name", &request.get_ref().name, coordinator.store())?;
        rights.check(Permission::Inspect, Place::Either, name.as_str())?;
        let view = names::view(coordinator, &name, SHOWN_WAITERS).await?;
        let lock = Some(convert::lock_view(&name, &view));
        Ok(Response::new(GetLockResponse { lock }))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        let sees_all = sees_all(rights.granted());
        let own = rights.caller().identity();
        let is_seen =
            |info: &SessionInfo| sees_all || own.is_some() && info.identity.as_deref() == own;
        let request = request.into_inner();
        let size = convert::page_size("page_size", request.page_size, self.max_page_size())?;
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(convert::parse_session(token).ok_or_else(|| {
                Refusal::field("page_token", "must be what the page before gave")
            })?),
        };
        let mut page = self.streams.sessions.page(after, size + 1, is_seen);
        let more = page.len() > size;
        page.truncate(size);
        let next_page_token = match page.last() {
            Some(last) if more => last.id.to_string(),
            _ => String::new(),
        };
        let sessions = page.iter().map(|info| self.session_view(info)).collect();
        Ok(Response::new(ListSessionsResponse {
            sessions,
            next_page_token,
        }))
    }

    async fn watch_locks(
        &self,
        request: Request<WatchLocksRequest>,
    ) -> Result<Response<Self::WatchLocksStream>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        let prefix = request.into_inner().prefix;
        check_prefix(&prefix)?;
        rights.check(Permission::Inspect, Place::Either, &prefix)?;
        server_stream::check_feeds(self.streams.coordinator.store())?;
        let place = self.streams.coordinator.limits().watcher()?;
        let watcher = self.watching.watch(prefix.clone()).await;
        let watcher = watcher.ok_or_else(draining)?;
        let kept = (self.streams.coordinator.metrics().watchers.track(), place);
        let messages = stream::unfold((watcher, kept), |(mut watcher, kept)| async {
            let message = convert::watch_message(&watcher.next().await);
            Some((message, (watcher, kept)))
        });
        let lost = rights.lost(Permission::Inspect, Place::Either, prefix);
        let stream = server_stream::tell(messages, self.streams.shutdown.draining.clone(), lost);
        Ok(Response::new(stream))
    }

    async fn force_release(
        &self,
        request: Request<ForceReleaseRequest>,
    ) -> Result<Response<ForceReleaseResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let one = request.only.map(convert::forced_one).transpose()?;
        rights.check(Permission::Administer, Place::Either, name.as_str())?;
        let (coordinator, by) = (
            coordinator.clone(),
            rights.caller().identity().map(str::to_owned),
        );
        let action = async move {
            let forced = names::force_release(&coordinator, &name, one).await;
            let (by, released) = (
                by.as_deref(),
                forced.as_ref().map(|(released, _)| *released),
            );
            let released = released.unwrap_or_else(may_have_happened);
            tracing::info!(lock = %name, only = ?one, released, by, "force release");
            let audit = coordinator.audit();
            audit.operator("force_release", (Some(&name), None), by, released);
            forced
        };
        let (released, token) = to_its_end(action).await?;
        Ok(Response::new(ForceReleaseResponse {
            released,
            fencing_token: token.get(),
        }))
    }

    async fn request_release(
        &self,
        request: Request<RequestReleaseRequest>,
    ) -> Result<Response<RequestReleaseResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let only = convert::asked_holder("fencing_token", request.fencing_token)?;
        let asked = convert::release_request(&request)?;
        rights.check(Permission::Administer, Place::Either, name.as_str())?;
        let (coordinator, by) = (
            coordinator.clone(),
            rights.caller().identity().map(str::to_owned),
        );
        let action = async move {
            let reason = asked.reason.as_str().to_owned();
            let counted = names::request_release(&coordinator, &name, only, asked).await;
            let (by, asked_count) = (by.as_deref(), counted.as_ref().copied().unwrap_or(0));
            tracing::info!(lock = %name, ?only, reason, asked_count, by, "request to release");
            let was_asked = counted.as_ref().map(|count| *count > 0);
            let was_asked = was_asked.unwrap_or_else(may_have_happened);
            let audit = coordinator.audit();
            audit.operator("request_release", (Some(&name), None), by, was_asked);
            counted
        };
        let asked_count = to_its_end(action).await?;
        Ok(Response::new(RequestReleaseResponse { asked_count }))
    }

    async fn end_session(
        &self,
        request: Request<EndSessionRequest>,
    ) -> Result<Response<EndSessionResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let id = convert::session_id("session_id", &request.get_ref().session_id)?;
        let ending = Ending {
            id,
            coordinator: coordinator.clone(),
            listings: self.listings.clone(),
        };
        let checked = ending.check(rights.granted()).await;
        checked.inspect_err(|refusal| rights.denied(refusal))?;
        let by = rights.caller().identity().map(str::to_owned);
        let action = async move {
            let ended = ending.end().await;
            let by = by.as_deref();
            match &ended {
                Ok(ended) => tracing::info!(session = %id, ?ended, by, "end of a session"),
                Err(refusal) => {
                    let why = &refusal.message;
                    tracing::warn!(session = %id, by, why = %why, "failed to end a session; it may end yet");
                }
            }
            // Once it is marked, it ends, whatever fails then.
            let has_ended = match &ended {
                Ok(ended) => *ended != EndedCount::default(),
                Err(refusal) => refusal.reason != Reason::TooManyEnded,
            };
            let audit = ending.coordinator.audit();
            audit.operator("end_session", (None, Some(id)), by, has_ended);
            ended
        };
        let ended = to_its_end(action).await?;
        Ok(Response::new(EndSessionResponse {
            ended: ended != EndedCount::default(),
            session_count: ended.sessions,
            hold_count: ended.holds,
            waiter_count: ended.waiters,
        }))
    }

    async fn check_token(
        &self,
        request: Request<CheckTokenRequest>,
    ) -> Result<Response<CheckTokenResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        if request.fencing_token <= 0 {
            return Err(Refusal::field("fencing_token", "must be positive").into());
        }
        rights.check(Permission::Inspect, Place::Either, name.as_str())?;
        let view = names::view(coordinator, &name, 0).await?;
        let newest_token = view.token.map_or(0, |token| token.get());
        let current = newest_token == request.fencing_token;
        if !current {
            coordinator.metrics().fenced_refusals.inc();
        }
        Ok(Response::new(CheckTokenResponse {
            current,
            newest_token,
        }))
    }

    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        Ok(Response::new(self.status.status(&rights)))
    }
}

impl Admin {
    fn max_page_size(&self) -> usize {
        self.streams.coordinator.limits().config().max_page_size
    }

    /// Returns the names of a page that the caller may see.
    async fn visible(
        &self,
        request: &ListLocksRequest,
        size: usize,
        granted: &Granted,
    ) -> Result<Page, Refusal> {
        let is_seen =
            |name: &LockName| granted.permits(Permission::Inspect, Place::Either, name.as_str());
        let mut token = request.page_token.clone();
        loop {
            let page = self
                .streams
                .coordinator
                .store()
                .list(&request.prefix, &token, size)
                .await?;
            let mut page = page.map_err(|invalid| Refusal::field("page_token", invalid))?;
            // Some stores use a name as the token: a hidden name must not appear there either.
            let is_telling = page
                .names
                .last()
                .is_some_and(|last| last.as_str() == page.next && !is_seen(last));
            page.names.retain(is_seen);
            if !is_telling {
                return Ok(page);
            }
            if let Some(last) = page.names.last() {
                page.next = last.as_str().to_owned();
                return Ok(page);
            }
            token = page.next;
            // Lets other tasks run between long rows of hidden names.
            tokio::task::yield_now().await;
        }
    }

    fn session_view(&self, info: &SessionInfo) -> SessionView {
        SessionView {
            session_id: info.id.to_string(),
            client_name: info.client_name.as_str().to_owned(),
            peer: info.peer.clone(),
            identity: info.identity.as_deref().unwrap_or_default().to_owned(),
            coordinator: self.streams.coordinator.id().to_string(),
            ttl: Some(convert::wire_duration(info.ttl)),
            opened_at: Some(info.opened_at.into()),
            since_heartbeat: Some(convert::wire_duration(info.heard_at().until(clock::now()))),
            hold_count: info.holds.load(Ordering::Relaxed),
            waiter_count: info.waiters.load(Ordering::Relaxed),
            metadata: info.metadata.clone(),
        }
    }
}

fn check_prefix(prefix: &str) -> Result<(), Refusal> {
    if prefix.len() > MAX_NAME {
        let what = format!("must be at most {MAX_NAME} bytes, not {}", prefix.len());
        return Err(Refusal::field("prefix", what));
    }
    Ok(())
}
