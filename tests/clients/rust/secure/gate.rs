//! Scripted coordinator that answers callers as a real one does only in trouble. It grants everything else.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures_util::Stream;
use leasehold_proto::v1::{
    self,
    lock_service_server::{LockService, LockServiceServer},
    session_request::Request as Asked,
    session_response::Response as Said,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};

/// Record of the requests, and the responses to give.
#[derive(Clone)]
pub(crate) struct Gate {
    state: Arc<Mutex<State>>,
    /// The number of times that all streams have been ended.
    cut: watch::Sender<u32>,
    _serving: Arc<Serving>,
}

#[derive(Default)]
struct State {
    /// With which credentials sessions were asked for.
    seen: Vec<String>,
    /// The only credentials to accept; `None` accepts any.
    taken: Option<String>,
    /// The error with which every session is refused.
    refusal: Option<Status>,
}

struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gate {
    /// Starts it, and tells where it serves.
    pub(crate) async fn open() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (state, cut) = (Arc::default(), watch::Sender::new(0));
        let service = Service {
            state: Arc::clone(&state),
            cut: cut.clone(),
        };
        let server = Server::builder().add_service(LockServiceServer::new(service));
        let serving = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        let gate = Self {
            state,
            cut,
            _serving: Arc::new(Serving(serving)),
        };
        (gate, endpoint)
    }

    /// Returns the credentials with which sessions were asked for.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Accepts only these credentials from now on.
    pub(crate) fn take(&self, authorization: &str) {
        self.state.lock().unwrap().taken = Some(authorization.to_owned());
    }

    /// Refuses every session from now on, or none.
    pub(crate) fn refuse(&self, refusal: Option<Status>) {
        self.state.lock().unwrap().refusal = refusal;
    }

    /// Ends all streams: it does not know any more who is there.
    pub(crate) fn disown(&self) {
        self.cut.send_modify(|cut| *cut += 1);
    }
}

struct Service {
    state: Arc<Mutex<State>>,
    cut: watch::Sender<u32>,
}

impl Service {
    fn look<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let shown = request.metadata().get("authorization");
        let shown = shown.map_or("", |shown| shown.to_str().unwrap()).to_owned();
        let mut state = self.state.lock().unwrap();
        state.seen.push(shown.clone());
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        match &state.taken {
            Some(taken) if *taken != shown => Err(Status::unauthenticated("nobody we know")),
            _ => Ok(()),
        }
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<v1::SessionResponse, Status>> + Send>>;

#[tonic::async_trait]
impl LockService for Service {
    type SessionStream = Answers;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Answers>, Status> {
        self.look(&request)?;
        let (sender, answers) = mpsc::channel(16);
        let mut cut = self.cut.subscribe();
        let mut asked = request.into_inner();
        tokio::spawn(async move {
            loop {
                let answer = tokio::select! {
                    _ = cut.changed() => {
                        let status = Status::unauthenticated("your identity has expired");
                        sender.send(Err(status)).await.ok();
                        return;
                    }
                    request = asked.message() => match request {
                        Ok(Some(request)) => answer(request),
                        _ => return,
                    },
                };
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        self.look(&request)?;
        Ok(Response::new(v1::AcquireResponse::default()))
    }

    async fn renew(
        &self,
        _: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn release(
        &self,
        _: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

fn duration(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn answer(request: v1::SessionRequest) -> v1::SessionResponse {
    let said = match request.request.unwrap() {
        Asked::Open(open) => Said::Opened(v1::SessionOpened {
            session_id: "s".to_owned(),
            coordinator: "gate".to_owned(),
            ttl: duration(10),
            heartbeat_interval: duration(3),
            valid_for: duration(9),
            resumed: open.resume.into_iter().map(resumed).collect(),
            ..Default::default()
        }),
        Asked::Acquire(acquire) if acquire.name == "denied" => Said::Error(v1::SessionFailure {
            code: Code::PermissionDenied.into(),
            reason: "PERMISSION_DENIED".to_owned(),
            metadata: [("permission".to_owned(), "acquire".to_owned())].into(),
            ..Default::default()
        }),
        Asked::Acquire(acquire) if acquire.name == "limited" => Said::Error(v1::SessionFailure {
            code: Code::ResourceExhausted.into(),
            reason: "TOO_MANY_LOCKS".to_owned(),
            ..Default::default()
        }),
        Asked::Acquire(acquire) => Said::Granted(v1::SessionGranted {
            locks: vec![v1::GrantedLock {
                name: acquire.name,
                owner_id: vec![7; 16],
                fencing_token: 42,
                hold_count: 1,
                permits: 0,
            }],
            valid_for: duration(9),
            acked_heartbeat: 0,
            bounded: Vec::new(),
        }),
        Asked::Heartbeat(heartbeat) => Said::Heartbeat(v1::SessionHeartbeatAck {
            acked_heartbeat: heartbeat.sequence,
            valid_for: duration(9),
            next_within: None,
        }),
        Asked::Close(_) => Said::Closed(v1::SessionClosed {}),
        _ => Said::Released(v1::SessionReleased {
            released: true,
            hold_count: 0,
        }),
    };
    v1::SessionResponse {
        request_id: request.request_id,
        response: Some(said),
    }
}

fn resumed(resume: v1::SessionResume) -> v1::ResumedLock {
    let what = match resume.what.unwrap() {
        v1::session_resume::What::Hold(hold) => v1::resumed_lock::What::Hold(hold),
        v1::session_resume::What::Wait(_) => v1::resumed_lock::What::Position(1),
    };
    v1::ResumedLock {
        name: resume.name,
        owner_id: resume.next_owner_id,
        what: Some(what),
        ends_in: None,
        permits: 0,
    }
}
