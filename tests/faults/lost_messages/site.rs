//! Coordinators on a Redis of their own, each behind a proxy that loses things.

use std::collections::BTreeSet;

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, GetLockRequest, LockView,
    admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, RedisProxy, RedisServer, audit,
    raw::{connect, release_request, wire},
    redis_proxy::Counts,
    wait,
};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::task::spawn_blocking;
use tonic::transport::Channel;

use crate::lost_messages::{PROMPT, STORE_TIMEOUT, TTL};

/// Command connections of a coordinator.
const CONNECTIONS: usize = 2;
/// Metrics that must be zero again when every lock has been released.
const GAUGES: [&str; 4] = [
    "leasehold_holds",
    "leasehold_waiters",
    "leasehold_contended_names",
    "leasehold_inflight_cleanups",
];

/// One coordinator, and the proxy between it and Redis.
pub(crate) struct Place {
    pub(crate) proxy: RedisProxy,
    pub(crate) coordinator: Coordinator,
    pub(crate) channel: Channel,
}

/// Servers, coordinators and proxies of a history.
pub(crate) struct Site {
    pub(crate) places: Vec<Place>,
    /// A coordinator that no history is played on and nothing is lost of.
    observer: Channel,
    _observer: Coordinator,
    redis: RedisServer,
    locks: MultiplexedConnection,
}

fn coordinator(store: String) -> Coordinator {
    let timeout = format!("{}ms", STORE_TIMEOUT.as_millis());
    let connections = CONNECTIONS.to_string();
    Coordinator::in_process_with([
        "--store",
        &store,
        "--store-timeout",
        &timeout,
        "--store-connections",
        &connections,
    ])
}

/// Returns a connection for reading, with a long time-out.
async fn patient(url: String) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PROMPT))
        .set_response_timeout(Some(PROMPT));
    let client = redis::Client::open(url).unwrap();
    let opened = client.get_multiplexed_async_connection_with_config(&config);
    opened.await.unwrap()
}

impl Site {
    pub(crate) async fn start(coordinators: usize) -> Self {
        // Waited for elsewhere: proxies run here, and are not to be held up.
        let redis = spawn_blocking(RedisServer::start).await.unwrap();
        let mut places = Vec::new();
        for _ in 0..coordinators {
            let proxy = RedisProxy::start(redis.address()).await;
            let coordinator = coordinator(redis.url_through(proxy.address()));
            coordinator.ready().await;
            let channel = connect(&coordinator.endpoint()).await;
            places.push(Place {
                proxy,
                coordinator,
                channel,
            });
        }
        let observing = coordinator(redis.url());
        observing.ready().await;
        let site = Self {
            places,
            observer: connect(&observing.endpoint()).await,
            _observer: observing,
            locks: patient(redis.url()).await,
            redis,
        };
        site.listening().await;
        site
    }

    /// Returns the sum of all proxies' counts.
    pub(crate) fn counts(&self) -> Counts {
        self.places.iter().map(|place| place.proxy.counts()).fold(
            Counts::default(),
            |mut sum, counts| {
                sum.lost += counts.lost;
                sum.late += counts.late;
                sum.woken += counts.woken;
                sum.not_woken += counts.not_woken;
                sum.cut += counts.cut;
                sum.silenced += counts.silenced;
                sum
            },
        )
    }

    /// Waits until every coordinator has replaced the command connections that were broken.
    pub(crate) async fn settle(&self) {
        for Place {
            proxy, coordinator, ..
        } in &self.places
        {
            wait::until("the broken connections to be replaced", PROMPT, || async {
                match (proxy.broken(), proxy.ready()) {
                    (0, CONNECTIONS) => Ok(()),
                    other => Err(other),
                }
            })
            .await;
            coordinator.ready().await;
        }
    }

    /// Waits until every coordinator hears wake-ups.
    pub(crate) async fn listening(&self) {
        for Place { proxy, .. } in &self.places {
            wait::until("the subscription", PROMPT, || async {
                match proxy.subscribed() {
                    1 => Ok(()),
                    other => Err(other),
                }
            })
            .await;
        }
    }

