//! A Redis server for one test, and helpers to wait.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use leasehold_store::redis::{
    link::{Link, LinkOptions},
    status::{DownCause, LinkStatus},
    url::RedisTarget,
};
use leasehold_tests::RedisServer;
use redis::{Cmd, Connection, FromRedisValue, Value};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::common::{PATIENCE, until_up};

/// A server, and a connection of the test's own to it.
pub(crate) struct Server {
    redis: RedisServer,
    /// Over a Unix socket, opened before a test shuts anybody out.
    admin: Connection,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let socket = ["--unixsocket", "redis.sock"];
        let arguments = socket.into_iter().chain(arguments.iter().copied());
        let redis = RedisServer::options().arguments(arguments).start();
        let admin = admin(&redis);
        Self { redis, admin }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address().port()
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

    /// Starts it again after a kill.
    pub(crate) fn restart(&mut self) {
        self.redis.restart();
        self.admin = admin(&self.redis);
    }
}

impl Deref for Server {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.redis
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.redis
    }
}

fn admin(redis: &RedisServer) -> Connection {
    let socket = redis.directory().join("redis.sock");
    let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    client.get_connection().unwrap()
}

/// Dials a URL with what is left to the defaults.
pub(crate) fn link_to(url: &str) -> Link {
    Link::start(
        RedisTarget::parse(url, None).unwrap(),
        LinkOptions::default(),
    )
}

/// Asserts that messages come through to a subscription of the link's.
pub(crate) async fn carries_messages(link: &Link) {
    let (messages, mut received) = mpsc::channel(1);
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    until_up(&mut link.status()).await;
    until_up(&mut listening.status()).await;
    assert_eq!(run(link, "PUBLISH c hello").await, Value::Int(1));
    let message = timeout(PATIENCE, received.recv()).await.unwrap();
    assert_eq!(message.unwrap(), b"hello");
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
    until_down_because(status, |cause| cause != DownCause::Connecting).await
}

/// Waits until the link is down for this very cause, and returns the reason.
pub(crate) async fn until_down_for(
    status: &mut watch::Receiver<LinkStatus>,
    wanted: DownCause,
) -> String {
    until_down_because(status, |cause| cause == wanted).await.1
}

async fn until_down_because(
    status: &mut watch::Receiver<LinkStatus>,
    is_wanted: impl Fn(DownCause) -> bool,
) -> (DownCause, String) {
    let told =
        |status: &LinkStatus| matches!(status, LinkStatus::Down { cause, .. } if is_wanted(*cause));
    let down = timeout(PATIENCE, status.wait_for(told)).await;
    match &*down.expect("the link should go down for this").unwrap() {
        LinkStatus::Down { cause, reason } => (*cause, reason.to_string()),
        up => panic!("{up:?}"),
    }
}
