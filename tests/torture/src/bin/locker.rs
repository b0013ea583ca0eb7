//! Hand-written locker of the torture run: SET NX PX with a random value, and a release that compares it, as many applications do.
//!
//! `torture-locker NAME SERVERS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE`. Half of its locks are keys of its own, beside
//! Leasehold's on the same servers. The others are locks that Leasehold's clients take, by the same key: their holds exclude each other.

use std::{sync::Arc, time::Duration};

use leasehold_torture::{
    history::now,
    locks::Cycle,
    worker::{self, Arguments, Registers, Worker, after, left},
};
use rand::{Rng, rngs::StdRng};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult,
    ServerErrorKind, aio::MultiplexedConnection,
};
use tokio::time::sleep;

/// Pause between two attempts.
const POLL: Duration = Duration::from_millis(20);
/// Longest time between two writes to a register.
const LOOK: Duration = Duration::from_millis(40);
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time for an answer.
const ANSWER: Duration = Duration::from_secs(1);
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    worker::run(live).await
}

async fn live(worker: Arc<Worker>, mut random: StdRng) {
    let mut store = Store::new(&worker.arguments);
    let registers = Registers::default();
    while !worker.stop.is_cancelled() {
        let cycle = Cycle::draw_foreign(&mut random);
        let value: u128 = random.random();
        let value = format!("{value:032x}");
        run(&worker, &mut store, &cycle, &value, &registers).await;
        tokio::select! {
            () = sleep(cycle.pause) => {}
            () = worker.stop.cancelled() => {}
        }
    }
}

async fn run(
    worker: &Worker,
    store: &mut Store,
    cycle: &Cycle,
    value: &str,
    registers: &Registers,
) {
    let ttl = worker.arguments.ttl;
    // It stands in no queue.
    let ask = worker.asks(cycle, value);
    let give_up = after(now(), cycle.wait.unwrap_or_default());
    let key = cycle.key();
    let until = loop {
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(value).arg("NX").arg("PX");
        set.arg(ttl.as_millis() as u64);
        // Read before the command is sent, and 1 % less: clocks may run at different rates.
        let until = after(now(), ttl * 99 / 100);
        match store.send::<Option<String>>(&key, &set).await {
            Ok(Some(_)) if now() < until => break until,
            Ok(Some(_)) => {
                store.release(&key, value).await.ok();
                ask.ended("failed", "it had ended before it came");
                return;
            }
            Ok(None) if now() >= give_up => {
                ask.ended("timed_out", "");
                return;
            }
            Ok(None) => sleep(POLL).await,
            Err(error) => {
                // It may have been carried out.
                store.release(&key, value).await.ok();
                ask.ended("failed", &error.to_string());
                sleep(PAUSE).await;
                return;
            }
        }
    };
    // Who holds it reads a later time than who held it before. Leasehold's tokens are of another kind.
    let token = cycle
        .is_foreign()
        .then(|| i64::try_from(now()).unwrap_or(i64::MAX));
    let held = ask.granted(token, until);
    let end = after(now(), cycle.hold);
    while now() < end.min(until) {
        registers.write(worker, cycle, token).await;
        sleep(left(end.min(until)).min(LOOK)).await;
    }
    // It renews nothing: what it holds ends with its time at the latest.
    held.releasing();
    if let Ok(was_held) = store.release(&key, value).await {
        held.released(was_held);
    }
}

/// The server that takes writes for a key.
struct Store {
    servers: Vec<String>,
    topology: String,
    /// The server that answered last, with a connection to it.
    connection: Option<MultiplexedConnection>,
    next: usize,
}

impl Store {
    fn new(arguments: &Arguments) -> Self {
        Self {
            servers: arguments
                .endpoints
                .split(',')
                .map(ToOwned::to_owned)
                .collect(),
            topology: arguments.store.clone(),
            connection: None,
            next: 0,
        }
    }

    async fn send<T: FromRedisValue>(&mut self, key: &str, command: &Cmd) -> RedisResult<T> {
        let mut connection = self.connect(key).await?;
        let answer = command.query_async(&mut connection).await;
        if answer.is_ok() {
            self.connection = Some(connection);
        }
        answer
    }

    async fn release(&mut self, key: &str, value: &str) -> RedisResult<bool> {
        let mut release = redis::cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(key).arg(value);
        self.send(key, &release).await
    }

    /// Returns a connection to the master of a key: of several servers, the first that says that it is.
    async fn connect(&mut self, key: &str) -> RedisResult<MultiplexedConnection> {
        if let Some(connection) = self.connection.take()
            && self.topology != "cluster"
        {
            return Ok(connection);
        }
        let mut last = RedisError::from((ErrorKind::Io, "there is no server"));
        for _ in 0..self.servers.len() {
            let server = self.servers[self.next % self.servers.len()].clone();
            match open(&server, key, &self.topology).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
            self.next += 1;
        }
        Err(last)
    }
}

/// Connects to a server, and asks it whether it takes writes for a key.
async fn open(server: &str, key: &str, topology: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    let client = Client::open(server)?;
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    if topology == "cluster" {
        // Another server redirects even this.
        let _: bool = redis::cmd("EXISTS")
            .arg(key)
            .query_async(&mut connection)
            .await?;
    }
    let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
    let is_master = role.first().is_some_and(|role| match role {
        redis::Value::BulkString(role) => role == b"master",
        _ => false,
    });
    match is_master {
        true => Ok(connection),
        false => Err((ErrorKind::Server(ServerErrorKind::ReadOnly), "a replica").into()),
    }
}
