//! Cases of the ends of sessions by operators.

use std::time::Duration;

use leasehold_proto::v1::{
    EndSessionRequest, EndSessionResponse, ForceReleaseRequest, LostReason,
    session_response::Response,
};
use leasehold_tests::{
    RawCandidate, RawSession,
    raw::{exclusive, reason, resume_hold, resume_wait},
};
use tonic::Code;

use crate::conformance::site::{LATE, Site, TTL};

async fn end(site: &Site, at: usize, session_id: &str) -> EndSessionResponse {
    let mut admin = site.admin(at);
    let session_id = session_id.to_owned();
    let ended = admin.end_session(EndSessionRequest { session_id }).await;
    ended.unwrap().into_inner()
}

async fn session_of(site: &Site, name: &str) -> String {
    let view = site.view(0, name).await;
    view.holders[0].session_id.clone()
}

/// Checks that a stream ends because an operator has ended its session.
async fn ends(mut session: RawSession) {
    let status = session.end(LATE).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert_eq!(reason(&status), "SESSION_ENDED", "{status:?}");
}

async fn nobody_has(site: &Site, name: &str) {
    let view = site.view(1, name).await;
    assert_eq!((view.holder_count, view.waiter_count), (0, 0), "{view:?}");
}

/// Ends a session with all that it has, at once and once.
pub(crate) async fn of_a_session_at_another_coordinator(site: &Site) {
    let (held, waited) = ("ends/held", "ends/waited");
    let (mut ended, mut other) = tokio::join!(site.session(0), site.session(1));
    let lock = ended.take_one(exclusive(held)).await;
    let blocking = other.take_one(exclusive(waited)).await;
    let id = ended.ask_for(exclusive(waited)).await;
    ended.ticket(id).await;
    let session_id = session_of(site, held).await;
    let answer = end(site, 1, &session_id).await;
    let expected = EndSessionResponse {
        ended: true,
        session_count: 1,
        hold_count: 1,
        waiter_count: 1,
    };
    assert_eq!(answer, expected);
    nobody_has(site, held).await;
    assert_eq!(site.view(0, waited).await.waiter_count, 0);
    let lost = ended.lost(LATE).await;
    assert_eq!(lost[0].owner_id, lock.owner_id);
    assert_eq!(lost[0].reason(), LostReason::Forced);
    match ended.outcome(id, LATE).await {
        Response::Error(failure) => assert_eq!(failure.reason, "FORCE_RELEASED", "{failure:?}"),
        other => panic!("the wait ended with {other:?}"),
    }
    ends(ended).await;
    let again = end(site, 0, &session_id).await;
    assert_eq!(again, EndSessionResponse::default());
    // Its end takes nothing from others, and outdates its tokens.
    let next = other.take_one(exclusive(held)).await;
    assert!(next.fencing_token > lock.fencing_token + 1, "{next:?}");
    assert!(other.release(&blocking).await);
    assert!(other.release(&next).await);
    other.close().await;
}

/// A session without locks is ended too; one that nobody has is not.
pub(crate) async fn of_what_no_session_has(site: &Site) {
    let (mut idle, mut beside) = tokio::join!(site.session(0), site.session(0));
    let lock = idle.take_one(exclusive("ends/idle")).await;
    let session_id = session_of(site, "ends/idle").await;
    assert!(idle.release(&lock).await);
    let answer = end(site, 1, &session_id).await;
    assert_eq!(
        (answer.ended, answer.session_count),
        (true, 1),
        "{answer:?}"
    );
    assert_eq!((answer.hold_count, answer.waiter_count), (0, 0));
    ends(idle).await;
    let unknown = end(site, 1, &"0".repeat(32)).await;
    assert_eq!(unknown, EndSessionResponse::default());
    beside.heartbeat().await;
    beside.close().await;
}

/// The session that has resumed what another had ends with that one.
pub(crate) async fn of_a_session_that_was_resumed(site: &Site) {
    let (held, waited) = ("ends/resumed/held", "ends/resumed/waited");
    let (mut old, mut other) = tokio::join!(site.session(0), site.session(1));
    let lock = old.take_one(exclusive(held)).await;
    let session_id = session_of(site, held).await;
    let blocking = other.take_one(exclusive(waited)).await;
    let id = old.ask_for(exclusive(waited)).await;
    let ticket = old.ticket(id).await.ticket;
    // Twice, by way of another coordinator.
    let (mut between, resumed) =
        RawSession::resume(&site.endpoint(1), TTL, vec![resume_hold(&lock)]).await;
    between.keep_alive(TTL / 5);
    let resume = vec![
        resume_hold(&resumed.only_hold()),
        resume_wait(waited, &ticket, 7),
    ];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(0), TTL, resume).await;
    new.keep_alive(TTL / 5);
    assert_eq!(resumed.refused, []);
    // A coordinator that has not heard of it yet would count the hold as well.
    for former in [&mut old, &mut between] {
        assert_eq!(former.lost(LATE).await[0].reason(), LostReason::Resumed);
    }
    drop((old, between));
    let answer = end(site, 1, &session_id).await;
    assert!(answer.ended, "{answer:?}");
    // Those that were resumed are gone, or about to be.
    assert!((1..=3).contains(&answer.session_count), "{answer:?}");
    assert_eq!(
        (answer.hold_count, answer.waiter_count),
        (1, 1),
        "{answer:?}"
    );
    nobody_has(site, held).await;
    assert_eq!(site.view(0, waited).await.waiter_count, 0);
    let lost = new.lost(LATE).await;
    assert_eq!(lost[0].reason(), LostReason::Forced);
    ends(new).await;
    assert!(other.release(&blocking).await);
    other.close().await;
}

