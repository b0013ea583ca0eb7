//! A Redis Cluster of three masters with a replica each.

mod line;
mod moving;

use std::time::Duration;

use redis::{Cmd, Connection};

use self::line::Line;
use crate::{
    hosts::Network,
    masters::hosts,
    redis_server::{RedisOptions, RedisServer},
    replicas::info,
    wait,
};

/// Number of masters at the start: nodes 0 to 2. Node 3 is the replica of node 0, and so on.
pub const MASTERS: usize = 3;

/// Number of slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// Longest time until all nodes agree.
const SETTLED: Duration = Duration::from_secs(30);

/// Six nodes, told apart by their index. Killed on drop.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    password: Option<String>,
}

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    node_timeout: Duration,
    redis: RedisOptions,
    password: Option<String>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            node_timeout: Duration::from_secs(1),
            redis: RedisOptions::default(),
            password: None,
        }
    }
}

impl ClusterOptions {
    /// Sets the time without an answer after which nodes take one of them for failed; 1 s by default.
    #[must_use]
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// Asks clients, and the nodes one another, for a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.redis = self.redis.password(password);
        self.password = Some(password.to_owned());
        self
    }

    /// Adds arguments for the nodes, such as `["--cluster-require-full-coverage", "no"]`.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.redis = self.redis.arguments(arguments);
        self
    }

    /// Has each node run on a host of its own.
    #[must_use]
    pub fn network(mut self, network: Option<&Network>) -> Self {
        self.redis = self.redis.network(network);
        self
    }

    /// Starts the nodes, makes a cluster of them, and waits until every node is content with it.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds, or `redis-server` is not installed.
    pub fn start(self) -> Cluster {
        let node_timeout = self.node_timeout.as_millis().to_string();
        let mut redis = self
            .redis
            .arguments(["--repl-diskless-sync-delay", "0"])
            .arguments(["--cluster-node-timeout", &node_timeout])
            // However long a replica was without its master, it may take over.
            .arguments(["--cluster-replica-validity-factor", "0"]);
        if let Some(password) = &self.password {
            redis = redis.arguments(["--masterauth", password]);
        }
        let nodes: Vec<_> = (0..2 * MASTERS)
            .map(|_| redis.clone().cluster_node().start())
            .collect();
        let mut connections: Vec<_> = nodes.iter().map(RedisServer::connection).collect();
        let ids = connections.iter_mut().map(|connection| {
            let id: String = cluster(&["MYID"])
                .query(connection)
                .expect("a node has an id");
            id
        });
        let ids = ids.collect();
        let cluster = Cluster {
            nodes,
            ids,
            password: self.password,
        };
        cluster.join(&mut connections);
        cluster
    }
}

impl Cluster {
    /// Starts a cluster without a password.
    ///
    /// # Panics
    ///
    /// As [`ClusterOptions::start`].
    pub fn start() -> Self {
        ClusterOptions::default().start()
    }

    /// Begins one that is configured otherwise.
    pub fn options() -> ClusterOptions {
        ClusterOptions::default()
    }

    fn join(&self, connections: &mut [Connection]) {
        let share = SLOTS.div_ceil(3);
        for (index, connection) in (0_u16..).zip(connections.iter_mut()) {
            run(connection, &["SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if usize::from(index) < MASTERS {
                let first = index * share;
                let last = (first + share).min(SLOTS) - 1;
                run(
                    connection,
                    &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()],
                );
            }
        }
        // All of them meet, which is faster than waiting until they have heard of one another.
        for (index, connection) in connections.iter_mut().enumerate() {
            for other in &self.nodes[..index] {
                let address = other.address();
                let (host, port) = (address.ip().to_string(), address.port());
                let bus = other.bus().expect("a node has a bus");
                run(
                    connection,
                    &["MEET", &host, &port.to_string(), &bus.to_string()],
                );
            }
        }
        for (index, connection) in connections.iter_mut().enumerate().skip(MASTERS) {
            let master = &self.ids[index - MASTERS];
            // Refused until it has met its master.
            wait::until_blocking("a node to become a replica", SETTLED, || {
                cluster(&["REPLICATE", master]).exec(connection)
            });
        }
        self.wait_until_ok();
    }

    /// Returns the nodes, in the order of their indices.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns one of them.
    ///
    /// # Panics
    ///
    /// If there is none of this index, like everything here that takes one.
    pub fn node(&self, index: usize) -> &RedisServer {
        &self.nodes[index]
    }

    /// Returns the URL of a store on the cluster, with the password.
    pub fn url(&self) -> String {
        let login = match &self.password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        format!("redis+cluster://{login}{}", hosts(&self.nodes))
    }

    /// Returns the slot of a key.
    ///
    /// # Panics
    ///
    /// If no node runs.
    pub fn slot_of(&self, key: &str) -> u16 {
        let node = self.nodes.iter().find(|node| node.is_running());
        cluster(&["KEYSLOT", key])
            .query(&mut node.expect("a node runs").connection())
            .expect("a node tells the slot of a key")
    }

