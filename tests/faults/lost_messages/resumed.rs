//! Loss of a resume's call or of its reply, while a client moves to another coordinator with its holds and waits.

use leasehold_proto::v1::{SessionOpen, SessionResume};
use leasehold_tests::{
    RawSession,
    raw::{Resumed, resume_again, resume_hold, resume_wait, wire},
    redis_proxy::{Call, Loss},
    report, wait,
};
use tonic::Code;

use crate::lost_messages::{LOSSES, PROMPT, TTL, site::Site};

/// Streams that a client opens until it is answered, at most.
const ATTEMPTS: u8 = 10;
/// The request under which the new stream tells of the place.
const WAIT: u64 = 77;

/// Opens streams at the second coordinator until one is answered, as a client does: each with owner ids of its own. Returns the last
/// one, with what was answered.
async fn open(site: &Site, mut resume: Vec<SessionResume>) -> (RawSession, Resumed) {
    for stream in 1..=ATTEMPTS {
        let open = SessionOpen {
            ttl: wire(TTL),
            resume: resume.clone(),
            ..SessionOpen::default()
        };
        let channel = site.places[1].channel.clone();
        let mut session = RawSession::stream(channel).await.unwrap();
        let id = session.ask_open(open).await;
        match session.try_opened(id).await {
            Ok(resumed) => {
                report(format!("answered by stream {stream}"));
                return (session, resumed);
            }
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
        resume = resume.iter().map(resume_again).collect();
    }
    panic!("not answered by {ATTEMPTS} streams")
}

/// Moves a hold and the place behind it, while the call that resumes the hold is lost: the old streams can't change them and get no
/// loss, and both are as before. Returns the last token.
async fn moved(site: &Site, name: &str, loss: Loss) -> i64 {
    let [old, new] = &site.places[..] else {
        panic!("two coordinators");
    };
    let mut holder = RawSession::open_on(old.channel.clone(), TTL).await;
    let held = holder.acquire(name).await.lock;
    let mut waiter = RawSession::open_on(old.channel.clone(), TTL).await;
    let id = waiter.ask(name, None).await;
    let ticket = waiter.ticket(id).await.ticket;
    let mut last = RawSession::open_on(new.channel.clone(), TTL).await;
    let last_id = last.ask(name, None).await;
    assert_eq!(last.queued(last_id).await, 2);

    let resume = vec![resume_hold(&held), resume_wait(name, &ticket, WAIT)];
    let lost = site.counts().lost;
    let call = Call::With(resume[0].next_owner_id.clone());
    new.proxy.lose(call, loss);
    let (mut heir, resumed) = open(site, resume).await;
    assert_eq!(site.counts().lost - lost, 1);

    assert!(resumed.refused.is_empty(), "{:?}", resumed.refused);
    let hold = &resumed.holds()[name];
    assert_eq!(hold.fencing_token, held.fencing_token);
    assert_eq!(resumed.places()[name], 1);
    let is_owner = async || site.owner(name).await.as_ref() == Some(&hold.owner_id);
    assert!(is_owner().await, "the lock is not the new stream's");
    assert!(!holder.release(&held).await);
    for session in [&holder, &waiter] {
        assert!(session.unread_but_resumed().is_empty());
    }
    drop((holder, waiter));
    wait::until("the old streams to end", PROMPT, || async {
        match old.coordinator.metrics().await.sum("leasehold_sessions") {
            0.0 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert!(
        is_owner().await,
        "the end of the old stream released what it had not"
    );

    assert!(heir.release(hold).await);
    let granted = heir.granted(WAIT, PROMPT).await.lock;
    assert!(granted.fencing_token > held.fencing_token);
    assert!(heir.release(&granted).await);
    let next = last.granted(last_id, PROMPT).await.lock;
    assert!(next.fencing_token > granted.fencing_token);
    assert!(last.release(&next).await);
    heir.close().await;
    last.close().await;
    next.fencing_token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_that_resumes_is_lost() {
    let site = Site::start(2).await;
    for (number, loss) in LOSSES.into_iter().enumerate() {
        let name = format!("moved/{number}");
        site.listening().await;
        site.settle().await;
        let idle = site.idle_keys(&name).await;
        let last = moved(&site, &name, loss).await;
        let last = site.nothing_is_left(&name, &idle, last).await;
        if loss == Loss::RequestLate {
            // Long after everybody has given it up.
            site.deliver().await;
            site.nothing_is_left(&name, &idle, last).await;
        }
    }
    site.end().await;
}
