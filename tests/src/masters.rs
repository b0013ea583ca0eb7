//! Several Redis masters that know nothing of one another.

use std::{fs, path::PathBuf, time::Duration};

use leasehold_store::{
    TlsFiles,
    quorum::bootstrap::{MasterSet, bootstrap},
};

use crate::redis_server::{RedisOptions, RedisServer};

/// Independent masters, told apart by their index. Killed on drop.
#[derive(Debug)]
pub struct Masters {
    servers: Vec<RedisServer>,
}

/// The data of one master, as they were at some time.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<u8>);

impl Masters {
    /// Starts masters that keep nothing on disk.
    ///
    /// # Panics
    ///
    /// As [`RedisOptions::start`].
    pub fn start(number: usize) -> Self {
        Self::start_with(&RedisOptions::default(), number)
    }

    /// Starts masters that are configured otherwise.
    ///
    /// # Panics
    ///
    /// As [`RedisOptions::start`].
    pub fn start_with(options: &RedisOptions, number: usize) -> Self {
        Self::start_each((0..number).map(|_| options.clone()))
    }

    /// Starts masters that are configured one by one.
    ///
    /// # Panics
    ///
    /// As [`RedisOptions::start`].
    pub fn start_each(masters: impl IntoIterator<Item = RedisOptions>) -> Self {
        let servers = masters.into_iter().map(RedisOptions::start).collect();
        Self { servers }
    }

    /// Declares a first start, as the command `quorum-bootstrap` does, so that all of them vote at once.
    ///
    /// # Panics
    ///
    /// If that is refused.
    #[must_use]
    pub fn bootstrapped(self) -> Self {
        let set = self.set();
        // Of its own: the caller may be in a runtime that must not block.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let done = std::thread::spawn(move || runtime.block_on(bootstrap(set))).join();
        done.expect("the bootstrap does not panic")
            .expect("the masters can be bootstrapped");
        self
    }

    /// Returns how the command `quorum-bootstrap` reaches them.
    pub fn set(&self) -> MasterSet {
        MasterSet {
            url: format!("redis+quorum://{}", self.hosts()),
            tls: TlsFiles::default(),
            key_prefix: "lock:".to_owned(),
            timeout: Duration::from_secs(2),
        }
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

    /// Returns `host:port,host:port,…`, as store URLs list them.
    pub fn hosts(&self) -> String {
        hosts(&self.servers)
    }

    /// Returns the `run_id` of one.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn run_id(&self, index: usize) -> String {
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let info: String = info
            .query(&mut self.servers[index].connection())
            .expect("the server tells of itself");
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        run.expect("the server tells its run").trim().to_owned()
    }

    /// Ends one with SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Stops one with SIGSTOP.
    pub fn pause(&self, index: usize) {
        self.servers[index].stop();
    }

    /// Lets one go on after a pause.
    pub fn resume(&self, index: usize) {
        self.servers[index].cont();
    }

    /// Starts one again (ending it first, if it runs) with what it has on disk: nothing, unless it was told to keep
    /// something there or [`Masters::restart_from`] put it there.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart(&mut self, index: usize) {
        self.servers[index].restart();
    }

    /// Does the same, but without any data.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart_empty(&mut self, index: usize) {
        self.clear(index);
        self.servers[index].restart();
    }

    /// Has one write its data down, and takes them.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn save(&self, index: usize) -> Snapshot {
        let mut connection = self.servers[index].connection();
        redis::cmd("SAVE")
            .exec(&mut connection)
            .expect("the server saves its data");
        let file = self.file(index);
        let data = fs::read(&file).expect("the saved data can be read");
        // A later restart must not find them by accident.
        fs::remove_file(&file).expect("the saved data can be removed");
        Snapshot(data)
    }

    /// Starts one again with the data of an earlier time.
    ///
    /// # Panics
    ///
    /// As [`RedisServer::restart`].
    pub fn restart_from(&mut self, index: usize, snapshot: &Snapshot) {
        self.clear(index);
        fs::write(self.file(index), &snapshot.0).expect("a file can be written");
        self.servers[index].restart();
    }

    fn file(&self, index: usize) -> PathBuf {
        self.servers[index].directory().join("dump.rdb")
    }

    /// Ends one and removes its data.
    fn clear(&mut self, index: usize) {
        self.servers[index].kill();
        // Whatever there is of them.
        let _ = fs::remove_file(self.file(index));
        let _ = fs::remove_dir_all(self.servers[index].directory().join("appendonlydir"));
    }
}

/// Returns `host:port,host:port,…`.
pub(crate) fn hosts(servers: &[RedisServer]) -> String {
    let hosts: Vec<_> = servers
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    hosts.join(",")
}
