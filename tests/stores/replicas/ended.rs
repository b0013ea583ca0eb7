//! Connections that end while replicas are asked to acknowledge a write over them: it is then unknown whether the server that
//! acknowledges is the one that wrote.

use std::time::Duration;

use leasehold_tests::{raw::PROMPT, wait};

use crate::replicas::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_over_a_connection_that_ended_meanwhile_grant_nothing() {
    let site = Site::start(2);
    let mut session = site.session(0).await;
    let before = session.acquire("ended").await.lock;
    assert!(session.release(&before).await);
    site.stop_a_replica();
    let id = session.ask("ended", Some(Duration::ZERO)).await;
    let connections = wait::until("a WAIT to be under way", PROMPT, || {
        site.end_all_but_a_wait()
    })
    .await;
    // Each is dialled again as soon as its end was seen.
    wait::until("the connections to be there again", PROMPT, || async {
        let number = site.connections().await;
        if number >= connections {
            Ok(())
        } else {
            Err(number)
        }
    })
    .await;
    site.let_it_go_on();
    let refusal = session.refusal(id, PROMPT).await;
    // The replica went on too late only on a machine that is very busy.
    let expected = ["STORE_INDETERMINATE", "NOT_REPLICATED"];
    assert!(expected.contains(&&*refusal.reason), "{refusal:?}");
    wait::until("the grant to be taken back", PROMPT, || async {
        site.left_at_the_master("ended").await.map_or(Ok(()), Err)
    })
    .await;
    session.close().await;
}
