//! A Redis master with replicas.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use redis::Connection;

use crate::{
    redis_server::{RedisOptions, RedisServer},
    wait,
};

/// Longest time until replicas are in step.
const IN_STEP: Duration = Duration::from_secs(20);

/// One master and its replicas, told apart by their index: 0 is the server that was the master at the start. Killed on
/// drop.
#[derive(Debug)]
pub struct Replicas {
    servers: Vec<RedisServer>,
}

impl Replicas {
    /// Starts a master and so many replicas, and waits until they are in step with it.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds, or `redis-server` is not installed.
    pub fn start(replicas: usize) -> Self {
        Self::start_with(RedisOptions::default(), replicas, None)
    }

    /// Does the same with servers that are configured otherwise; `login` is the user and the password that replicas log in
    /// with.
    ///
    /// # Panics
    ///
    /// As [`Replicas::start`].
    pub fn start_with(options: RedisOptions, replicas: usize, login: Option<(&str, &str)>) -> Self {
        Self::start_each(vec![options; replicas + 1], login)
    }

    /// Does the same with servers that are configured one by one: the first is the master.
    ///
    /// # Panics
    ///
    /// As [`Replicas::start`], or if there are none.
    pub fn start_each(servers: Vec<RedisOptions>, login: Option<(&str, &str)>) -> Self {
        let replicas = servers.len() - 1;
        let mut servers = servers.into_iter().map(|options| {
            // The master would wait five seconds for more replicas before it sends its data.
            let options = options.arguments(["--repl-diskless-sync-delay", "0"]);
            match login {
                Some((user, password)) => {
                    options.arguments(["--masteruser", user, "--masterauth", password])
                }
                None => options,
            }
        });
        let master = servers.next().expect("there is a master").start();
        let address = master.address();
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let following =
            servers.map(|options| options.arguments(["--replicaof", &host, &port]).start());
        let following: Vec<_> = following.collect();
        let mut servers = vec![master];
        servers.extend(following);
        let started = Self { servers };
        started.wait_in_step(0, replicas);
        started.wait_acknowledging(0, replicas);
        started
    }

    /// Waits until `replicas` replicas of `master` acknowledge what it writes. One that has just been brought into step is
    /// not asked before it has said so of itself, which it does once a second.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds.
    pub fn wait_acknowledging(&self, master: usize, replicas: usize) {
        let mut connection = self.servers[master].connection();
        wait::until_blocking("replicas to acknowledge", IN_STEP, || {
            let mut asked = redis::pipe();
            asked.cmd("SET").arg("in step").arg("").arg(&["PX", "1"]);
            asked.ignore().cmd("WAIT").arg(replicas).arg(100);
            match asked.query::<(usize,)>(&mut connection) {
                Ok((acknowledged,)) if acknowledged >= replicas => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Returns all servers, in the order of their indices.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns one of them.
    ///
    /// # Panics
    ///
    /// If there is none of this index, like everything here that takes one.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// Returns one of them, to kill or restart it.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// Returns the index of the server with this address.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn index_of(&self, address: SocketAddr) -> usize {
        let found = self
            .servers
            .iter()
            .position(|server| server.address() == address);
        found.unwrap_or_else(|| panic!("none of the servers has the address {address}"))
    }

    /// Waits until `replicas` replicas of `master` have all that it has now.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds.
    pub fn wait_in_step(&self, master: usize, replicas: usize) {
        // What it has now; it may go on writing.
        let mut wanted = None;
        wait::until_blocking("replicas to be in step", IN_STEP, || {
            // A new connection each time: sentinels end those of others when they make a server a master or a replica.
            let info = try_info(&mut self.servers[master].connection(), "replication")
                .map_err(|error| error.to_string())?;
            let wanted = *wanted.get_or_insert_with(|| offset(&info["master_repl_offset"]));
            let in_step = info.iter().filter(|(field, replica)| {
                let mut told = replica.split(',').filter_map(|told| told.split_once('='));
                let reached = told.find(|(told, _)| *told == "offset");
                field.starts_with("slave")
                    && replica.contains("state=online")
                    && reached.is_some_and(|(_, reached)| offset(reached) >= wanted)
            });
            if in_step.count() >= replicas {
                Ok(())
            } else {
                Err(format!("{wanted} wanted: {info:?}"))
            }
        });
    }
}

fn offset(text: &str) -> u64 {
    text.parse().expect("an offset is a number")
}

/// Returns a section of `INFO`, by field.
pub(crate) fn info(connection: &mut Connection, section: &str) -> BTreeMap<String, String> {
    try_info(connection, section).expect("the server answers INFO")
}

fn try_info(
    connection: &mut Connection,
    section: &str,
) -> redis::RedisResult<BTreeMap<String, String>> {
    let text: String = redis::cmd("INFO").arg(section).query(connection)?;
    let fields = text
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'));
    Ok(fields
        .map(|(field, value)| (field.to_owned(), value.to_owned()))
        .collect())
}
