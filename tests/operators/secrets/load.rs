//! Requests of every kind to the coordinators.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, CheckTokenRequest, ForceReleaseRequest, GetLockRequest, GrantedLock,
    LeaderRequest, ListLocksRequest, ListSessionsRequest, RenewRequest, WatchLocksRequest,
    admin_service_client::AdminServiceClient, election_service_client::ElectionServiceClient,
    lock_service_client::LockServiceClient, session_response::Response,
};
use leasehold_tests::{
    RawCandidate, RawObserver, RawSession,
    raw::{
        acquire_request, by, closing_for, exclusive, for_at_most, fresh_owner_id, once_more,
        release_request, resume_hold, resume_wait, semaphore, several, shared, wire, with_value,
    },
};

use super::{LIMIT, site::Site};

/// Number of rounds of each kind of client.
const ROUNDS: usize = 6;
/// A wait that nobody ends.
const SHORT: Duration = Duration::from_millis(30);

fn note(site: &Site, locks: &[GrantedLock]) {
    for lock in locks {
        site.secrets.add("owner id", lock.owner_id.as_slice());
    }
}

/// Sessions that take locks in every mode, wait, give up, release, and release what is not theirs.
pub(crate) async fn modes(site: &Site, at: usize) {
    let mut session = RawSession::open(&site.endpoint(at), LIMIT).await;
    let mut other = RawSession::open(&site.endpoint(1 - at), LIMIT).await;
    session.keep_alive(Duration::from_millis(500));
    other.keep_alive(Duration::from_millis(500));
    for round in 0..ROUNDS {
        let name = format!("modes-{at}-{round}");
        let first = session
            .take_one(with_value("a value", exclusive(&name)))
            .await;
        note(site, std::slice::from_ref(&first));
        // Another one waits for it, on the other coordinator, and one gives up.
        let asked = other.ask_for(exclusive(&name)).await;
        let queued = other.ticket(asked).await;
        site.secrets.add("ticket", queued.ticket);
        let short = other.ask_for(for_at_most(SHORT, shared(&name))).await;
        other.not_granted(short, LIMIT).await;
        // What is not the session's, under the right name and a wrong one.
        let mut stranger = first.clone();
        stranger.owner_id = fresh_owner_id();
        site.secrets.add("owner id", stranger.owner_id.as_slice());
        assert!(!session.release(&stranger).await);
        stranger.owner_id.clone_from(&first.owner_id);
        stranger.name = "another".to_owned();
        let bad = session.ask_release(&stranger).await;
        site.failure(&session.refusal(bad, LIMIT).await);
        stranger.owner_id.push(0);
        let bad = session.ask_release(&stranger).await;
        site.failure(&session.refusal(bad, LIMIT).await);
        site.look_into_the_store();
        assert!(session.set_value(&first, "another").await);
        assert!(session.downgrade(&first).await);
        assert!(session.release(&first).await);
        let granted = other.granted(asked, LIMIT).await;
        note(site, std::slice::from_ref(&granted.lock));
        assert!(other.release(&granted.lock).await);

        let limited = format!("{name}-limited");
        let permits = session.take(semaphore(&limited, 2, 3)).await;
        assert!(session.reduce(&permits[0], 1).await);
        note(site, &permits);
        let bad = other.ask_for(semaphore(&limited, 1, 5)).await;
        site.failure(&other.refusal(bad, LIMIT).await);
        let (a, b) = (format!("{name}-a"), format!("{name}-b"));
        let both = session.take(several([a.as_str(), b.as_str()])).await;
        note(site, &both);
        let reentrant = format!("{name}-again");
        let once = session.take(by(7, exclusive(&reentrant))).await;
        note(site, &once);
        let twice = session.take(once_more(7, exclusive(&reentrant))).await;
        note(site, &twice);
        let bad = session.ask_for(by(7, exclusive(&reentrant))).await;
        site.failure(&session.refusal(bad, LIMIT).await);
        for lock in permits.iter().chain(&both) {
            assert!(session.release(lock).await);
        }
    }
    session.close().await;
    other.close().await;
}

/// Makes unary calls, with right and wrong owner ids.
pub(crate) async fn calls(site: &Site, at: usize) {
    let mut client = LockServiceClient::new(site.channel(at).await);
    for round in 0..ROUNDS {
        let name = format!("calls-{at}-{round}");
        let acquire = AcquireRequest {
            name: name.clone(),
            ttl: wire(LIMIT),
            wait: wire(SHORT),
            ..AcquireRequest::default()
        };
        let held = client.acquire(site.call(acquire.clone())).await.unwrap();
        let owner_id = held.into_inner().owner_id;
        site.secrets.add("owner id", owner_id.as_slice());
        client.acquire(site.call(acquire)).await.unwrap();
        let guess = fresh_owner_id();
        site.secrets.add("owner id", guess.as_slice());
        let too_long = [owner_id.clone(), guess.clone()].concat();
        for owner_id in [guess, too_long, owner_id] {
            let renew = RenewRequest {
                name: name.clone(),
                owner_id: owner_id.clone(),
                ttl: wire(LIMIT),
            };
            if let Err(status) = client.renew(site.call(renew)).await {
                site.error(&status);
            }
            let release = release_request(&name, &owner_id);
            if let Err(status) = client.release(site.call(release)).await {
                site.error(&status);
            }
        }
        let bad = acquire_request("");
        site.error(&client.acquire(site.call(bad)).await.unwrap_err());
    }
}

