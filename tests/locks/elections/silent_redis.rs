//! Redis that accepts everything and answers nothing: every request ends with a refusal.

use leasehold_proto::v1::{
    LeaderRequest, ObserveRequest, election_service_client::ElectionServiceClient,
};
use leasehold_tests::{
    Coordinator, RawCandidate,
    raw::{self, PROMPT},
    site::TTL,
};
use tokio::{net::TcpListener, time::timeout};
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_never_had_an_answer_refuses() {
    // Connections are accepted by the kernel, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = format!("redis://{}", silent.local_addr().unwrap());
    let coordinator = Coordinator::process().store(store).start_unready();
    let channel = raw::connect(&coordinator.endpoint()).await;
    let (mut leads, mut observes) = (
        ElectionServiceClient::new(channel.clone()),
        ElectionServiceClient::new(channel.clone()),
    );
    let election = "silent".to_owned();
    let (campaign, leader, observe) = tokio::join!(
        RawCandidate::try_campaign_as(channel, None, ("silent", b""), TTL),
        timeout(
            PROMPT,
            leads.leader(LeaderRequest {
                election: election.clone()
            })
        ),
        timeout(PROMPT, observes.observe(ObserveRequest { election })),
    );
    for status in [
        campaign.unwrap_err(),
        leader.unwrap().unwrap_err(),
        observe.unwrap().unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
}
