//! Sessions that an operator ends while they have no stream, while their coordinator is dead, or while they are being resumed.

use std::time::Duration;

use leasehold_proto::v1::{
    EndSessionRequest, EndSessionResponse, admin_service_client::AdminServiceClient,
    force_release_request::Only,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisProxy, Site,
    raw::{PROMPT, connect, exclusive, reason, resume_hold, resume_wait},
    redis_proxy::{Call, Loss},
    site::TTL,
};
use tonic_types::StatusExt;

const WAIT: u64 = 1_000_000;

async fn end(endpoint: &str, session_id: &str) -> EndSessionResponse {
    let mut admin = AdminServiceClient::new(connect(endpoint).await);
    let session_id = session_id.to_owned();
    let ended = admin.end_session(EndSessionRequest { session_id }).await;
    ended.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_session_of_a_killed_coordinator_holds_is_ended_before_it_expires() {
    let mut site = Site::redis(2).await;
    let mut gone = site.session(0).await;
    gone.take_one(exclusive("held")).await;
    let mut waiter = site.session(1).await;
    let id = waiter.wait_for(exclusive("held")).await;
    let session_id = site.view(1, "held").await.holders[0].session_id.clone();
    site.kill(0);
    let ended = end(&site.endpoint(0), &session_id).await;
    assert!(ended.ended, "{ended:?}");
    assert_eq!((ended.session_count, ended.hold_count), (0, 1), "{ended:?}");
    assert!(site.expires_in("held").await > Duration::ZERO);
    let granted = waiter.granted(id, PROMPT).await;
    assert!(waiter.release(&granted.lock).await);
    assert!(!end(&site.endpoint(0), &session_id).await.ended);
    waiter.close().await;
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_sessions_are_ended_as_the_store_keeps_marks_of() {
    let site = Site::redis(1).await;
    let mut session = site.session(0).await;
    let held = session.take_one(exclusive("held")).await;
    let session_id = site.view(0, "held").await.holders[0].session_id.clone();
    assert!(!end(&site.endpoint(0), &"0".repeat(32)).await.ended);
    // As many more at once as there is room for.
    let fill = r"
        local key = redis.call('KEYS', 'lh:session-ends:*')[1]
        local mark = redis.call('HVALS', key)[1]
        for number = 1, 999 do redis.call('HSET', key, string.format('%016d', number), mark) end
        return key";
    let mut connection = site.plain().await;
    let fill = redis::Script::new(fill);
    let key: String = fill.invoke_async(&mut connection).await.unwrap();
    let mut admin = AdminServiceClient::new(connect(&site.endpoint(0)).await);
    let request = EndSessionRequest {
        session_id: session_id.clone(),
    };
    let status = admin.end_session(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "TOO_MANY_ENDED", "{status:?}");
    assert_eq!(info.metadata["limit"], "1000", "{status:?}");
    // It has not ended, and others that were may be asked for again.
    session.heartbeat().await;
    assert!(!end(&site.endpoint(0), &"0".repeat(32)).await.ended);
    let view = site.view(0, "held").await;
    assert_eq!(view.holders[0].fencing_token, held.fencing_token);
    let mut delete = redis::cmd("HDEL");
    delete.arg(&key).arg(format!("{:016}", 1));
    let () = delete.query_async(&mut connection).await.unwrap();
    assert_eq!(end(&site.endpoint(0), &session_id).await.hold_count, 1);
    assert!(session.end(PROMPT).await.is_err());
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_resume_redis_has_not_answered_at_first_is_ended_by_the_id_before() {
    let site = Site::redis(1).await;
    let proxy = RedisProxy::start(site.server().address()).await;
    let coordinator = Coordinator::process()
        .store(site.server().url_through(proxy.address()))
        .arguments(["--store-timeout", "2s"])
        .start();
    let mut old = site.session(0).await;
    let held = old.take_one(exclusive("held")).await;
    let mut holder = site.session(0).await;
    let waited = holder.take_one(exclusive("waited")).await;
    let id = old.ask_for(exclusive("waited")).await;
    let ticket = old.ticket(id).await.ticket;
    let session_id = site.view(0, "held").await.holders[0].session_id.clone();
    let resume = vec![resume_hold(&held), resume_wait("waited", &ticket, WAIT)];
    // The store has changed the owner before the resume is sent again.
    proxy.lose(Call::With(resume[0].next_owner_id.clone()), Loss::ReplyCut);
    let (mut new, resumed) = RawSession::resume(&coordinator.endpoint(), TTL, resume).await;
    new.keep_alive(TTL / 5);
    assert!(proxy.counts().lost > 0);
    assert_eq!(resumed.refused, []);
    let ended = end(&site.endpoint(0), &session_id).await;
    assert_eq!((ended.hold_count, ended.waiter_count), (1, 1), "{ended:?}");
    let status = new.end(PROMPT).await.unwrap_err();
    assert_eq!(reason(&status), "SESSION_ENDED", "{status:?}");
    assert_eq!(site.view(0, "held").await.holder_count, 0);
    assert_eq!(site.view(0, "waited").await.waiter_count, 0);
    assert!(holder.release(&waited).await);
    drop(old);
    holder.close().await;
    coordinator
        .until_zero(leasehold_tests::coordinator::Metrics::GAUGES, PROMPT)
        .await;
    drop(coordinator);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hold_and_one_wait_of_a_killed_coordinator_are_ended_before_they_expire() {
    let mut site = Site::redis(2).await;
    let mut gone = site.session(0).await;
    let held = gone.take_one(exclusive("held")).await;
    let mut waited = site.session(0).await;
    waited.wait_for(exclusive("held")).await;
    let mut waiter = site.session(1).await;
    let id = waiter.wait_for(exclusive("held")).await;
    let number = site.view(1, "held").await.waiters[0].number;
    site.kill(0);
    for only in [
        Only::WaiterNumber(number),
        Only::FencingToken(held.fencing_token),
    ] {
        site.force_one(0, "held", Some(only)).await;
    }
    // At once: the killed one's waiter was ahead, and would be skipped after two seconds only.
    let granted = waiter.granted(id, PROMPT).await;
    assert!(granted.lock.fencing_token > held.fencing_token);
    assert!(waiter.release(&granted.lock).await);
    waiter.close().await;
    site.nothing_is_left().await;
}