/// Candidates, one of which is deposed, and those who observe them.
pub(crate) async fn elections(site: &Site) {
    for round in 0..ROUNDS / 3 {
        let election = format!("election-{round}");
        let campaign = |at| {
            let election = election.clone();
            async move {
                let channel = site.channel(at).await;
                RawCandidate::campaign(channel, &election, b"here", LIMIT).await
            }
        };
        let mut first = campaign(0).await;
        let term = first.elected(LIMIT).await;
        let mut second = campaign(1).await;
        let mut observer = RawObserver::observe(site.channel(1).await, &election).await;
        observer.leads(term.token, LIMIT).await;
        site.look_into_the_store();
        first.proclaim(b"there").await;
        let mut stub = ElectionServiceClient::new(site.channel(0).await);
        let request = LeaderRequest {
            election: election.clone(),
        };
        site.answer(stub.leader(site.call(request)).await.unwrap().get_ref());
        force_release(site, &election).await;
        first.lost(LIMIT).await;
        second.elected(LIMIT).await;
        site.look_into_the_store();
        assert!(second.resign().await);
    }
}

/// Sessions that are resumed on another coordinator, and once more with ids that are used up.
pub(crate) async fn resumes(site: &Site) {
    for round in 0..ROUNDS / 2 {
        let (held, wanted) = (format!("resumed-{round}"), format!("wanted-{round}"));
        let mut owner = RawSession::open(&site.endpoint(0), LIMIT).await;
        let kept = owner.take_one(closing_for(SHORT, exclusive(&wanted))).await;
        let mut session = RawSession::open(&site.endpoint(0), LIMIT).await;
        let lock = session.take_one(exclusive(&held)).await;
        let asked = session.ask_for(exclusive(&wanted)).await;
        let ticket = session.ticket(asked).await.ticket;
        note(site, &[kept, lock.clone()]);
        site.secrets.add("ticket", ticket.as_slice());
        let resume = vec![resume_hold(&lock), resume_wait(&wanted, &ticket, asked)];
        for resume in &resume {
            site.secrets
                .add("owner id", resume.next_owner_id.as_slice());
        }
        let (_resumed, _) = RawSession::resume(&site.endpoint(1), LIMIT, resume.clone()).await;
        // Both ids are those of somebody else by now.
        let again = resume.into_iter().map(|mut resume| {
            resume.next_owner_id = fresh_owner_id();
            site.secrets
                .add("owner id", resume.next_owner_id.as_slice());
            resume
        });
        let (_, refused) = RawSession::resume(&site.endpoint(0), LIMIT, again.collect()).await;
        assert_eq!(refused.refused.len(), 2, "{refused:?}");
    }
}

/// Actors that wait for each other in a circle.
pub(crate) async fn deadlocks(site: &Site) {
    for round in 0..2 {
        let names = [format!("circle-{round}-a"), format!("circle-{round}-b")];
        let mut sessions = [
            RawSession::open(&site.endpoint(0), LIMIT).await,
            RawSession::open(&site.endpoint(1), LIMIT).await,
        ];
        let mut waits = Vec::new();
        for at in 0..2 {
            let lock = sessions[at].take_one(by(1, exclusive(&names[at]))).await;
            note(site, &[lock]);
        }
        for at in 0..2 {
            let asked = sessions[at].ask_for(by(1, exclusive(&names[1 - at]))).await;
            let ticket = sessions[at].ticket(asked).await.ticket;
            site.secrets.add("ticket", ticket);
            waits.push(asked);
        }
        let [first, second] = &mut sessions;
        let ended = tokio::select! {
            ended = first.answer(waits[0], LIMIT) => ended,
            ended = second.answer(waits[1], LIMIT) => ended,
        };
        let Response::Error(failure) = ended else {
            panic!("no deadlock: {ended:?}");
        };
        site.failure(&failure);
    }
}

/// Takes a lock away from whoever has it.
pub(crate) async fn force_release(site: &Site, name: &str) {
    let mut admin = AdminServiceClient::new(site.channel(0).await);
    let request = ForceReleaseRequest {
        name: name.to_owned(),
        only: None,
    };
    let answer = admin.force_release(site.call(request)).await.unwrap();
    site.answer(answer.get_ref());
}

/// Operators, who look at everything and watch.
pub(crate) async fn operators(site: &Site) {
    let mut admin = AdminServiceClient::new(site.channel(0).await);
    let watch = site.call(WatchLocksRequest::default());
    let mut watched = admin.watch_locks(watch).await.unwrap().into_inner();
    let mut sessions = RawSession::open(&site.endpoint(0), LIMIT).await;
    for round in 0..ROUNDS {
        let name = format!("watched-{round}");
        let lock = sessions.take_one(exclusive(&name)).await;
        note(site, std::slice::from_ref(&lock));
        for at in 0..2 {
            let mut admin = AdminServiceClient::new(site.channel(at).await);
            let list = site.call(ListLocksRequest::default());
            site.answer(admin.list_locks(list).await.unwrap().get_ref());
            let list = site.call(ListSessionsRequest::default());
            site.answer(admin.list_sessions(list).await.unwrap().get_ref());
            let get = site.call(GetLockRequest { name: name.clone() });
            site.answer(admin.get_lock(get).await.unwrap().get_ref());
            let check = site.call(CheckTokenRequest {
                name: name.clone(),
                fencing_token: lock.fencing_token,
            });
            site.answer(admin.check_token(check).await.unwrap().get_ref());
            let bad = site.call(GetLockRequest::default());
            site.error(&admin.get_lock(bad).await.unwrap_err());
        }
        assert!(sessions.release(&lock).await);
        // Whatever has been told until then.
        while let Ok(told) = tokio::time::timeout(SHORT, watched.message()).await {
            site.answer(&told.unwrap().unwrap());
        }
    }
}
