//! Unary acquires that are repeated with a request key, because their answers were lost.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, LockMode, ReleaseRequest,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Site,
    raw::{exclusive, wire},
    site::everywhere,
};
use tokio::task::JoinHandle;
use tonic::{Code, Response, Status, transport::Channel};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(60);
const KEY: &str = "a key of 18 bytes.";

fn request(name: &str, mode: LockMode) -> AcquireRequest {
    let is_semaphore = mode == LockMode::Semaphore;
    AcquireRequest {
        name: name.to_owned(),
        ttl: wire(TTL),
        wait: wire(TTL),
        mode: mode.into(),
        limit: if is_semaphore { 3 } else { 0 },
        client_name: "repeats".to_owned(),
        request_key: KEY.to_owned(),
        ..AcquireRequest::default()
    }
}

async fn release(mut client: LockServiceClient<Channel>, name: &str, owner_id: Vec<u8>) -> bool {
    let name = name.to_owned();
    let released = client.release(ReleaseRequest { name, owner_id }).await;
    released.unwrap().into_inner().released
}

type Waiting = JoinHandle<Result<Response<AcquireResponse>, Status>>;

/// Sends an acquire that waits; returns when as many do.
async fn begins(site: &Site, at: usize, request: AcquireRequest, number: u64) -> Waiting {
    let (mut client, name) = (site.unary(at), request.name.clone());
    let waiting = tokio::spawn(async move { client.acquire(request).await });
    let what = format!("{number} waiters");
    site.seen(0, &name, &what, |view| view.waiter_count == number)
        .await;
    waiting
}

/// The first goes on waiting, as if its coordinator did not know that its client is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_acquire_has_the_place_of_the_first() {
    everywhere(async |site| {
        for (name, mode) in [
            ("repeated/exclusive", LockMode::Exclusive),
            ("repeated/shared", LockMode::Shared),
            ("repeated/permits", LockMode::Semaphore),
        ] {
            let mut holder = site.session(0).await;
            let held = holder.take_one(exclusive(name)).await;
            let first = begins(site, 0, request(name, mode), 1).await;
            let other = AcquireRequest {
                request_key: String::new(),
                mode: LockMode::Exclusive.into(),
                limit: 0,
                client_name: "other".to_owned(),
                ..request(name, mode)
            };
            let other = begins(site, 1, other, 2).await;
            let mut again = site.unary(1);
            let again = tokio::spawn(async move { again.acquire(request(name, mode)).await });

            let status = first.await.unwrap().unwrap_err();
            assert_eq!(status.code(), Code::Aborted, "{status:?}");
            let info = status.get_error_details();
            let reason = info.error_info().map(|info| info.reason.clone());
            assert_eq!(reason.as_deref(), Some("REQUEST_REPEATED"));
            let view = site
                .seen(1, name, "two waiters", |view| view.waiter_count == 2)
                .await;
            let names: Vec<_> = view.waiters.iter().map(|it| &it.client_name).collect();
            assert_eq!(names, ["repeats", "other"]);

            assert!(holder.release(&held).await);
            let again = again.await.unwrap().unwrap().into_inner();
            assert_eq!(again.outcome(), AcquireOutcome::Granted);
            assert!(release(site.unary(0), name, again.owner_id).await);
            let other = other.await.unwrap().unwrap().into_inner();
            assert!(release(site.unary(0), name, other.owner_id).await);
            site.free(name).await;
            holder.close().await;
        }
    })
    .await;
}
