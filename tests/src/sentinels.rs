//! A Redis master with two replicas, watched by three sentinels.

mod options;
mod partition;

use std::{collections::HashMap, fs, net::SocketAddr, thread, time::Duration};

use redis::Connection;

pub use self::options::SentinelsOptions;
use crate::{
    masters::hosts,
    redis_server::{RedisOptions, RedisServer},
    replicas::Replicas,
    wait,
};

/// Name that the sentinels give the master.
pub const MASTER_NAME: &str = "locks";

/// The users that sentinels and replicas log in as, so that they can be shut out without anybody else.
const INSIDERS: [&str; 2] = ["sentinel", "replica"];
/// Password with which the sentinels log in.
const INSIDER_PASSWORD: &str = "insider";

/// Longest time until all sentinels know one another.
const SETTLED: Duration = Duration::from_secs(30);
/// Time for the sentinels to fail over. One that was held up for two seconds, as on a busy machine, does nothing for 30 (its mode TILT),
/// and may be held up again then.
const FAILED_OVER: Duration = Duration::from_secs(100);

/// 1 master, 2 replicas and 3 sentinels, told apart by their index (server 0 is the master at the start). Killed on
/// drop.
#[derive(Debug)]
pub struct Sentinels {
    redis: Replicas,
    sentinels: Vec<RedisServer>,
    options: SentinelsOptions,
}

impl Sentinels {
    /// Starts them without passwords.
    ///
    /// # Panics
    ///
    /// As [`SentinelsOptions::start`].
    pub fn start() -> Self {
        SentinelsOptions::default().start()
    }

    /// Begins some that are configured otherwise.
    pub fn options() -> SentinelsOptions {
        SentinelsOptions::default()
    }

    fn sentinel(&self, master: SocketAddr) -> RedisOptions {
        let (host, port) = (master.ip(), master.port());
        let [user, _] = INSIDERS;
        let down_after = self.options.down_after.as_millis();
        let failover_timeout = self.options.failover_timeout.as_millis();
        let configuration = format!(
            "sentinel monitor {MASTER_NAME} {host} {port} 2\n\
             sentinel auth-user {MASTER_NAME} {user}\n\
             sentinel auth-pass {MASTER_NAME} {INSIDER_PASSWORD}\n\
             sentinel down-after-milliseconds {MASTER_NAME} {down_after}\n\
             sentinel failover-timeout {MASTER_NAME} {failover_timeout}\n\
             sentinel parallel-syncs {MASTER_NAME} 2\n"
        );
        let network = self.options.redis[0].network_of();
        let options = RedisOptions::default()
            .network(network)
            .sentinel(configuration);
        match &self.options.sentinel_password {
            Some(password) => options.password(password),
            None => options,
        }
    }

    /// Waits until every sentinel knows the replicas and the other sentinels.
    fn settle(&self, master: SocketAddr) {
        let mut connections: Vec<_> = self.sentinels.iter().map(RedisServer::connection).collect();
        for connection in &mut connections {
            hurry(connection);
        }
        for connection in &mut connections {
            wait::until_blocking("a sentinel to know all others", SETTLED, || {
                let known = ask(connection);
                let field = |name| known.get(name).map(String::as_str);
                let settled = field("num-slaves") == Some("2")
                    && field("num-other-sentinels") == Some("2")
                    && field("flags") == Some("master")
                    && field("port") == Some(&*master.port().to_string());
                if settled { Ok(()) } else { Err(known) }
            });
            wait::until_blocking("a sentinel to agree with the others", SETTLED, || {
                redis::cmd("SENTINEL")
                    .arg("CKQUORUM")
                    .arg(MASTER_NAME)
                    .query::<String>(connection)
            });
        }
    }

    /// Returns the URL of a store on them, with the passwords.
    pub fn url(&self) -> String {
        self.url_through(&hosts(&self.sentinels))
    }

    /// Does the same for a client that reaches the sentinels at `hosts`, for example through proxies.
    pub fn url_through(&self, hosts: &str) -> String {
        let login = match &self.options.redis_password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        let query = match &self.options.sentinel_password {
            Some(password) => format!("?sentinel-password={password}"),
            None => String::new(),
        };
        format!("redis+sentinel://{login}{hosts}/{MASTER_NAME}{query}")
    }

    /// Returns the Redis servers.
    pub fn redis(&self) -> &Replicas {
        &self.redis
    }

    /// Returns the Redis servers, to kill or restart them.
    pub fn redis_mut(&mut self) -> &mut Replicas {
        &mut self.redis
    }

