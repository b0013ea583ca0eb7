//! Very many resumes at once: they come in several messages, and are answered in several.

use std::time::Duration;

use leasehold_proto::v1::{SessionOpen, session_request::Request, session_response::Response};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, exclusive, resume_hold, wire},
    site::TTL,
};

const LOCKS: usize = 2500;
const OF_ONE: usize = 900;

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_locks_are_resumed_in_several_messages() {
    let site = Site::redis(2).await;
    let mut old = site.session(0).await;
    let mut ids = Vec::new();
    for number in 0..LOCKS {
        // The longest names there are.
        ids.push(old.ask_for(exclusive(&format!("{number:0>512}"))).await);
    }
    let mut held = Vec::new();
    for id in ids {
        held.push(old.granted(id, PROMPT).await.lock);
    }
    assert!(old.release(&held[LOCKS / 2]).await);

    let mut new = RawSession::stream(leasehold_tests::raw::connect(&site.endpoint(1)).await)
        .await
        .unwrap();
    let mut opens = held.chunks(OF_ONE).peekable();
    let mut first = None;
    while let Some(locks) = opens.next() {
        let open = SessionOpen {
            // Of the first alone.
            ttl: wire(if first.is_none() { TTL } else { Duration::ZERO }),
            client_name: "many".to_owned(),
            resume: locks.iter().map(resume_hold).collect(),
            more: opens.peek().is_some(),
            ..SessionOpen::default()
        };
        match first {
            None => first = Some(new.ask_open(open).await),
            Some(_) => {
                new.send(Request::Open(open)).await;
            }
        }
    }
    let resumed = new.opened(first.unwrap()).await;
    new.keep_alive(TTL / 5);
    assert_eq!(resumed.messages, LOCKS.div_ceil(1000));
    assert_eq!(resumed.holds().len(), LOCKS - 1);
    assert_eq!(resumed.refused.len(), 1);
    assert_eq!(resumed.refused[0].name, held[LOCKS / 2].name);
    site.gauge(0, "leasehold_holds", 0.0).await;
    drop(old);
    new.heartbeat().await;
    let holds = resumed.holds();
    for lock in held
        .iter()
        .filter(|lock| lock.name != resumed.refused[0].name)
    {
        assert_eq!(holds[&lock.name].fencing_token, lock.fencing_token);
    }
    // A second `open` is what it always was.
    let id = new.send(Request::Open(SessionOpen::default())).await;
    let Response::Error(failure) = new.answer(id, PROMPT).await else {
        panic!("opened twice")
    };
    assert_eq!(failure.reason, "ALREADY_OPEN");
    new.close().await;
    site.nothing_is_left().await;
}
