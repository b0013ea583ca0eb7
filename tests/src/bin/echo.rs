//! The limit of a lease stream: answers every request at once, with neither locks nor a store behind it.
//!
//! Says `grpc=ADDRESS` when it listens.
#![expect(clippy::print_stdout, reason = "the address is the program's output")]

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use futures_util::{Stream, StreamExt};
use leasehold_proto::v1::{
    AcquireRequest, AcquireResponse, GrantedLock, ReleaseRequest, ReleaseResponse, RenewRequest,
    RenewResponse, SessionGranted, SessionOpened, SessionReleased, SessionRequest, SessionResponse,
    lock_service_server::{LockService, LockServiceServer},
    session_request::Request as Asked,
    session_response::Response as Said,
};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

#[derive(Clone, Default)]
struct Echo {
    tokens: Arc<AtomicI64>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let incoming =
        TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?.with_nodelay(Some(true));
    println!("grpc={}", incoming.local_addr()?);
    Server::builder()
        .add_service(LockServiceServer::new(Echo::default()))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

impl Echo {
    fn answer(&self, message: SessionRequest) -> SessionResponse {
        let response = match message.request {
            Some(Asked::Open(_)) => Some(Said::Opened(SessionOpened::default())),
            Some(Asked::Acquire(acquire)) => Some(Said::Granted(SessionGranted {
                locks: vec![GrantedLock {
                    name: acquire.name,
                    owner_id: vec![7; 16],
                    fencing_token: self.tokens.fetch_add(1, Ordering::Relaxed) + 1,
                    hold_count: 1,
                    permits: 0,
                }],
                ..SessionGranted::default()
            })),
            Some(Asked::Release(_)) => Some(Said::Released(SessionReleased {
                released: true,
                ..SessionReleased::default()
            })),
            _ => None,
        };
        SessionResponse {
            request_id: message.request_id,
            response,
        }
    }
}

#[tonic::async_trait]
impl LockService for Echo {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let echo = self.clone();
        let answers = request
            .into_inner()
            .map(move |message| message.map(|message| echo.answer(message)));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn acquire(
        &self,
        _: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        Err(Status::unimplemented("the echo serves streams only"))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(Status::unimplemented("the echo serves streams only"))
    }

    async fn release(
        &self,
        _: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        Err(Status::unimplemented("the echo serves streams only"))
    }
}
