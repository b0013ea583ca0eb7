//! Random calls of programs that do everything wrong, beside a lock that must survive them. `HOSTILE_SEED` and `HOSTILE_SECONDS` say
//! which calls, and for how long.

use std::{any::Any, env, error::Error, panic::resume_unwind, time::Duration};

use fastrand::Rng;
use leasehold_client::{
    Actor, Client, Election, FencingToken, LockAllRequest, LockGuard, LockRequest, LockSpec,
    LockWatch, Semaphore, Session,
};
use leasehold_tests::{Coordinator, wait};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::LIMIT;

/// Tasks that make calls at the same time.
const WORKERS: u64 = 4;
/// No call takes longer: each is given up, or ends by itself, long before.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Panic of a program's own work.
struct Hostile;

/// One random call, with hostile arguments.
struct Call {
    random: Rng,
    /// Has the lock that must survive. Calls on it leave nothing behind.
    client: Client,
    /// Closed by some calls.
    side: Client,
    endpoint: String,
}

/// Sets some of what every request for locks has.
macro_rules! settings {
    ($call:expr, $request:expr) => {{
        let mut request = $request;
        let call = $call;
        for _ in 0..call.random.u8(..4) {
            request = match call.random.u8(..6) {
                0 => request.wait(call.duration()),
                1 => request.value(call.value()),
                2 => request.lock_delay(call.duration()),
                3 => request.max_hold(call.duration()),
                4 => request.actor(call.actor()),
                _ => request.reentrant(),
            };
        }
        request
    }};
}

