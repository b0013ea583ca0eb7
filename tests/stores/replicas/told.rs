//! Heartbeats, which are answered without waiting for replicas. The coordinator reports later acknowledgements unasked.

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::raw::PROMPT;

use crate::replicas::site::{Site, TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_after_the_answer_to_a_heartbeat_are_sent_unasked() {
    let site = Site::start(1);
    let mut session = site.session(0).await;
    let lock = session.acquire("told").await.lock;
    let answered = session.heartbeat().await;
    // One of them finds the hold due, and has it renewed.
    session.keep_alive(TTL / 20);
    let told = session.unasked(PROMPT).await;
    assert!(matches!(told, Response::Heartbeat(_)), "{told:?}");
    assert!(session.good_until() > Some(answered));
    assert!(session.release(&lock).await);
    session.close().await;
}
