//! Late replies of Redis: a promise to a client counts from the moment when the coordinator sent the command, not from the
//! reply, and so never outlasts the key.
//!
//! The session's machine has tests of each promise. The test of a session here shows that the moment of sending comes to it with
//! Redis's reply: a heartbeat is heard after the command was sent, so a promise that counted from the reply would outlast the
//! key by nearly the delay.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, RenewRequest, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisProxy, RedisServer,
    raw::{connect, parse, wire},
    redis_proxy::{Call, Loss},
    wait,
};
use redis::{AsyncCommands, aio::MultiplexedConnection};

const TTL: Duration = Duration::from_secs(3);
const DELAY: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);

/// Redis, and a coordinator to which its replies may come late.
struct Site {
    _redis: RedisServer,
    connection: MultiplexedConnection,
    proxy: RedisProxy,
    coordinator: CoordinatorProcess,
}

impl Site {
    async fn start() -> Self {
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
async fn grants_and_renewals_count_from_when_they_were_sent() {
    let site = Site::start().await;
    let mut session = site.session().await;
    site.delay_of("late");
    let id = session.ask("late", None).await;
    site.carried_out(1).await;
    session.heartbeat().await;
    let granted = session.granted(id, LIMIT).await;
    site.outlasts("late", granted.good_until).await;
    site.delay_of("late");
    session.keep_alive(TTL / 60);
    site.carried_out(2).await;
    // Nothing is renewed any more after the heartbeat that waits for that reply.
    session.fall_silent();
    let good_until = session.heartbeat().await;
    site.outlasts("late", good_until).await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_a_unary_call_waited_for_redis_is_taken_off_its_ttl() {
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