    /// Returns the node that serves a slot: of those that claim it, the one with the newest claim.
    ///
    /// # Panics
    ///
    /// If none of the running nodes does.
    pub fn master_of(&self, slot: u16) -> usize {
        let claims = (0..self.nodes.len()).filter_map(|index| {
            let line = self.own_line(index)?;
            let claims = line.is_master() && line.serves(slot);
            claims.then_some((line.epoch, index))
        });
        match claims.max() {
            Some((_, index)) => index,
            None => panic!("no running node serves slot {slot}"),
        }
    }

    /// Returns a running replica of a node, if that has one.
    pub fn replica_of(&self, master: usize) -> Option<usize> {
        (0..self.nodes.len()).find(|&index| {
            self.own_line(index)
                .is_some_and(|line| line.master == self.ids[master])
        })
    }

    /// Has a replica take its master's place by `CLUSTER FAILOVER`, and waits until both say so.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub fn fail_over(&self, replica: usize) {
        let mut connection = self.nodes[replica].connection();
        let told = info(&mut connection, "replication");
        let master = self
            .nodes
            .iter()
            .position(|node| node.address().port().to_string() == told["master_port"])
            .expect("the master is one of the nodes");
        wait::until_blocking("a manual fail-over", SETTLED, || {
            // The attempt may be given up after five seconds, and is refused while another one is under way.
            let now = info(&mut connection, "replication");
            if now["role"] == "master" {
                return Ok(());
            }
            if now["master_link_status"] != "up" {
                return Err(format!("the replica has no link to its master: {now:?}"));
            }
            cluster(&["FAILOVER"])
                .exec(&mut connection)
                .map_err(|error| error.to_string())?;
            let patience = std::time::Instant::now() + Duration::from_secs(6);
            while std::time::Instant::now() < patience {
                if info(&mut connection, "replication")["role"] == "master" {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            Err("it was given up".to_owned())
        });
        let mut connection = self.nodes[master].connection();
        wait::until_blocking("the old master to be a replica", SETTLED, || {
            let now = info(&mut connection, "replication");
            if now["role"] == "slave" {
                Ok(())
            } else {
                Err(now)
            }
        });
    }

    /// Ends a node with SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Stops a node with SIGSTOP.
    pub fn pause(&self, index: usize) {
        self.nodes[index].stop();
    }

    /// Lets a node go on after a pause.
    pub fn resume(&self, index: usize) {
        self.nodes[index].cont();
    }

    /// Starts a node again after a kill; it finds its place by itself.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
    }

    /// Waits until every running node says that the cluster is well, sees the running nodes as they see themselves and
    /// every slot served by one of them, and every replica of one of them has its data.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub fn wait_until_ok(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_running() {
                let mut connection = node.connection();
                wait::until_blocking("a node to be content with the cluster", SETTLED, || {
                    self.content(index, &mut connection)
                });
            }
        }
    }

    fn content(&self, index: usize, connection: &mut Connection) -> Result<(), String> {
        let told: String = cluster(&["INFO"])
            .query(connection)
            .map_err(|error| error.to_string())?;
        if !told.contains("cluster_state:ok") {
            return Err(told);
        }
        let lines = self.lines(index).unwrap_or_default();
        let mut served = 0;
        for (other, id) in self.ids.iter().enumerate() {
            let line = lines.iter().find(|line| line.id == *id);
            let line = line.ok_or_else(|| format!("node {other} is unknown: {lines:?}"))?;
            let Some(own) = self.own_line(other) else {
                continue;
            };
            let sound = !line.flags.iter().any(|flag| flag.starts_with("fail"));
            if !sound || line.master != own.master || line.slots != own.slots {
                return Err(format!("node {other} is {own:?} and taken for {line:?}"));
            }
            served += line.served();
        }
        if served != u32::from(SLOTS) {
            return Err(format!("running nodes serve {served} slots: {lines:?}"));
        }
        let now = info(connection, "replication");
        let follows = now.get("master_port").is_some_and(|port| {
            let is_it = |node: &RedisServer| node.address().port().to_string() == *port;
            self.nodes
                .iter()
                .any(|node| is_it(node) && node.is_running())
        });
        if follows && now["master_link_status"] != "up" {
            return Err(format!("{now:?}"));
        }
        Ok(())
    }

    /// Returns a node's view of itself; `None` if it does not run.
    fn own_line(&self, index: usize) -> Option<Line> {
        self.lines(index)?.into_iter().find(Line::is_myself)
    }

    /// Returns a node's view of all nodes; `None` if it does not run.
    fn lines(&self, index: usize) -> Option<Vec<Line>> {
        if !self.nodes[index].is_running() {
            return None;
        }
        let text: String = cluster(&["NODES"])
            .query(&mut self.nodes[index].connection())
            .expect("a node tells of the others");
        Some(text.lines().map(Line::read).collect())
    }
}

fn cluster(words: &[&str]) -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg(words);
    command
}

fn run(connection: &mut Connection, words: &[&str]) {
    if let Err(error) = cluster(words).exec(connection) {
        panic!("CLUSTER {words:?} failed: {error}");
    }
}
