//! Observers of a scripted coordinator, which sends what a real one sends only in trouble.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use leasehold_client::{Admin, FailureKind, FencingToken, Observer};
use leasehold_proto::v1::{
    self,
    election_service_server::{ElectionService, ElectionServiceServer},
};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

use super::next;
use crate::LIMIT;

/// Responses to one call of `Observe`. Unless the last is an error, the call stays open.
type Script = Vec<Result<v1::ObserveResponse, Status>>;

/// Election service that sends the scripted messages, and refuses later calls for the time being.
#[derive(Clone, Default)]
struct Scripted {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    calls: Arc<AtomicUsize>,
}

type Told = Pin<Box<dyn Stream<Item = Result<v1::ObserveResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ElectionService for Scripted {
    type CampaignStream = stream::Empty<Result<v1::CampaignResponse, Status>>;
    type ObserveStream = Told;

    async fn campaign(
        &self,
        _: Request<Streaming<v1::CampaignRequest>>,
    ) -> Result<Response<Self::CampaignStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn leader(
        &self,
        _: Request<v1::LeaderRequest>,
    ) -> Result<Response<v1::LeaderResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn observe(
        &self,
        _: Request<v1::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let script = self.scripts.lock().unwrap().pop_front();
        let script = script.ok_or_else(|| Status::unavailable("nothing more to say"))?;
        let told = stream::iter(script).chain(stream::pending());
        Ok(Response::new(Box::pin(told)))
    }
}

/// Returns the service, an observer of it, and the task that serves.
async fn observer(scripts: impl Into<VecDeque<Script>>) -> (Scripted, Observer, JoinHandle<()>) {
    let service = Scripted {
        scripts: Arc::new(Mutex::new(scripts.into())),
        ..Scripted::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().add_service(ElectionServiceServer::new(service.clone()));
    let serving = tokio::spawn(async move {
        let incoming = TcpListenerStream::new(listener);
        server.serve_with_incoming(incoming).await.unwrap();
    });
    let observer = Admin::connect(endpoint).unwrap().observe("e");
    (service, observer, serving)
}

fn leads(token: i64) -> Result<v1::ObserveResponse, Status> {
    Ok(v1::ObserveResponse {
        leader: Some(v1::Leader {
            fencing_token: token,
            ..Default::default()
        }),
        skipped: false,
    })
}

/// Returns the token, 0 for no leader, and whether something was skipped.
async fn told(observer: &mut Observer) -> (i64, bool) {
    let change = next(observer).await;
    let token = change.leader.and_then(|leader| leader.fencing_token);
    let token = token.map_or(0, FencingToken::get);
    (token, change.skipped)
}

#[tokio::test]
async fn it_asks_again_whatever_breaks_and_never_goes_back() {
    let codes = [
        Status::unavailable("going away"),
        Status::cancelled("by somebody in between"),
        Status::unknown("transport error"),
        Status::internal("h2 protocol error"),
        Status::deadline_exceeded("too slow"),
        Status::resource_exhausted("too many"),
    ];
    let mut scripts = VecDeque::new();
    for (number, status) in codes.into_iter().enumerate() {
        // Each begins with who led before the one that was told last.
        let newest = 10 * (number as i64 + 1);
        scripts.push_back(vec![leads(newest - 5), leads(newest), Err(status)]);
    }
    let count = scripts.len();
    let (service, mut observer, _serving) = observer(scripts).await;
    assert_eq!(told(&mut observer).await, (5, false));
    assert_eq!(told(&mut observer).await, (10, false));
    for number in 1..count as i64 {
        assert_eq!(told(&mut observer).await, (10 * number + 5, true));
        assert_eq!(told(&mut observer).await, (10 * number + 10, false));
    }
    // Refused for the time being: not an error, and said nothing of.
    while service.calls.load(Ordering::SeqCst) < count + 2 {
        let told = timeout(Duration::from_millis(100), observer.next()).await;
        assert!(told.is_err(), "{told:?}");
    }
    assert!(observer.interruption().is_some());
    // Another coordinator, which is behind, and then one that is not.
    let behind = vec![leads(20), leads(30), Err(Status::unavailable(""))];
    let scripts = [behind, vec![leads(60), leads(70)]];
    service.scripts.lock().unwrap().extend(scripts);
    assert_eq!(told(&mut observer).await, (70, true));
    assert!(observer.interruption().is_none());
}

#[tokio::test]
async fn a_final_refusal_is_reported_once() {
    for (status, kind) in [
        (
            Status::invalid_argument("bad name"),
            FailureKind::InvalidArgument,
        ),
        (
            Status::unimplemented("an older coordinator"),
            FailureKind::Unimplemented,
        ),
        (
            Status::permission_denied("not for you"),
            FailureKind::PermissionDenied,
        ),
    ] {
        let (service, mut observer, _serving) =
            observer([vec![leads(1), Err(status)], vec![leads(2)]]).await;
        assert_eq!(told(&mut observer).await, (1, false));
        let refused = timeout(LIMIT, observer.next()).await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err().kind(), kind);
        assert!(observer.next().await.is_none());
        // As a stream, too.
        assert!(StreamExt::next(&mut observer).await.is_none());
        assert_eq!(service.calls.load(Ordering::SeqCst), 1);
    }
}
