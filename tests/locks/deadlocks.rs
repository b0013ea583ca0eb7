//! Deadlocks of actors over coordinators, on Redis and in memory: the youngest wait ends with a message, and the others go on.
//! The suite `properties` has every shape of them, and that no wait is ended without one.

use std::time::Duration;

use leasehold_proto::v1::{AcquireOutcome, SessionAcquire, session_response::Response};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, by, exclusive, for_at_most, semaphore, several, shared},
    site::everywhere,
};
use tonic::Code;

const TTL: Duration = Duration::from_secs(20);

/// A circle of actors of several sessions. Each request is that of a session, by its place.
struct Circle {
    held: Vec<(usize, SessionAcquire)>,
    /// In the order in which they are asked for: the last is the victim.
    waits: Vec<(usize, SessionAcquire)>,
    /// The wait that is granted once the victim's actor has released what it holds.
    next: usize,
    /// What the message says beside the actors.
    says: &'static [&'static str],
}

fn circles() -> Vec<Circle> {
    let one = |session, acquire| (session, by(1, acquire));
    vec![
        Circle {
            held: vec![
                one(0, exclusive("a")),
                one(1, exclusive("b")),
                one(2, exclusive("c")),
            ],
            waits: vec![
                one(0, exclusive("b")),
                one(1, exclusive("c")),
                one(2, exclusive("a")),
            ],
            next: 1,
            says: &["\"a\"", "\"b\"", "\"c\""],
        },
        // A reader behind a writer that waits for readers.
        Circle {
            held: vec![
                one(0, shared("read")),
                one(1, exclusive("own")),
                (0, by(2, exclusive("x"))),
            ],
            waits: vec![
                one(1, exclusive("read")),
                (0, by(2, shared("read"))),
                one(0, exclusive("x")),
            ],
            next: 0,
            says: &["\"read\", queued behind", "\"x\""],
        },
        // An acquire of several names holds those before the one that it waits for.
        Circle {
            held: vec![one(1, exclusive("e"))],
            waits: vec![one(0, several(["e", "d"])), one(1, exclusive("d"))],
            next: 0,
            says: &["\"d\"", "\"e\""],
        },
        Circle {
            held: vec![one(0, semaphore("s", 1, 2)), one(1, semaphore("t", 1, 2))],
            waits: vec![one(0, semaphore("t", 2, 2)), one(1, semaphore("s", 2, 2))],
            next: 0,
            says: &["\"s\"", "\"t\""],
        },
    ]
}

/// Opens a session, and returns its id too.
async fn session(site: &Site, at: usize) -> (RawSession, String) {
    let mut session = RawSession::stream(site.channel(at)).await.unwrap();
    let id = session.say_open(TTL).await.session_id;
    session.keep_alive(TTL / 4);
    (session, id)
}

async fn ends(site: &Site, circle: Circle) {
    let mut sessions = Vec::new();
    for at in 0..3 {
        sessions.push(session(site, at).await);
    }
    let (victim, wait) = circle.waits.last().unwrap();
    let (victim, actor) = (*victim, wait.actor);
    let mut of_victim = Vec::new();
    for (at, acquire) in circle.held {
        let is_its = (at, acquire.actor) == (victim, actor);
        let locks = sessions[at].0.take(acquire).await;
        of_victim.extend(locks.into_iter().filter(|_| is_its));
    }
    let mut waiting = Vec::new();
    for (at, acquire) in &circle.waits {
        let id = sessions[*at].0.wait_for(acquire.clone()).await;
        waiting.push((*at, id));
    }

    let (_, id) = waiting.pop().unwrap();
    let refusal = sessions[victim].0.refusal(id, PROMPT).await;
    assert_eq!(refusal.reason, "DEADLOCK", "{refusal:?}");
    assert_eq!(refusal.code, Code::Aborted as i32);
    for (place, (at, acquire)) in circle.waits.iter().rev().enumerate() {
        let session = &sessions[*at].1;
        let named = format!("session {session} (client \"raw\") actor {}", acquire.actor);
        let found = refusal.message.find(&named);
        assert!(found.is_some(), "{named} is missing: {refusal:?}");
        assert_eq!(found == Some(0), place == 0, "the victim is first");
    }
    for said in circle.says {
        assert!(refusal.message.contains(said), "{said}: {refusal:?}");
    }
    for lock in of_victim {
        assert!(sessions[victim].0.release(&lock).await);
    }
    let (at, id) = waiting[circle.next];
    sessions[at].0.granted_all(id, PROMPT).await;
}

#[tokio::test]
async fn a_circle_ends_with_its_youngest_wait_and_the_others_go_on() {
    everywhere(async |site| {
        let mut ended = 0.0;
        for circle in circles() {
            ends(site, circle).await;
            ended += 1.0;
            // One wait of each, and no other.
            assert_eq!(site.sum("leasehold_deadlocks_total").await, ended);
        }
    })
    .await;
}

#[tokio::test]
async fn without_detection_a_deadlock_stays_until_its_waits_time_out() {
    const WAIT: Duration = Duration::from_secs(2);
    let site = Site::redis_with(2, &["--deadlock-detection=false"]).await;
    let mut sessions = [site.session(0).await, site.session(1).await];
    for (session, name) in sessions.iter_mut().zip(["x", "y"]) {
        session.take(by(1, exclusive(name))).await;
    }
    let mut waits = Vec::new();
    for (session, name) in sessions.iter_mut().zip(["y", "x"]) {
        waits.push(
            session
                .ask_for(for_at_most(WAIT, by(1, exclusive(name))))
                .await,
        );
    }
    for (session, id) in sessions.iter_mut().zip(waits) {
        match session.outcome(id, WAIT + PROMPT).await {
            Response::NotGranted(end) => assert_eq!(end.outcome(), AcquireOutcome::TimedOut),
            end => panic!("not timed out, but: {end:?}"),
        }
    }
    drop(sessions);
    site.nothing_is_left().await;
}