    /// Returns the sentinels, in the order of their indices.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Ends a sentinel with SIGKILL.
    ///
    /// # Panics
    ///
    /// If there is none of this index, like everything here that takes one.
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Stops a sentinel with SIGSTOP.
    pub fn pause_sentinel(&self, index: usize) {
        self.sentinels[index].stop();
    }

    /// Lets a sentinel go on after a pause.
    pub fn resume_sentinel(&self, index: usize) {
        self.sentinels[index].cont();
    }

    /// Starts a sentinel again after a kill, with its old state.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart_sentinel(&mut self, index: usize) {
        self.sentinels[index].restart();
        hurry(&mut self.sentinels[index].connection());
    }

    /// Returns the number of the master, by the newest configuration that any running sentinel knows.
    ///
    /// # Panics
    ///
    /// If no sentinel runs.
    pub fn master(&self) -> usize {
        let newest = self
            .sentinels
            .iter()
            .filter(|sentinel| sentinel.is_running())
            .map(|sentinel| {
                let known = ask(&mut sentinel.connection());
                let epoch: u64 = known["config-epoch"].parse().expect("an epoch is a number");
                let address = format!("{}:{}", known["ip"], known["port"]);
                (epoch, address.parse().expect("a sentinel tells an address"))
            })
            .max_by_key(|&(epoch, _): &(u64, SocketAddr)| epoch);
        let (_, address) = newest.expect("a sentinel runs");
        self.redis.index_of(address)
    }

    /// Ends the master with SIGKILL, and returns its index.
    pub fn kill_master(&mut self) -> usize {
        let master = self.master();
        self.redis.server_mut(master).kill();
        master
    }

    /// Stops the master with SIGSTOP, and returns its index.
    pub fn pause_master(&self) -> usize {
        let master = self.master();
        self.redis.server(master).stop();
        master
    }

    /// Waits until another server than `old` is the master by what a majority of the sentinels knows, and by its own
    /// word, and returns its index.
    ///
    /// # Panics
    ///
    /// If that takes longer than 100 seconds.
    pub fn wait_failed_over(&self, old: usize) -> usize {
        let port = self.redis.server(old).address().port().to_string();
        wait::until_blocking("the sentinels to have failed over", FAILED_OVER, || {
            let moved_on = self
                .sentinels
                .iter()
                .filter(|sentinel| sentinel.is_running())
                .filter(|sentinel| ask(&mut sentinel.connection())["port"] != port)
                .count();
            if moved_on < 2 {
                return Err("too few of them have".to_owned());
            }
            let new = self.master();
            let role: redis::Value = redis::cmd("ROLE")
                .query(&mut self.redis.server(new).connection())
                .map_err(|error| error.to_string())?;
            match role {
                redis::Value::Array(words)
                    if words.first() == Some(&redis::Value::BulkString("master".into())) =>
                {
                    Ok(new)
                }
                role => Err(format!("server {new} says {role:?}")),
            }
        })
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        for sentinel in &self.sentinels {
            eprintln!("what the sentinel at {} logged last:", sentinel.address());
            let log = fs::read_to_string(sentinel.directory().join("redis.log"));
            let log = log.unwrap_or_default();
            for line in log.lines().skip(log.lines().count().saturating_sub(40)) {
                eprintln!("  {line}");
            }
        }
    }
}

/// Has a sentinel ping, ask what servers are and tell others of itself more often than every 1, 10 and 2 seconds. Then they
/// know one another soon, a server that has come back is a replica soon, and a connection that broke is not mistaken for a
/// server that is down, as it is where pings are as rare as `down-after-milliseconds`.
fn hurry(connection: &mut Connection) {
    redis::cmd("SENTINEL")
        .arg("DEBUG")
        .arg(&["PING-PERIOD", "200"])
        .arg(&["INFO-PERIOD", "500"])
        .arg(&["PUBLISH-PERIOD", "500"])
        .exec(connection)
        .expect("a sentinel of Redis 7 can be hurried");
}

/// Returns a sentinel's view of the master.
fn ask(connection: &mut Connection) -> HashMap<String, String> {
    let mut known: HashMap<String, String> = redis::cmd("SENTINEL")
        .arg("MASTER")
        .arg(MASTER_NAME)
        .query(connection)
        .expect("a sentinel answers");
    // While a fail-over is being finished, the former tells the old address with the new epoch, and this the new one.
    let (ip, port) = redis::cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(MASTER_NAME)
        .query(connection)
        .expect("a sentinel answers");
    known.insert("ip".to_owned(), ip);
    known.insert("port".to_owned(), port);
    known
}
