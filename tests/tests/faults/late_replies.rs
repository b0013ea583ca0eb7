//! Late replies of Redis: a promise to a client counts from the moment when the coordinator sent the command, not from the
//! reply, and so never outlasts the key.
//!
//! Most tests delay one reply and have a heartbeat heard meanwhile. That heartbeat is heard after the command was sent, so a
//! promise that counted from the reply would outlast the key by nearly the delay. Two check the other direction: the coordinator
//! promises no less than stands because a reply came late. The last cancels an acquire whose reply is late.

use std::time::{Duration, Instant};

use leasehold_core::lease::drift_margin;
use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, RenewRequest, lock_service_client::LockServiceClient,
    session_response::Response,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisProxy, RedisServer,
    alone::alone,
    raw::{PROMPT, connect, parse, resume_hold, several, wire},
    redis_proxy::{Call, Loss},
    wait,
};
use redis::{AsyncCommands, aio::MultiplexedConnection};

const TTL: Duration = Duration::from_secs(3);
const DELAY: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);

/// Redis, and a coordinator to which its replies may come late.
pub(crate) struct Site {
    _redis: RedisServer,
    connection: MultiplexedConnection,
    pub(crate) proxy: RedisProxy,
    pub(crate) coordinator: CoordinatorProcess,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let redis = RedisServer::start();
        let proxy = RedisProxy::start(redis.address()).await;
        let coordinator = Coordinator::process()
            .store(redis.url_through(proxy.address()))
            // Redis does not take too long for this.
            .arguments(["--store-timeout=30s", "--min-ttl=1s"])
            .start();
        let connection = redis.async_connection().await;
        Self {
            _redis: redis,
            connection,
            proxy,
            coordinator,
        }
    }

    async fn session(&self) -> RawSession {
        RawSession::open(&self.coordinator.endpoint(), TTL).await
    }

    /// Delays the reply to the next call that `call` describes.
    fn delay(&self, call: Call) {
        self.proxy.lose(call, Loss::ReplyAfter(DELAY));
    }

    fn delay_of(&self, name: &str) {
        self.delay(Call::With(format!("lock:{name}").into_bytes()));
    }

    /// Waits until so many commands were carried out whose replies come late, and then for long enough that a promise which
    /// counted from later than the last of them would show.
    async fn carried_out(&self, number: u64) {
        wait::until("the command to be carried out", LIMIT, || async {
            let lost = self.proxy.counts().lost;
            if lost >= number { Ok(()) } else { Err(lost) }
        })
        .await;
        tokio::time::sleep(DELAY / 2).await;
    }

    /// Asserts that a client which believes in its hold until this moment is right. It was promised that before this is called,
    /// and nothing has been renewed since.
    async fn outlasts(&self, name: &str, good_until: Instant) {
        let mut connection = self.connection.clone();
        let left: u64 = connection.pttl(format!("lock:{name}")).await.unwrap();
        let ends_at = Instant::now() + Duration::from_millis(left + 1);
        assert!(
            good_until <= ends_at,
            "{name} is promised for {:?} longer than its key lasts",
            good_until - ends_at
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_counts_from_when_it_was_sent() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut session = site.session().await;
    session.acquire("renewed").await;
    site.delay_of("renewed");
    session.keep_alive(TTL / 60);
    site.carried_out(1).await;
    // Nothing is renewed any more after the heartbeat that waits for that reply.
    session.fall_silent();
    let good_until = session.heartbeat().await;
    site.outlasts("renewed", good_until).await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_counts_from_when_its_acquire_was_sent() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut session = site.session().await;
    site.delay_of("granted");
    let id = session.ask("granted", None).await;
    site.carried_out(1).await;
    session.heartbeat().await;
    let granted = session.granted(id, LIMIT).await;
    site.outlasts("granted", granted.good_until).await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_to_a_waiter_that_joined_again_counts_from_when_it_joined() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut connection = site.connection.clone();
    // Somebody else's key is in the way: nobody is told when it goes.
    let _: () = connection.set("lock:joined", "a stranger").await.unwrap();
    let mut waiter = site.session().await;
    waiter.keep_alive(TTL / 6);
    let id = waiter.ask("joined", None).await;
    let ticket = waiter.ticket(id).await.ticket;
    let _: () = redis::cmd("FLUSHALL")
        .query_async(&mut connection)
        .await
        .unwrap();
    // The refresh that finds the queue gone names its oldest waiter, and so does the acquire that follows.
    site.proxy
        .lose(Call::With(ticket.clone()), Loss::ReplyAfter(Duration::ZERO));
    site.delay(Call::With(ticket));
    site.carried_out(2).await;
    waiter.fall_silent();
    waiter.heartbeat().await;
    let granted = waiter.granted(id, LIMIT).await;
    site.outlasts("joined", granted.good_until).await;
    waiter.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_resumed_counts_from_when_the_resume_was_sent() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut old = site.session().await;
    let held = old.acquire("resumed").await.lock;
    // Its owner id is in nothing but the resume: the old session says nothing any more.
    site.delay(Call::With(held.owner_id.clone()));
    let resume = vec![resume_hold(&held)];
    let (mut new, resumed) = RawSession::resume(&site.coordinator.endpoint(), TTL, resume).await;
    assert_eq!(site.proxy.counts().lost, 1);
    let opened = resumed.good_until.unwrap();
    site.outlasts("resumed", opened).await;
    let good_until = new.heartbeat().await;
    site.outlasts("resumed", good_until).await;
    new.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_held_while_others_are_waited_for_count_from_their_renewal() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut holder = site.session().await;
    holder.keep_alive(TTL / 6);
    let in_the_way = holder.acquire("several 2").await.lock;
    let mut session = site.session().await;
    session.keep_alive(TTL / 60);
    let id = session.ask_for(several(["several 1", "several 2"])).await;
    session.queued(id).await;
    // Next is its renewal, while the second is waited for.
    site.delay_of("several 1");
    site.carried_out(1).await;
    tokio::time::sleep(DELAY).await;
    session.fall_silent();
    session.heartbeat().await;
    assert!(holder.release(&in_the_way).await);
    let granted = match session.answer(id, PROMPT).await {
        Response::Granted(granted) => granted,
        other => panic!("not granted: {other:?}"),
    };
    let good_until = session.good_until_of(&granted);
    site.outlasts("several 1", good_until).await;
    holder.close().await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_unary_call_waited_for_redis_is_taken_off_its_ttl() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut client = LockServiceClient::new(connect(&site.coordinator.endpoint()).await);
    site.delay_of("unary");
    let acquire = AcquireRequest {
        name: "unary".to_owned(),
        ttl: wire(TTL),
        ..AcquireRequest::default()
    };
    let acquired = client.acquire(acquire).await.unwrap().into_inner();
    assert_eq!(acquired.outcome(), AcquireOutcome::Granted);
    assert!(parse(acquired.ttl) <= TTL - DELAY, "{:?}", acquired.ttl);
    site.delay_of("unary");
    let renew = RenewRequest {
        name: "unary".to_owned(),
        owner_id: acquired.owner_id,
        ttl: wire(TTL),
    };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert!(renewed.renewed);
    assert!(parse(renewed.ttl) <= TTL - DELAY, "{:?}", renewed.ttl);
    assert_eq!(site.proxy.counts().lost, 2);
}

/// Asserts that a client was promised the whole TTL, less the margin, for a heartbeat that it sent after `before`.
fn assert_whole(before: Instant, good_until: Instant) {
    let promised = good_until - before;
    let whole = TTL - drift_margin(TTL);
    assert!(promised >= whole, "{promised:?} of {whole:?} are promised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_renewal_takes_is_not_taken_off_what_it_is_good_for() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut session = site.session().await;
    session.acquire("renewed").await;
    // The coordinator renews for a heartbeat that comes after a sixth of the TTL, and answers it then.
    tokio::time::sleep(TTL / 5).await;
    site.delay_of("renewed");
    let before = Instant::now();
    let good_until = session.heartbeat().await;
    assert_eq!(site.proxy.counts().lost, 1);
    // Redis renewed after the heartbeat was heard, for the TTL.
    assert_whole(before, good_until);
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_an_acquire_takes_is_not_taken_off_what_its_grant_is_good_for() {
    let _alone = alone().await;
    let site = Site::start().await;
    let before = Instant::now();
    let mut session = site.session().await;
    site.delay_of("granted");
    let granted = session.acquire("granted").await;
    assert_eq!(site.proxy.counts().lost, 1);
    // The grant is good from the `open`, the last heartbeat, which came before the acquire.
    assert_whole(before, granted.good_until);
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_cancelled_before_redis_queues_it_ends() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut holder = site.session().await;
    holder.acquire("cancelled").await;
    let mut waiter = site.session().await;
    site.delay_of("cancelled");
    let id = waiter.ask("cancelled", None).await;
    waiter.cancel(id).await;
    // The coordinator learns that it waits from the reply, which comes after the cancel.
    match waiter.answer(id, LIMIT).await {
        Response::NotGranted(ended) => assert_eq!(ended.outcome(), AcquireOutcome::Cancelled),
        other => panic!("not cancelled: {other:?}"),
    }
    assert_eq!(site.proxy.counts().lost, 1);
    waiter.close().await;
    holder.close().await;
}