    /// Returns the view of a name that an uninvolved coordinator gives.
    pub(crate) async fn view(&self, name: &str) -> LockView {
        let mut admin = AdminServiceClient::new(self.observer.clone());
        let name = name.to_owned();
        let response = admin.get_lock(GetLockRequest { name }).await.unwrap();
        response.into_inner().lock.unwrap()
    }

    /// Returns the waiters, by client name, in the order of the queue in Redis.
    pub(crate) async fn queue(&self, name: &str) -> Vec<String> {
        let waiters = self.view(name).await.waiters;
        waiters
            .into_iter()
            .map(|waiter| waiter.client_name)
            .collect()
    }

    /// Returns the owner id in the lock's key.
    pub(crate) async fn owner(&self, name: &str) -> Option<Vec<u8>> {
        let mut get = redis::cmd("GET");
        get.arg(format!("lock:{name}"));
        get.query_async(&mut self.locks.clone()).await.unwrap()
    }

    async fn keys(&self) -> BTreeSet<String> {
        let keys = audit::keys(&mut self.locks.clone(), "*").await.unwrap();
        assert!(keys.values().all(|life| *life > 0), "no TTL: {keys:?}");
        // Who had what was resumed is remembered, as tokens are.
        let is_memory = |key: &String| key.contains("}:replaced:");
        keys.into_keys().filter(|key| !is_memory(key)).collect()
    }

    /// Takes and releases a lock by the unary calls, and returns the token. It must be granted at once.
    pub(crate) async fn take(&self, channel: &Channel, name: &str) -> i64 {
        let mut client = LockServiceClient::new(channel.clone());
        let request = AcquireRequest {
            name: name.to_owned(),
            ttl: wire(TTL),
            ..AcquireRequest::default()
        };
        let granted = client.acquire(request).await.unwrap().into_inner();
        assert_eq!(granted.outcome(), AcquireOutcome::Granted, "{granted:?}");
        let request = release_request(name, &granted.owner_id);
        assert!(client.release(request).await.unwrap().into_inner().released);
        granted.fencing_token
    }

    /// Returns the keys that a free name leaves behind: its token, and those of others.
    pub(crate) async fn idle_keys(&self, name: &str) -> BTreeSet<String> {
        self.take(&self.observer, name).await;
        self.keys().await
    }

    /// Waits until the coordinators know of nothing any more, and asserts that Redis doesn't either and that the name is
    /// free, with tokens above `last`. Gives the last token then.
    pub(crate) async fn nothing_is_left(
        &self,
        name: &str,
        idle: &BTreeSet<String>,
        mut last: i64,
    ) -> i64 {
        self.settle().await;
        for Place { coordinator, .. } in &self.places {
            wait::until("everything to be seen to", PROMPT, || async {
                let metrics = coordinator.metrics().await;
                let left: Vec<_> = GAUGES
                    .map(|gauge| (gauge, metrics.sum(gauge)))
                    .into_iter()
                    .filter(|(_, value)| *value != 0.0)
                    .collect();
                if left.is_empty() { Ok(()) } else { Err(left) }
            })
            .await;
        }
        assert!(self.owner(name).await.is_none(), "the lock was left");
        assert_eq!(&self.keys().await, idle, "keys were left");
        for Place { channel, .. } in &self.places {
            let token = self.take(channel, name).await;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        assert_eq!(&self.keys().await, idle, "keys were left");
        last
    }

    /// Has the call that was kept back carried out now.
    pub(crate) async fn deliver(&self) {
        let late = self.counts().late;
        for Place { proxy, .. } in &self.places {
            proxy.deliver();
        }
        wait::until("the late call", PROMPT, || async {
            match self.counts().late - late {
                1 => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// Returns the Redis server, to keep it until the last coordinator has ended.
    pub(crate) async fn end(self) {
        // Coordinators are waited for.
        spawn_blocking(move || {
            let Self {
                places,
                _observer,
                redis,
                ..
            } = self;
            drop((places, _observer));
            drop(redis);
        })
        .await
        .unwrap();
    }
}
