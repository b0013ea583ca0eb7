//! `AdminService`: listings, force-release and status, for operators.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::stream;
use leasehold_core::{
    command::{One, Op},
    ended::{EndedCount, Mark},
    name::{LockName, MAX_NAME},
};
use leasehold_proto::v1::{
    CheckTokenRequest, CheckTokenResponse, EndSessionRequest, EndSessionResponse,
    ForceReleaseRequest, ForceReleaseResponse, GetLockRequest, GetLockResponse, GetStatusRequest,
    GetStatusResponse, ListLocksRequest, ListLocksResponse, ListSessionsRequest,
    ListSessionsResponse, LockView, RequestReleaseRequest, RequestReleaseResponse, SessionView,
    WatchLocksRequest, WatchLocksResponse, admin_service_server::AdminService,
};
use leasehold_store::{Page, clock};
use prost::Message as _;
use tokio::{sync::oneshot, time::timeout};
use tonic::{Extensions, Request, Response, Status};

use super::{
    ending::{self, Ending},
    listing::{Listings, SHOWN_WAITERS},
    names,
    server_stream::{self, ServerStream},
    status::StatusSources,
    streams::{Streams, draining},
};
use crate::{
    access::{
        Caller, Rights,
        rules::{Granted, Permission, Place},
    },
    audit::{Action, Operator},
    convert,
    layered::Kept,
    listener::ConnectionHandle,
    sessions::SessionInfo,
    status::{Reason, Refusal},
    watch::Watching,
};

/// Names that are listed at a time, of which a page has as many as fit.
const PART: usize = 16;
/// Longest time for which a caller's listing keeps its turn. Answers that nobody reads are kept for longer.
const LONGEST_TURN: Duration = Duration::from_secs(60);
/// Bytes after which a page of a listing ends.
const MOST_BYTES: usize = 1 << 20;
/// What a listing shows of a lock.
const LISTED: Op = Op::View {
    waiters: 0,
    value_bytes: convert::LISTED_VALUE,
};

/// Carries an operator's action out to its end, with its lines in the log and the audit log, though its caller goes away meanwhile.
async fn to_its_end<T: Send + 'static>(
    action: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let carried_out = tokio::spawn(action).await;
    carried_out.unwrap_or_else(|_| Err(names::unexpected("an operator's action")))
}

