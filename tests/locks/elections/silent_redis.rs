//! Redis that accepts everything and answers nothing: every request ends in time, and leaders step down.

use std::time::{Duration, Instant};

use crate::LATE;
use futures_util::future::join_all;
use leasehold_client::LostReason;
use leasehold_proto::v1::{
    LeaderRequest, ObserveRequest, campaign_response::Response,
    election_service_client::ElectionServiceClient,
};
use leasehold_tests::{
    Coordinator, FaultProxy, RawCandidate, Site, raw, raw::PROMPT, report, site::TTL,
};
use tokio::net::TcpListener;
use tonic::{Code, Status, transport::Channel};

const SHORT: Duration = Duration::from_secs(2);
/// An operation is two commands at most, each of which is given up after the default `store-timeout` of a second.
const BOUND: Duration = Duration::from_millis(2_500);

/// Runs a request, and prints its name and duration.
async fn timed<T>(what: &str, asked: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let ended = tokio::time::timeout(BOUND, asked).await;
    let ended = ended.unwrap_or_else(|_| panic!("{what} did not end within {BOUND:?}"));
    report(format!(
        "{what} against a Redis that does not answer: {:?}",
        began.elapsed()
    ));
    ended
}

fn unavailable(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

async fn campaign(channel: Channel) {
    let campaign = RawCandidate::try_campaign(channel, "silent/new", b"", TTL);
    unavailable(&timed("campaign", campaign).await.unwrap_err());
}

async fn leader(channel: Channel) {
    let mut elections = ElectionServiceClient::new(channel);
    let election = "silent/led".to_owned();
    let answer = timed("leader", elections.leader(LeaderRequest { election })).await;
    unavailable(&answer.unwrap_err());
}

/// Checks that a new observer of an election that no one observes gets no message, or a refusal.
async fn observe(channel: Channel, has_to_be_refused: bool) {
    let mut elections = ElectionServiceClient::new(channel);
    let election = "silent/unseen".to_owned();
    match timed("observe", elections.observe(ObserveRequest { election })).await {
        Ok(told) => {
            assert!(!has_to_be_refused);
            let told = tokio::time::timeout(Duration::ZERO, told.into_inner().message()).await;
            assert!(told.is_err(), "{told:?}");
        }
        Err(status) => unavailable(&status),
    }
}

/// Returns whether anything was resigned is not known.
async fn resign(mut candidate: RawCandidate) {
    candidate.ask_resign().await;
    let (_, end) = timed("resign", candidate.next(PROMPT)).await;
    match end {
        Err(status) => unavailable(&status),
        Ok(Some(Response::Resigned(resigned))) => assert!(!resigned.led),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_ends_in_time_and_leaders_step_down() {
    let mut site = Site::redis(0).await;
    let redis = site.server().address();
    let proxy = FaultProxy::start(redis).await;
    for address in [proxy.address(), redis] {
        site.add(address, &["--store-timeout=1s"]).await;
    }
    let channel = || site.channel(0);
    let mut observer = site.observer(0, "silent/led").await;
    let mut led = RawCandidate::campaign(channel(), "silent/led", b"old", SHORT).await;
    led.elected(LATE).await;
    let client = site.client(0, SHORT).await;
    let leadership = client.election("silent/client").campaign("old").await;
    let leadership = leadership.unwrap();
    let mut resigns = site.candidate(0, "silent/resigns", b"").await;
    resigns.elected(LATE).await;
    let client_resigns = client.election("silent/client resigns").campaign("").await;
    let client_resigns = client_resigns.unwrap();
    let mut next = site.candidate(1, "silent/led", b"new").await;
    let mut client_next = site.candidate(1, "silent/client", b"new").await;
    observer.until(LATE, |seen| seen.leader.is_some()).await;

    proxy.black_hole();
    let asked = async {
        tokio::join!(
            campaign(channel()),
            leader(channel()),
            observe(channel(), false),
            resign(resigns),
            timed("the client's campaign", async {
                let election = client.election("silent/client new");
                let campaign = election.wait(Duration::from_secs(1)).campaign("");
                campaign.await.unwrap_err();
            }),
            timed("the client's resign", client_resigns.resign()),
        )
    };
    let lost = async {
        let lost = leadership.lost().await;
        (lost, Instant::now())
    };
    let (asked, lost, term, client_term) = tokio::join!(
        asked,
        lost,
        next.elected(SHORT + LATE),
        client_next.elected(SHORT + LATE)
    );
    asked.5.unwrap_err();
    let (reason, lost_at) = lost;
    assert_eq!(reason, LostReason::Expired);
    let margin = |elected: Instant, until: Instant| {
        assert!(elected >= until, "two led for {:?}", until - elected);
        elected - until
    };
    report(format!(
        "a leader whose coordinator can't reach Redis stepped down {:?} before the next led; the client's knew {:?} before",
        margin(term.at, led.good_until().expect("it led")),
        margin(client_term.at, lost_at),
    ));

    // By now the coordinator knows.
    join_all([0, 1].map(async |_| {
        tokio::join!(
            campaign(channel()),
            leader(channel()),
            observe(channel(), true)
        )
    }))
    .await;

    // And when Redis is back, it goes on.
    proxy.forward();
    let seen = observer.leads(term.token, PROMPT).await;
    assert!(seen.skipped, "it could not follow: {seen:?}");
    assert_eq!(seen.value(), Some(&b"new"[..]));
    assert!(next.resign().await);
    let mut last = site.candidate(0, "silent/led", b"last").await;
    let last_term = last.elected(LATE).await;
    assert!(last_term.token > term.token);
    assert!(last.resign().await);
    assert!(client_next.resign().await);
    client.close().await;
    drop((observer, led, leadership));
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_never_had_an_answer_refuses_in_time() {
    // Connections are accepted by the kernel, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = format!("redis://{}", silent.local_addr().unwrap());
    let coordinator = Coordinator::process().store(store).start_unready();
    let channel = raw::connect(&coordinator.endpoint()).await;
    tokio::join!(
        campaign(channel.clone()),
        leader(channel.clone()),
        observe(channel, true)
    );
}