impl Call {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(..from.len())]
    }

    fn name(&mut self) -> String {
        let names = [
            "",
            "a",
            "b",
            "c",
            "important",
            "ünï",
            "\0",
            "a\nb",
            "\u{85}",
            "n",
        ];
        match self.pick(&names) {
            "n" => "n".repeat(self.pick(&[512, 513, 3_000_000])),
            name => name.to_owned(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        vec![b'v'; self.pick(&[0, 1, 4_096, 4_097, 5_000_000])]
    }

    fn duration(&mut self) -> Duration {
        let day = Duration::from_secs(24 * 3_600);
        let short = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(1),
        ];
        let long = [
            Duration::from_secs(1),
            Duration::from_secs(10),
            day,
            day + short[1],
            Duration::MAX,
        ];
        self.pick(&[&short[..], &long[..]].concat())
    }

    fn count(&mut self) -> u32 {
        self.pick(&[0, 1, 2, 5, 1_000_000, 1_000_001, u32::MAX])
    }

    fn token(&mut self) -> FencingToken {
        FencingToken::from(self.pick(&[i64::MIN, -1, 0, 1, i64::MAX]))
    }

    fn actor(&mut self) -> Actor {
        let (own, other) = (self.client.actor(), self.side.actor());
        self.pick(&[own, other])
    }

    fn specs(&mut self) -> Vec<LockSpec> {
        let count = self.pick(&[0, 1, 2, 3, 64, 65, 1_000, 1_001]);
        let mut specs = Vec::new();
        for index in 0..count {
            let name = match self.random.u8(..20) {
                0 => self.name(),
                _ => index.to_string(),
            };
            let (permits, limit) = (self.count(), self.count());
            specs.push(match self.random.u8(..6) {
                0 => LockSpec::shared(name),
                1 => LockSpec::permits(name, permits, limit).limit_revision(limit),
                2 => LockSpec::permits(name, permits, limit).permits_at_least(limit),
                _ => LockSpec::exclusive(name),
            });
        }
        specs
    }

    fn semaphore(&mut self, session: &Session) -> Semaphore {
        let (name, limit) = (self.name(), self.count());
        session.semaphore(name, limit).limit_revision(self.count())
    }

    fn lock(&mut self, session: &Session) -> LockRequest {
        let request = settings!(&mut *self, session.lock(self.name()));
        if self.random.bool() {
            request.shared()
        } else {
            request
        }
    }

    fn locks(&mut self, session: &Session) -> LockAllRequest {
        let request = settings!(&mut *self, session.lock_all(self.specs()));
        if self.random.bool() {
            request.shared()
        } else {
            request
        }
    }

    fn election(&mut self, session: &Session) -> Election {
        let (wait, delay) = (self.duration(), self.duration());
        let election = session.election(self.name());
        match self.random.u8(..3) {
            0 => election.wait(wait),
            1 => election.lock_delay(delay),
            _ => election,
        }
    }

    /// Gives a future up soon, perhaps before it was polled.
    async fn soon<T>(&mut self, future: impl IntoFuture<Output = T>) -> Option<T> {
        let limit = Duration::from_micros(self.pick(&[0, 1, 1_000, 20_000]));
        timeout(limit, future).await.ok()
    }

    /// Does to a hold what it can, and releases it at last.
    async fn misuse(&mut self, guard: LockGuard) {
        let watch = guard.watch();
        for _ in 0..self.random.u8(..4) {
            let (value, ahead) = (self.value(), self.duration());
            match self.random.u8(..4) {
                0 => drop(self.soon(guard.set_value(value)).await),
                1 => drop(self.soon(guard.downgrade()).await),
                2 => drop(self.soon(guard.ends_soon(ahead)).await),
                _ => drop(self.soon(watch.lost()).await),
            }
        }
        match self.random.u8(..3) {
            0 => drop(guard),
            1 => drop(guard.release().await),
            _ => drop(self.soon(guard.release()).await),
        }
        assert!(!watch.is_held());
    }

    /// Makes the call. Whatever it returns is right, as long as it returns.
    async fn make(mut self) {
        let client = if self.random.bool() {
            self.client.clone()
        } else {
            self.side.clone()
        };
        let session = client.default_session().clone();
        let (admin, name, value) = (client.admin(), self.name(), self.value());
        match self.random.u8(..16) {
            0 | 1 => {
                let request = self.lock(&session);
                if let Some(Ok(guard)) = self.soon(request).await {
                    self.misuse(guard).await;
                }
            }
            2 => {
                let request = self.lock(&session).try_acquire();
                if let Ok(Some(guard)) = request.await {
                    self.misuse(guard).await;
                }
            }
            3 => {
                let semaphore = self.semaphore(&session);
                let (permits, most) = (self.count(), self.count());
                let request = match self.random.bool() {
                    true => semaphore.permits(permits),
                    false => semaphore.permits_between(permits..=most),
                };
                let request = settings!(&mut self, request);
                if let Some(Ok(permit)) = self.soon(request).await {
                    let keep = self.count();
                    self.soon(permit.keep(keep)).await;
                    self.misuse(permit.into_guard()).await;
                }
            }
            4 | 5 => {
                let request = self.locks(&session);
                if let Some(Ok(guards)) = self.soon(request).await {
                    match self.random.bool() {
                        true => drop(guards.release().await),
                        false => {
                            for guard in guards.into_guards() {
                                self.misuse(guard).await;
                            }
                        }
                    }
                }
            }
            6 | 7 => {
                let request = self.lock(&session);
                let way = self.random.u8(..4);
                let inner = self.lock(&session).shared();
                let work = request.with(move |held: LockWatch| async move {
                    match way {
                        0 => panics(),
                        1 => drop(inner.try_acquire().await),
                        2 => drop(timeout(Duration::from_millis(1), held.lost()).await),
                        _ => {}
                    }
                });
                self.soon(work).await;
            }
            8 => {
                let work = session.try_with_lock(name, |_| async {
                    Err::<(), Box<dyn Error + Send + Sync>>("own".into())
                });
                drop(self.soon(work).await);
            }
            9 => {
                let election = self.election(&session);
                if let Some(Ok(leadership)) = self.soon(election.campaign(value)).await {
                    let value = self.value();
                    self.soon(leadership.proclaim(value)).await;
                    drop(leadership.resign().await);
                }
                let work = |_| async { panics() };
                drop(self.soon(election.run_while_leader("v", work)).await);
            }
            10 => {
                let election = self.election(&session);
                drop(election.leader().await);
                let mut observer = election.observe();
                self.soon(observer.next()).await;
            }
            11 => {
                let mut watcher = admin.watch_locks(name.clone());
                while let Some(Some(Ok(_))) = self.soon(watcher.next()).await {}
                drop(admin.list_locks_page(&name, 65_535, &name).await);
            }
            12 => {
                let (token, within) = (self.token(), self.duration());
                let request = admin.request_release(&name).holder(token);
                drop(request.reason(name.clone()).within(within).send().await);
                drop(admin.force_release_holder(&name, token).await);
                drop(admin.force_release_waiter(&name, u64::MAX).await);
                drop(admin.check_token(&name, token).await);
                drop(admin.end_session(&name).await);
                drop(admin.get_lock(&name).await);
            }
            13 => {
                let mut builder = client.session().client_name(name.clone());
                match self.random.u8(..4) {
                    0 => builder = builder.ttl(self.duration()),
                    1 => builder = builder.disconnect_grace(self.duration()),
                    2 => builder = builder.metadata(name, self.name()),
                    _ => {}
                }
                if let Some(Ok(session)) = self.soon(builder.open()).await {
                    let request = self.lock(&session);
                    drop(request.clone().try_acquire().await);
                    tokio::join!(session.close(), session.close(), async {
                        drop(request.await)
                    });
                }
            }
            14 => {
                let request = self.lock(self.side.clone().default_session());
                tokio::join!(self.side.close(), self.side.close(), async {
                    drop(request.await)
                });
            }
            _ => {
                let (good, port) = (&self.endpoint, self.endpoint.trim_start_matches("http://"));
                let endpoints = [
                    format!("{good}/path"),
                    format!("{good}x"),
                    format!("https://{port}"),
                    good.clone(),
                    name,
                ];
                let endpoint = endpoints[self.random.usize(..endpoints.len())].clone();
                let mut builder = Client::builder()
                    .connect_timeout(self.duration())
                    .ttl(self.duration());
                builder = match self.random.u8(..4) {
                    0 => builder.bearer_token(self.name()),
                    1 => builder.tls_ca(self.name()),
                    2 => builder.tls_server_name(self.name()),
                    _ => builder.backoff(self.duration(), self.duration()),
                };
                if let Some(Ok(client)) = self.soon(builder.connect(endpoint)).await {
                    let mut request = client
                        .detached_lock(self.name())
                        .permits(self.count(), self.count());
                    request = request
                        .wait(self.duration())
                        .ttl(self.duration())
                        .value(value);
                    self.soon(request.acquire()).await;
                }
            }
        }
    }
}

