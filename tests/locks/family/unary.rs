//! The unary calls, shared and with permits of a semaphore.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, LockMode, ReleaseRequest, RenewRequest,
    SessionAcquire, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Site,
    raw::{PROMPT, exclusive, parse, semaphore, wire},
    site::everywhere,
};
use tonic::transport::Channel;

const TTL: Duration = Duration::from_secs(2);
/// Of what is not to run out.
const LONG: Duration = Duration::from_secs(60);

type Client = LockServiceClient<Channel>;

fn reads(name: &str, wait: Duration) -> AcquireRequest {
    AcquireRequest {
        name: name.to_owned(),
        ttl: wire(TTL),
        wait: wire(wait),
        mode: LockMode::Shared.into(),
        client_name: "unary".to_owned(),
        ..AcquireRequest::default()
    }
}

fn takes(name: &str, permits: u32, wait: Duration) -> AcquireRequest {
    AcquireRequest {
        mode: LockMode::Semaphore.into(),
        permits,
        limit: 3,
        ..reads(name, wait)
    }
}

async fn acquire(client: &mut Client, request: AcquireRequest) -> AcquireResponse {
    client.acquire(request).await.unwrap().into_inner()
}

async fn granted(client: &mut Client, request: AcquireRequest) -> Vec<u8> {
    let response = acquire(client, request).await;
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
    let request = ReleaseRequest {
        name: name.to_owned(),
        owner_id: owner_id.to_vec(),
    };
    client.release(request).await.unwrap().into_inner().released
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_go_together_are_renewed_and_released_each_by_itself() {
    everywhere(async |site| {
        let reads = || reads("unary/read", Duration::ZERO);
        let takes = |permits| takes("unary/permits", permits, Duration::ZERO);
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
    let [first, second] = [first, second].map(|request| AcquireRequest {
        ttl: wire(LONG),
        ..request
    });
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

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_are_served_in_their_turn() {
    everywhere(async |site| {
        let wait = Duration::from_millis(600);
        tokio::join!(
            served(
                site,
                exclusive("wait/read"),
                reads("wait/read", LONG),
                reads("wait/read", wait),
            ),
            served(
                site,
                semaphore("wait/permits", 2, 3),
                takes("wait/permits", 2, LONG),
                takes("wait/permits", 3, wait),
            ),
        );
    })
    .await;
}

async fn served(site: &Site, held: SessionAcquire, waits: AcquireRequest, late: AcquireRequest) {
    let name = &waits.name;
    let wait = parse(late.wait);
    let mut holder = site.session(0).await;
    let held = holder.take_one(held).await;
    let asked = Instant::now();
    let answer = acquire(&mut site.unary(1), late).await;
    assert!(asked.elapsed() >= wait);
    assert_eq!(answer.outcome(), AcquireOutcome::TimedOut, "{answer:?}");
    let by = answer.holder.map(|holder| holder.fencing_token);
    assert_eq!(by, Some(held.fencing_token));

    let (mut here, mut there) = (site.unary(0), site.unary(1));
    let (one, two, ()) = tokio::join!(
        acquire(&mut here, waits.clone()),
        acquire(&mut there, waits.clone()),
        async {
            let view = site
                .seen(0, name, "two waiters", |view| view.waiter_count == 2)
                .await;
            assert_eq!(view.waiters[0].permits, waits.permits, "{view:?}");
            assert_eq!(view.waiters[0].mode(), waits.mode());
            assert!(holder.release(&held).await);
            if waits.permits > 0 {
                // There is room for one at a time.
                let view = site
                    .seen(0, name, "one waiter", |view| view.waiter_count == 1)
                    .await;
                assert_eq!(view.permits_taken, 2, "{view:?}");
            }
        },
    );
    // The second of the semaphore's comes when the first one's TTL has passed.
    for answer in [one, two] {
        assert_eq!(answer.outcome(), AcquireOutcome::Granted, "{answer:?}");
    }
    site.free(name).await;
}
