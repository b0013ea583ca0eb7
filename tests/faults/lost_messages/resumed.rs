//! Loss of a resume's call, of its reply, or of the wake-up for the old coordinator, while a client moves to another
//! coordinator with its holds and waits.

use std::time::Duration;

use leasehold_proto::v1::{
    GrantedLock, ResumedHold, ResumedWait, SessionOpen, SessionOpened, SessionRelease,
    SessionResume, resumed_lock, session_request::Request, session_response::Response,
    session_resume::What,
};
use leasehold_tests::{
    RawSession,
    raw::wire,
    redis_proxy::{Call, Loss, WakeUps},
    report, wait,
};
use tonic::Code;

use crate::lost_messages::{PROMPT, REPLY_LATE, TTL, site::Site};

const LOSSES: [Loss; 5] = [
    Loss::ReplyCut,
    Loss::ReplyHeld,
    REPLY_LATE,
    Loss::RequestCut,
    Loss::RequestLate,
];
/// Streams that a client opens until it is answered, at most.
const ATTEMPTS: u8 = 10;
/// Renewed at every heartbeat, which come three times in it.
const SHORT: Duration = Duration::from_secs(3);
/// The request under which the new stream tells of the place.
const WAIT: u64 = 77;

/// Locks that a client resumes.
struct Moving {
    name: String,
    held: GrantedLock,
    ticket: Vec<u8>,
    tried: Vec<[u8; 2]>,
}

/// Returns the owner id of a hold or place that is made for a stream.
fn next(name: &str, of: [u8; 2]) -> Vec<u8> {
    let mut id = vec![0xa5; 16];
    id[..2].copy_from_slice(&of);
    let name = name.as_bytes();
    id[16 - name.len().min(12)..].copy_from_slice(&name[name.len() - name.len().min(12)..]);
    id
}

impl Moving {
    fn entry(&self, kind: u8, owner_id: &[u8], stream: u8, what: What) -> SessionResume {
        let tried = self.tried.iter().filter(|tried| tried[0] == kind);
        SessionResume {
            name: self.name.clone(),
            owner_id: owner_id.to_vec(),
            tried_owner_ids: tried.map(|tried| next(&self.name, *tried)).collect(),
            next_owner_id: next(&self.name, [kind, stream]),
            what: Some(what),
        }
    }

    /// Opens streams until one is answered, as a client does: each with owner ids of its own. Gives the last one, with what was
    /// answered, and how many there were.
    async fn open(&mut self, site: &Site, place: usize) -> (RawSession, SessionOpened, u8) {
        for stream in 1..=ATTEMPTS {
            let hold = What::Hold(ResumedHold {
                fencing_token: self.held.fencing_token,
                hold_count: 1,
            });
            let waits = What::Wait(ResumedWait {
                acquire_request_id: WAIT,
                wait: None,
            });
            let open = SessionOpen {
                ttl: wire(TTL),
                client_name: "heir".to_owned(),
                resume: vec![
                    self.entry(b'h', &self.held.owner_id, stream, hold),
                    self.entry(b'w', &self.ticket, stream, waits),
                ],
                ..SessionOpen::default()
            };
            let channel = site.places[place].channel.clone();
            let mut session = RawSession::stream(channel).await.unwrap();
            session.send(Request::Open(open)).await;
            match session.next(2 * PROMPT).await {
                Ok(Some(message)) => match message.response {
                    Some(Response::Opened(opened)) => return (session, opened, stream),
                    other => panic!("the session was not opened: {other:?}"),
                },
                Ok(None) => panic!("the stream ended in order"),
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
            }
            self.tried.extend([[b'h', stream], [b'w', stream]]);
        }
        panic!("not answered by {ATTEMPTS} streams")
    }
}

/// A holder with one that waits behind it, both at the first coordinator; and the one that waits behind both, at the
/// second.
struct Scene {
    holder: RawSession,
    waiter: RawSession,
    last: (RawSession, u64),
    moving: Moving,
}

impl Scene {
    async fn begin(site: &Site, name: &str, ttl: Duration) -> Self {
        let [old, new] = &site.places[..] else {
            panic!("two coordinators");
        };
        let mut holder = RawSession::open_on(old.channel.clone(), ttl).await;
        let held = holder.acquire(name).await.lock;
        let mut waiter = RawSession::open_on(old.channel.clone(), TTL).await;
        let id = waiter.ask(name, None).await;
        let Response::Queued(queued) = waiter.answer(id, PROMPT).await else {
            panic!("it waits");
        };
        let mut last = RawSession::open_on(new.channel.clone(), TTL).await;
        let id = last.ask(name, None).await;
        assert_eq!(last.queued(id).await, 2);
        Self {
            holder,
            waiter,
            last: (last, id),
            moving: Moving {
                name: name.to_owned(),
                held,
                ticket: queued.ticket,
                tried: Vec::new(),
            },
        }
    }

