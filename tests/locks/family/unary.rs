//! The unary calls, shared and with permits of a semaphore.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, LockMode, RenewRequest, SessionAcquire,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Site,
    raw::{PROMPT, exclusive, parse, release_request, semaphore, wire},
    site::everywhere,
};
use tonic::transport::Channel;

const TTL: Duration = Duration::from_secs(2);
/// Of what is not to run out.
const LONG: Duration = Duration::from_secs(60);

type Client = LockServiceClient<Channel>;

fn reads(name: &str) -> AcquireRequest {
    AcquireRequest {
        name: name.to_owned(),
        ttl: wire(LONG),
        mode: LockMode::Shared.into(),
        client_name: "unary".to_owned(),
        ..AcquireRequest::default()
    }
}

fn takes(name: &str, permits: u32) -> AcquireRequest {
    AcquireRequest {
        mode: LockMode::Semaphore.into(),
        permits,
        limit: 3,
        ..reads(name)
    }
}

async fn granted(client: &mut Client, request: AcquireRequest) -> Vec<u8> {
    let response = client.acquire(request).await.unwrap().into_inner();
    assert_eq!(response.outcome(), AcquireOutcome::Granted, "{response:?}");
    assert!(response.fencing_token > 0);
    response.owner_id
}

async fn renew(client: &mut Client, name: &str, owner_id: &[u8], ttl: Duration) -> bool {
    let request = RenewRequest {
        name: name.to_owned(),
        owner_id: owner_id.to_vec(),
        ttl: wire(ttl),
    };
    let response = client.renew(request).await.unwrap().into_inner();
    assert_eq!(response.ttl.is_some(), response.renewed, "{response:?}");
    response.renewed
}

async fn release(client: &mut Client, name: &str, owner_id: &[u8]) -> bool {
    let request = release_request(name, owner_id);
    client.release(request).await.unwrap().into_inner().released
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_go_together_are_renewed_and_released_each_by_itself() {
    everywhere(async |site| {
        let reads = || reads("unary/read");
        let takes = |permits| takes("unary/permits", permits);
        tokio::join!(
            together(site, reads(), reads(), exclusive("unary/read")),
            together(site, takes(1), takes(2), semaphore("unary/permits", 1, 3)),
        );
    })
    .await;
}

async fn together(
    site: &Site,
    first: AcquireRequest,
    second: AcquireRequest,
    blocked: SessionAcquire,
) {
    let (mut here, mut there) = (site.unary(0), site.unary(1));
    let name = &first.name.clone();
    let first = granted(&mut here, first).await;
    let second = granted(&mut there, second).await;
    let view = site.view(1, name).await;
    assert_eq!(view.holder_count, 2, "{view:?}");
    for holder in &view.holders {
        assert_eq!(holder.session_id, "");
        assert_eq!(holder.client_name, "unary");
        assert!(parse(holder.ttl) <= LONG);
    }
    assert!(!site.is_free_for(0, blocked.clone()).await);

    // Each at the other coordinator, and one for a short time alone, which runs out.
    assert!(renew(&mut there, name, &first, LONG * 2).await);
    assert!(renew(&mut here, name, &second, TTL).await);
    let view = site
        .seen(0, name, "one holder", |view| view.holder_count == 1)
        .await;
    assert!(parse(view.holders[0].ttl) > LONG, "{view:?}");
    assert!(!renew(&mut here, name, &second, TTL).await);
    assert!(!release(&mut here, name, &second).await);
    assert!(!renew(&mut here, name, &[7; 16], TTL).await);

    let mut session = site.session(0).await;
    let id = session.ask_for(blocked).await;
    assert!(release(&mut there, name, &first).await);
    session.granted_all(id, PROMPT).await;
    assert!(!release(&mut there, name, &first).await);
    session.close().await;
}