/// Panics without a message.
fn panics() {
    resume_unwind(Box::new(Hostile))
}

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |given| given.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_calls_cost_nothing_but_themselves() {
    let (seed, seconds) = (number("HOSTILE_SEED", 1), number("HOSTILE_SECONDS", 3));
    leasehold_tests::report(format!("HOSTILE_SEED={seed}"));
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    // Longer than a busy machine keeps a process waiting: the lock must be lost by what a call does, and not by the clock.
    let client = Client::builder().ttl(Duration::from_secs(120));
    let client = client.connect(endpoint.as_str()).await.unwrap();
    let important = client.lock("important").await.unwrap();
    drop(client.admin().watch_locks("").next().await);
    client.admin().get_lock("a").await.unwrap();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();

    let end = Instant::now() + Duration::from_secs(seconds);
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (client, endpoint, held) = (client.clone(), endpoint.clone(), important.watch());
        workers.spawn(async move {
            let mut random = Rng::with_seed(seed.wrapping_mul(WORKERS).wrapping_add(worker));
            let mut calls = 0_u64;
            let mut side = Client::connect(endpoint.as_str()).await.unwrap();
            while Instant::now() < end {
                if calls % 50 == 49 {
                    side = Client::connect(endpoint.as_str()).await.unwrap();
                }
                let call = Call {
                    random: random.fork(),
                    client: client.clone(),
                    side: side.clone(),
                    endpoint: endpoint.clone(),
                };
                let made = timeout(CALL_LIMIT, tokio::spawn(call.make())).await;
                let made = made.unwrap_or_else(|_| panic!("call {calls} of {worker} hangs"));
                let panic = made.err().map(tokio::task::JoinError::into_panic);
                if let Some(panic) =
                    panic.filter(|panic: &Box<dyn Any + Send>| !panic.is::<Hostile>())
                {
                    resume_unwind(panic);
                }
                assert!(held.is_held(), "lost after call {calls} of {worker}");
                calls += 1;
            }
            calls
        });
    }
    let calls: u64 = workers.join_all().await.into_iter().sum();
    leasehold_tests::report(format!("{calls} calls"));

    wait::until("all else to end", LIMIT, || async {
        let admin = client.admin();
        let mut locks = admin.list_locks("").await.unwrap();
        locks.retain(|lock| !lock.holders.is_empty() && lock.name != "important");
        let sessions = admin.list_sessions().await.unwrap();
        match (locks.len(), sessions.len(), tasks()) {
            (0, 1, left) if left <= before => Ok(()),
            _ => Err((locks, sessions.len(), tasks(), before)),
        }
    })
    .await;
    important.release().await.unwrap();
}
