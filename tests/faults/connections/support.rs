//! A gRPC server on the listener, whose session handler reports how its stream ended.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::{
    AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
    SessionHeartbeat, SessionRequest, SessionResponse,
    lock_service_client::LockServiceClient,
    lock_service_server::{LockService, LockServiceServer},
    session_request,
};
use leasehold_server::{
    config::Config,
    listener::{ConnectionHandle, Connections, Ending, ListenerOptions, accept, http2_server},
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming, transport::Channel};

/// Anything that takes this long is taken not to happen.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(LONG, what).await.unwrap()
}

/// End of a session's request stream, as its handler saw it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) by_peer: bool,
    pub(crate) status: Option<Status>,
    pub(crate) connection: ConnectionHandle,
    /// The connection's ending at that moment.
    pub(crate) ending: Option<Ending>,
    pub(crate) messages: usize,
}

/// A session that has begun.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: ConnectionHandle,
    /// The channel to the client.
    pub(crate) outbound: mpsc::Sender<Result<SessionResponse, Status>>,
}

struct Reporter {
    begun: mpsc::UnboundedSender<Session>,
    ended: mpsc::UnboundedSender<Ended>,
}

#[tonic::async_trait]
impl LockService for Reporter {
    type SessionStream = ReceiverStream<Result<SessionResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let connection: ConnectionHandle = request.extensions().get().cloned().unwrap();
        let (outbound, responses) = mpsc::channel(16);
        let mut requests = request.into_inner();
        let (begun, ended) = (self.begun.clone(), self.ended.clone());
        begun
            .send(Session {
                connection: connection.clone(),
                outbound: outbound.clone(),
            })
            .unwrap();
        tokio::spawn(async move {
            let mut messages = 0;
            let status = loop {
                match requests.message().await {
                    Ok(Some(_)) => messages += 1,
                    Ok(None) => break None,
                    Err(status) => break Some(status),
                }
            };
            let ending = connection.ending();
            let by_peer = connection.peer_ended_stream(status.as_ref());
            // A test that does not listen any more is not interested.
            let _ = ended.send(Ended {
                by_peer,
                status,
                connection,
                ending,
                messages,
            });
            drop(outbound);
        });
        Ok(Response::new(ReceiverStream::new(responses)))
    }

    /// Never answers.
    async fn acquire(
        &self,
        _request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        std::future::pending().await
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(Status::unimplemented("renew"))
    }

    async fn release(
        &self,
        _: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        Ok(Response::new(ReleaseResponse::default()))
    }
}

/// A gRPC server in this process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Connections,
    pub(crate) shutdown: CancellationToken,
    pub(crate) begun: mpsc::UnboundedReceiver<Session>,
    pub(crate) ended: mpsc::UnboundedReceiver<Ended>,
    pub(crate) serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(config: &Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections::new();
        let shutdown = CancellationToken::new();
        let incoming = accept(
            listener,
            ListenerOptions::from(config),
            connections.clone(),
            shutdown.clone(),
        );
        let (begin, begun) = mpsc::unbounded_channel();
        let (end, ended) = mpsc::unbounded_channel();
        let service = LockServiceServer::new(Reporter {
            begun: begin,
            ended: end,
        });
        let serving = http2_server(config)
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
        let serving = tokio::spawn(async move { serving.await.unwrap() });
        Self {
            address,
            connections,
            shutdown,
            begun,
            ended,
            serving,
        }
    }
}

/// A client with a session that has sent one heartbeat.
pub(crate) struct Client {
    pub(crate) stub: LockServiceClient<Channel>,
    pub(crate) requests: mpsc::Sender<SessionRequest>,
    pub(crate) responses: Streaming<SessionResponse>,
}

impl Client {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{address}"))
            .unwrap()
            .connect()
            .await
            .unwrap();
        let mut stub = LockServiceClient::new(channel);
        let (requests, outbound) = mpsc::channel(16);
        requests.send(heartbeat()).await.unwrap();
        let responses = stub
            .session(ReceiverStream::new(outbound))
            .await
            .unwrap()
            .into_inner();
        Self {
            stub,
            requests,
            responses,
        }
    }

    /// Sends it something on its session, which goes on.
    pub(crate) async fn hears(&mut self, session: &Session) {
        assert_eq!(session.connection.ending(), None);
        let sent = session.outbound.send(Ok(SessionResponse::default()));
        sent.await.unwrap();
        soon(self.responses.message()).await.unwrap().unwrap();
    }
}

pub(crate) fn heartbeat() -> SessionRequest {
    SessionRequest {
        request_id: 1,
        request: Some(session_request::Request::Heartbeat(
            SessionHeartbeat::default(),
        )),
        ..SessionRequest::default()
    }
}