    /// Checks that a session has resumed both: the old streams can't change them and get no loss, and both are as before.
    /// Returns the last token.
    async fn end(mut self, site: &Site, mut heir: RawSession, opened: &SessionOpened) -> i64 {
        let name = &self.moving.name;
        let held = &self.moving.held;
        assert!(opened.refused.is_empty(), "{:?}", opened.refused);
        let [hold, place] = &opened.resumed[..] else {
            panic!("two were to be resumed: {opened:?}");
        };
        let (hold, place) = match hold.what {
            Some(resumed_lock::What::Hold(_)) => (hold, place),
            _ => (place, hold),
        };
        let Some(resumed_lock::What::Hold(what)) = &hold.what else {
            panic!("none is a hold: {opened:?}");
        };
        assert_eq!(what.fencing_token, held.fencing_token);
        assert_eq!(place.what, Some(resumed_lock::What::Position(1)));
        let owns = site.owner(name).await.as_ref() == Some(&hold.owner_id);
        assert!(owns, "the lock is not the new stream's");

        assert!(!self.holder.release(held).await);
        for session in [&self.holder, &self.waiter] {
            assert!(session.unread_but_resumed().is_empty());
        }
        drop((self.holder, self.waiter));
        let old = &site.places[0].coordinator;
        wait::until("the old streams to end", PROMPT, || async {
            match old.metrics().await.sum("leasehold_sessions") {
                0.0 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        let owns = site.owner(name).await.as_ref() == Some(&hold.owner_id);
        assert!(owns, "the end of the old stream released what it had not");

        let mut token = held.fencing_token;
        let (mut last, last_id) = self.last;
        let mut owner_id = hold.owner_id.clone();
        for _ in 0..2 {
            let release = Request::Release(SessionRelease {
                name: name.clone(),
                owner_id: owner_id.clone(),
            });
            let id = heir.send(release).await;
            let Response::Released(released) = heir.answer(id, PROMPT).await else {
                panic!("a release is answered");
            };
            assert!(released.released);
            if owner_id != hold.owner_id {
                break;
            }
            let Response::Granted(granted) = heir.answer(WAIT, PROMPT).await else {
                panic!("the place was next");
            };
            let lock = &granted.locks[0];
            assert_eq!(lock.owner_id, place.owner_id);
            assert!(lock.fencing_token > token);
            (token, owner_id) = (lock.fencing_token, lock.owner_id.clone());
        }
        let granted = last.granted(last_id, PROMPT).await;
        assert!(granted.lock.fencing_token > token);
        assert!(last.release(&granted.lock).await);
        heir.close().await;
        last.close().await;
        granted.lock.fencing_token
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_that_resumes_is_lost() {
    let site = Site::start(2).await;
    for (number, loss) in LOSSES.into_iter().enumerate() {
        let name = format!("moved/{number}");
        site.listening().await;
        site.settle(&[].into()).await;
        let idle = site.idle_keys(&name).await;
        let mut scene = Scene::begin(&site, &name, TTL).await;
        let lost = site.counts().lost;
        let call = Call::With(next(&name, [b'h', 1]));
        site.places[1].proxy.lose(call, loss);
        let (heir, opened, streams) = scene.moving.open(&site, 1).await;
        report(format!(
            "a resume whose call was lost ({loss:?}) took {streams} streams"
        ));
        assert_eq!(site.counts().lost - lost, 1);
        let last = scene.end(&site, heir, &opened).await;
        let last = site.nothing_is_left(&name, &idle, last).await;
        if loss == Loss::RequestLate {
            // Long after everybody has given it up.
            site.deliver().await;
            site.nothing_is_left(&name, &idle, last).await;
        }
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_was_not_woken_learns_from_its_renewal_that_a_lock_moved() {
    let site = Site::start(2).await;
    let name = "moved";
    let idle = site.idle_keys(name).await;
    let mut scene = Scene::begin(&site, name, SHORT).await;
    let old = &site.places[0];
    old.proxy.set_wake_ups(WakeUps::Drop);
    scene.holder.keep_alive(SHORT / 3);
    let (heir, opened, _) = scene.moving.open(&site, 1).await;
    wait::until("the old coordinator to forget both", PROMPT, || async {
        let metrics = old.coordinator.metrics().await;
        let left = ["leasehold_holds", "leasehold_waiters"].map(|gauge| metrics.sum(gauge));
        if left == [0.0, 0.0] {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    assert_eq!(old.proxy.counts().not_woken, 2);
    let lost = old.coordinator.metrics().await.sum("leasehold_lost_total");
    assert_eq!(lost, 0.0, "it lives on");
    old.proxy.set_wake_ups(WakeUps::Pass);
    let last = scene.end(&site, heir, &opened).await;
    site.nothing_is_left(name, &idle, last).await;
    site.end().await;
}
