//! A Redis server for one test, and helpers to wait.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_store::redis::{
    link::{Link, LinkOptions},
    status::{DownCause, LinkStatus},
    url::RedisTarget,
};
use redis::{Cmd, Connection, FromRedisValue, Value};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use crate::store::ports::free_port;

/// Time that no step here exceeds, on a machine that is busy with other tests too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A `redis-server` on a free port of the loopback interface, without persistence. It ends with this value.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    directory: TempDir,
    arguments: Vec<String>,
    /// Over a Unix socket, opened before a test shuts anybody out.
    admin: Connection,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        let directory = TempDir::new().unwrap();
        let port = free_port();
        let (child, admin) = spawn(port, &directory, &arguments);
        Self {
            child,
            port,
            directory,
            arguments,
            admin,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn link(&self) -> Link {
        self.link_with(LinkOptions::default())
    }

    pub(crate) fn link_with(&self, options: LinkOptions) -> Link {
        Link::start(RedisTarget::parse(&self.url(), None).unwrap(), options)
    }

    pub(crate) fn admin<T: FromRedisValue>(&mut self, words: &str) -> T {
        command(words).query(&mut self.admin).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        (self.child, self.admin) = spawn(self.port, &self.directory, &self.arguments);
    }

    pub(crate) fn start_again_with(&mut self, arguments: &[&str]) {
        self.arguments
            .extend(arguments.iter().map(|&argument| argument.to_owned()));
        self.start_again();
    }

    /// Stops the process for a while, as a machine that hangs does: its sockets stay open.
    pub(crate) fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
    }

    pub(crate) fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn spawn(port: u16, directory: &TempDir, arguments: &[String]) -> (Child, Connection) {
    let socket = directory.path().join("redis.sock");
    _ = std::fs::remove_file(&socket);
    let mut child = Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ])
        .arg("--dir")
        .arg(directory.path())
        .arg("--unixsocket")
        .arg(&socket)
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server must be installed");
    let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    let begun = Instant::now();
    loop {
        if let Ok(connection) = client.get_connection() {
            return (child, connection);
        }
        let exited = child.try_wait().unwrap();
        if exited.is_some() || begun.elapsed() > PATIENCE {
            _ = child.kill();
            panic!("redis-server does not serve port {port}; exit status {exited:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a command of words that have no spaces in them; `""` is an empty word.
pub(crate) fn command(words: &str) -> Cmd {
    let mut command = Cmd::new();
    for word in words.split(' ') {
        command.arg(if word == "\"\"" { "" } else { word });
    }
    command
}

pub(crate) fn script(text: &str) -> Arc<str> {
    text.into()
}

pub(crate) fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// Runs one command over the connection of shard 0, which must succeed.
pub(crate) async fn run(link: &Link, words: &str) -> Value {
    let replies = link.execute(0, vec![command(words)]).await.unwrap();
    replies.items.into_iter().next().unwrap().unwrap()
}

pub(crate) async fn until_up(status: &mut watch::Receiver<LinkStatus>) -> u64 {
    let up = timeout(PATIENCE, status.wait_for(LinkStatus::is_up)).await;
    match *up.expect("the link should come up").unwrap() {
        LinkStatus::Up { epoch } => epoch,
        ref down => panic!("{down:?}"),
    }
}

/// Waits until the link is up after more than `epoch` connections.
pub(crate) async fn until_up_after(status: &mut watch::Receiver<LinkStatus>, epoch: u64) -> u64 {
    let later =
        |status: &LinkStatus| matches!(status, LinkStatus::Up { epoch: now } if *now > epoch);
    let up = timeout(PATIENCE, status.wait_for(later)).await;
    match *up.expect("the link should come back").unwrap() {
        LinkStatus::Up { epoch } => epoch,
        ref down => panic!("{down:?}"),
    }
}

/// Waits until the link is down for something other than its first dial, and returns cause and reason.
pub(crate) async fn until_down(status: &mut watch::Receiver<LinkStatus>) -> (DownCause, String) {
    let told = |status: &LinkStatus| matches!(status, LinkStatus::Down { cause, .. } if *cause != DownCause::Connecting);
    let down = timeout(PATIENCE, status.wait_for(told)).await;
    match &*down.expect("the link should go down").unwrap() {
        LinkStatus::Down { cause, reason } => (*cause, reason.to_string()),
        up => panic!("{up:?}"),
    }
}

/// Waits until the link is down for this very cause, and returns the reason.
pub(crate) async fn until_down_for(
    status: &mut watch::Receiver<LinkStatus>,
    wanted: DownCause,
) -> String {
    let told =
        |status: &LinkStatus| matches!(status, LinkStatus::Down { cause, .. } if *cause == wanted);
    let down = timeout(PATIENCE, status.wait_for(told)).await;
    match &*down
        .unwrap_or_else(|_| panic!("the link should be down for {wanted:?}"))
        .unwrap()
    {
        LinkStatus::Down { reason, .. } => reason.to_string(),
        up => panic!("{up:?}"),
    }
}