/// Returns the operator of a request, as far as it is known.
fn operator(extensions: &Extensions, caller: &Caller) -> Operator {
    let connection = extensions.get::<ConnectionHandle>();
    Operator {
        identity: caller.identity().map(str::to_owned),
        peer: connection.map(ConnectionHandle::peer_addr),
    }
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
        let turn = self.turn(&rights).await;
        let mut answer = ListLocksResponse {
            locks: Vec::new(),
            next_page_token: request.page_token.clone(),
        };
        // As many names as a page may have, and as many bytes.
        let (mut seen, mut bytes) = (0, 0);
        while seen < size && bytes < MOST_BYTES {
            let token = answer.next_page_token;
            let part = PART.min(size - seen);
            let page = self.visible((&request.prefix, token), part, rights.granted());
            let Page { names, next } = page.await.map_err(|refusal| rights.shown(refusal))?;
            let coordinator = &self.streams.coordinator;
            let views = self.listings.views(coordinator, &names, &LISTED).await;
            let views = views.map_err(|refusal| rights.shown(refusal))?;
            for (name, view) in names.iter().zip(views) {
                let Some(view) = view else { continue };
                // A lock that came free since it was found is not listed.
                if view.holder_count > 0 || view.closed_for.is_some() || view.waiter_count > 0 {
                    let lock = convert::lock_view(name, &view);
                    bytes += lock.encoded_len();
                    answer.locks.push(lock);
                }
            }
            // A part without locks was looked for all the same.
            seen += names.len().max(part);
            answer.next_page_token = next;
            if answer.next_page_token.is_empty() {
                break;
            }
        }
        Ok(with(turn, answer))
    }

    async fn get_lock(
        &self,
        request: Request<GetLockRequest>,
    ) -> Result<Response<GetLockResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let name = convert::lock_name("name", &request.get_ref().name, coordinator.store())?;
        rights.check(Permission::Inspect, Place::Either, name.as_str())?;
        let turn = self.turn(&rights).await;
        let view = self
            .listings
            .view(coordinator, &name, &Op::view(SHOWN_WAITERS))
            .await;
        let view = view.map_err(|refusal| rights.shown(refusal))?;
        let mut lock = convert::lock_view(&name, &view);
        self.add_peers(&mut lock, &rights);
        let lock = Some(lock);
        Ok(with(turn, GetLockResponse { lock }))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        let request = request.into_inner();
        let size = convert::page_size("page_size", request.page_size, self.max_page_size())?;
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(convert::parse_session(token).ok_or_else(|| {
                Refusal::field("page_token", "must be what the page before gave")
            })?),
        };
        let turn = self.turn(&rights).await;
        let sessions = &self.streams.sessions;
        let page = sessions.page(after, size + 1, |session| may_see(&rights, session));
        let mut answer = ListSessionsResponse::default();
        let mut bytes = 0;
        for info in &page {
            if answer.sessions.len() == size || bytes >= MOST_BYTES {
                let last = answer.sessions.last();
                answer.next_page_token = last.map_or_else(String::new, |it| it.session_id.clone());
                break;
            }
            let session = self.session_view(info);
            bytes += session.encoded_len();
            answer.sessions.push(session);
        }
        Ok(with(turn, answer))
    }

    async fn watch_locks(
        &self,
        request: Request<WatchLocksRequest>,
    ) -> Result<Response<Self::WatchLocksStream>, Status> {
        let rights = self.streams.access.rights(request.extensions())?;
        let account = self.streams.account(request.extensions());
        let prefix = request.into_inner().prefix;
        check_prefix(&prefix)?;
        rights.check(Permission::Inspect, Place::Either, &prefix)?;
        server_stream::check_feeds(self.streams.coordinator.store())?;
        let place = self.streams.coordinator.limits().watcher(account)?;
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
        let by = operator(request.extensions(), rights.caller());
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let one = request.only.map(convert::forced_one).transpose()?;
        rights.check(Permission::Administer, Place::Either, name.as_str())?;
        let coordinator = coordinator.clone();
        let action = async move {
            let forced = names::force_release(&coordinator, &name, one).await;
            let released = forced.as_ref().map(|(released, _)| *released);
            let released = released.unwrap_or_else(may_have_happened);
            let identity = by.identity.as_deref();
            tracing::info!(lock = %name, only = ?one, released, by = identity, "force release");
            coordinator.audit().operator(Action {
                name: "force_release",
                lock: Some(name),
                only: one,
                session: None,
                by,
                has_effect: released,
            });
            forced
        };
        let forced = to_its_end(action).await;
        let (released, token) = forced.map_err(|refusal| rights.shown(refusal))?;
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
        let by = operator(request.extensions(), rights.caller());
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, coordinator.store())?;
        let only = convert::asked_holder("fencing_token", request.fencing_token)?;
        let asked = convert::release_request(&request)?;
        rights.check(Permission::Administer, Place::Either, name.as_str())?;
        let coordinator = coordinator.clone();
        let action = async move {
            let reason = asked.reason.as_str().to_owned();
            let counted = names::request_release(&coordinator, &name, only, asked).await;
            let asked_count = counted.as_ref().copied().unwrap_or(0);
            let identity = by.identity.as_deref();
            tracing::info!(lock = %name, ?only, reason, asked_count, by = identity, "request to release");
            let was_asked = counted.as_ref().map(|count| *count > 0);
            coordinator.audit().operator(Action {
                name: "request_release",
                lock: Some(name),
                only: only.map(One::Holder),
                session: None,
                by,
                has_effect: was_asked.unwrap_or_else(may_have_happened),
            });
            counted
        };
        let counted = to_its_end(action).await;
        let asked_count = counted.map_err(|refusal| rights.shown(refusal))?;
        Ok(Response::new(RequestReleaseResponse { asked_count }))
    }

    async fn end_session(
        &self,
        request: Request<EndSessionRequest>,
    ) -> Result<Response<EndSessionResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let id = convert::session_id("session_id", &request.get_ref().session_id)?;
        ending::check(rights.granted()).inspect_err(|refusal| rights.denied(refusal))?;
        let by = rights.caller().key();
        let operator = operator(request.extensions(), rights.caller());
        // One search at a time, however many its caller asks for.
        let account = coordinator.limits().account(rights.caller());
        let turn = Arc::clone(account.ending()).lock_owned().await;
        let ending = Ending {
            mark: Mark { session: id, by },
            granted: rights.granted().clone(),
            coordinator: coordinator.clone(),
            listings: self.listings.clone(),
        };
        let action = async move {
            let _turn = (account, turn);
            let ended = ending.end().await;
            let by = operator.identity.as_deref();
            match &ended {
                Ok((ended, denied)) => {
                    tracing::info!(session = %id, ?ended, by, "end of a session");
                    if let Some(refusal) = denied {
                        rights.denied(refusal);
                    }
                }
                Err(refusal) => {
                    let why = &refusal.message;
                    tracing::warn!(session = %id, by, why = %why, "failed to end a session; it may end yet");
                }
            }
            // Once it is marked, it ends, whatever fails then.
            let has_ended = match &ended {
                Ok((ended, _)) => *ended != EndedCount::default(),
                Err(refusal) => refusal.reason != Reason::TooManyEnded,
            };
            ending.coordinator.audit().operator(Action {
                name: "end_session",
                lock: None,
                only: None,
                session: Some(id),
                by: operator,
                has_effect: has_ended,
            });
            match ended.map_err(|refusal| rights.shown(refusal))? {
                (_, Some(denied)) => Err(denied),
                (ended, None) => Ok(ended),
            }
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
        let view = names::view(coordinator, &name, 0).await;
        let view = view.map_err(|refusal| rights.shown(refusal))?;
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
    /// Waits until the caller has a turn for a listing: until then, others of its own are made, or on their way to it.
    async fn turn(&self, rights: &Rights) -> Kept {
        let account = self.streams.coordinator.limits().account(rights.caller());
        // Nobody closes it.
        let turn = Arc::clone(account.listings()).acquire_owned().await;
        let (kept, sent) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _turn = (account, turn);
            let _ = timeout(LONGEST_TURN, sent).await;
        });
        Kept::new(kept)
    }

    fn max_page_size(&self) -> usize {
        self.streams.coordinator.limits().config().max_page_size
    }

    /// Returns the names of a page that the caller may see.
    async fn visible(
        &self,
        (prefix, mut token): (&str, String),
        size: usize,
        granted: &Granted,
    ) -> Result<Page, Refusal> {
        let is_seen =
            |name: &LockName| granted.permits(Permission::Inspect, Place::Either, name.as_str());
        loop {
            let store = self.streams.coordinator.store();
            let page = store.list(prefix, &token, size).await?;
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

    /// Adds the addresses of the lock's sessions that are here, as far as the caller may see these.
    fn add_peers(&self, lock: &mut LockView, rights: &Rights) {
        let peer = |id: &str| {
            let session = convert::parse_session(id).and_then(|id| self.streams.sessions.get(id));
            let seen = session.filter(|session| may_see(rights, session));
            seen.map_or_else(String::new, |session| session.peer.clone())
        };
        for holder in &mut lock.holders {
            holder.peer = peer(&holder.session_id);
        }
        for waiter in &mut lock.waiters {
            waiter.peer = peer(&waiter.session_id);
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

/// Returns whether the caller may see a session: its own, or all.
fn may_see(rights: &Rights, session: &SessionInfo) -> bool {
    let own = rights.caller().identity();
    rights.granted().sees_all() || own.is_some() && session.identity.as_deref() == own
}

/// Returns an answer that keeps a turn until it is sent.
fn with<T>(turn: Kept, answer: T) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(turn);
    response
}

fn check_prefix(prefix: &str) -> Result<(), Refusal> {
    if prefix.len() > MAX_NAME {
        let what = format!("must be at most {MAX_NAME} bytes, not {}", prefix.len());
        return Err(Refusal::field("prefix", what));
    }
    Ok(())
}
