//! Owner ids that are guessed, or made from the output for operators.

use std::time::Duration;

use leasehold_proto::v1::{
    GetLockRequest, ListSessionsRequest, RenewRequest, admin_service_client::AdminServiceClient,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    raw::{exclusive, fresh_owner_id, release_request, resume_hold, wire},
};

use super::LIMIT;

/// Returns every 16 bytes that can be read out of a text of hexadecimal digits.
fn ids_in(text: &str) -> Vec<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let ids = digits.windows(32).map(|window| {
        let text = std::str::from_utf8(window).unwrap();
        (0..32)
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    });
    ids.collect()
}

#[tokio::test]
async fn an_owner_id_that_is_guessed_or_read_off_a_listing_gets_nowhere() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let channel = coordinator.channel().await;
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    let lock = session.take_one(exclusive("precious")).await;
    session.keep_alive(Duration::from_millis(500));

    let mut admin = AdminServiceClient::new(channel.clone());
    let get = GetLockRequest {
        name: "precious".to_owned(),
    };
    let shown = admin.get_lock(get.clone()).await.unwrap().into_inner();
    let sessions = admin.list_sessions(ListSessionsRequest::default()).await;
    let sessions = sessions.unwrap().into_inner();
    let mut tries = vec![fresh_owner_id(), vec![0; 16], vec![0xff; 16]];
    for seen in &sessions.sessions {
        tries.extend(ids_in(&seen.session_id));
    }
    tries.extend(ids_in(&format!("{shown:?}{sessions:?}")));
    assert!(tries.len() > 4, "a listing has ids to try: {shown:?}");
    // And one that is nearly right.
    let mut nearly = lock.owner_id.clone();
    nearly[15] ^= 1;
    tries.push(nearly);
    assert!(!tries.contains(&lock.owner_id), "{shown:?} {sessions:?}");

    let mut client = LockServiceClient::new(channel);
    for owner_id in tries {
        let renew = RenewRequest {
            name: "precious".to_owned(),
            owner_id: owner_id.clone(),
            ttl: wire(LIMIT),
        };
        assert!(!client.renew(renew).await.unwrap().into_inner().renewed);
        let release = release_request("precious", &owner_id);
        assert!(!client.release(release).await.unwrap().into_inner().released);
        let mut stolen = lock.clone();
        stolen.owner_id = owner_id;
        let resume = vec![resume_hold(&stolen)];
        let (_, resumed) = RawSession::resume(&coordinator.endpoint(), LIMIT, resume).await;
        assert!(resumed.resumed.is_empty(), "{resumed:?}");
    }
    let now = admin.get_lock(get).await.unwrap().into_inner();
    let holders = &now.lock.as_ref().unwrap().holders;
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].fencing_token, lock.fencing_token);
    assert!(session.release(&lock).await);
}