/// A session that has lost what it had resumed ends too: the end of the one before may have taken that.
pub(crate) async fn of_a_session_that_has_lost_what_it_resumed(site: &Site) {
    let name = "ends/lost";
    let mut old = site.session(0).await;
    let lock = old.take_one(exclusive(name)).await;
    let session_id = session_of(site, name).await;
    let resume = vec![resume_hold(&lock)];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    new.keep_alive(TTL / 5);
    assert_eq!(resumed.refused, []);
    assert_eq!(old.lost(LATE).await[0].reason(), LostReason::Resumed);
    let name = name.to_owned();
    let mut admin = site.admin(0);
    let forced = admin.force_release(ForceReleaseRequest { name, only: None });
    forced.await.unwrap();
    assert_eq!(new.lost(LATE).await[0].reason(), LostReason::Forced);
    let answer = end(site, 0, &session_id).await;
    assert!(answer.ended, "{answer:?}");
    ends(new).await;
    ends(old).await;
}

/// However a resume and the end cross: nothing is left, and nothing ends twice.
pub(crate) async fn of_a_session_that_is_resuming(site: &Site) {
    for round in 0..6 {
        let name = format!("ends/resuming/{round}");
        let mut old = site.session(0).await;
        let lock = old.take_one(exclusive(&name)).await;
        let session_id = session_of(site, &name).await;
        let endpoint = site.endpoint(1);
        let resume = async {
            // From before the end to after it.
            tokio::time::sleep(Duration::from_millis(3 * round)).await;
            let resume = vec![resume_hold(&lock)];
            let (mut new, resumed) = RawSession::resume(&endpoint, TTL, resume).await;
            new.keep_alive(TTL / 5);
            (new, resumed)
        };
        let ((new, resumed), answer) = tokio::join!(resume, end(site, 1, &session_id));
        assert!(answer.ended, "{answer:?}");
        // The former session may not have heard yet that its hold has moved: then both have it.
        assert!(answer.hold_count <= answer.session_count, "{answer:?}");
        nobody_has(site, &name).await;
        if resumed.refused.is_empty() {
            ends(new).await;
        } else {
            // It had nothing of the session.
            new.close().await;
        }
        drop(old);
        let mut next = site.session(0).await;
        let taken = next.take_one(exclusive(&name)).await;
        assert!(taken.fencing_token > lock.fencing_token);
        assert!(next.release(&taken).await);
        next.close().await;
    }
}

/// A candidacy is a session: its leader loses the term, and one that waits fails.
pub(crate) async fn of_a_leader_and_of_a_candidate(site: &Site) {
    let election = "ends/election";
    let mut leader = RawCandidate::campaign(site.channel(0), election, b"first", TTL).await;
    let term = leader.elected(LATE).await;
    let mut waits = RawCandidate::campaign(site.channel(1), election, b"second", TTL).await;
    let waiter = site.view(1, election).await.waiters[0].session_id.clone();
    let mut last = RawCandidate::campaign(site.channel(0), election, b"third", TTL).await;
    let answer = end(site, 0, &waiter).await;
    let expected = EndSessionResponse {
        ended: true,
        session_count: 1,
        hold_count: 0,
        waiter_count: 1,
    };
    assert_eq!(answer, expected);
    let status = waits.next(LATE).await.1.unwrap_err();
    assert_eq!(reason(&status), "FORCE_RELEASED", "{status:?}");

    let answer = end(site, 1, &session_of(site, election).await).await;
    assert_eq!((answer.session_count, answer.hold_count), (1, 1));
    assert_eq!(leader.lost(LATE).await.1, LostReason::Forced);
    let status = leader.next(LATE).await.1.unwrap_err();
    assert_eq!(reason(&status), "SESSION_ENDED", "{status:?}");
    let next = last.elected(LATE).await;
    assert!(next.token > term.token);
    assert!(last.resign().await);
}
