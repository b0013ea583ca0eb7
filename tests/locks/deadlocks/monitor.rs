//! Monitor of the commands that coordinators send to Redis.

use futures_util::StreamExt;
use leasehold_tests::{RedisServer, raw::PROMPT};
use tokio::task::JoinHandle;

/// The last thing that is asked.
const END: &str = "the monitor has seen enough";

/// Reads along with everything that a Redis server is asked.
pub(crate) struct Monitor {
    reading: JoinHandle<Asked>,
    redis: redis::aio::MultiplexedConnection,
}

/// Counts of commands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Commands of coordinators, each of which carries out many operations at a time.
    pub(crate) calls: u64,
    /// Commands, including those inside scripts, about the publications of blocked actors.
    pub(crate) of_blocked: u64,
}

impl Monitor {
    /// Starts to read.
    pub(crate) async fn start(server: &RedisServer) -> Self {
        let monitor = server.client().get_async_monitor().await;
        let mut lines = monitor
            .expect("Redis can be monitored")
            .into_on_message::<String>();
        let reading = tokio::spawn(async move {
            let mut asked = Asked::default();
            loop {
                let line = lines.next().await.expect("Redis goes on");
                if line.contains(END) {
                    return asked;
                }
                let is_call = line.contains("\"EVALSHA\"");
                asked.calls += u64::from(is_call);
                // Not what the tests ask themselves.
                let is_theirs = is_call || line.contains(" lua]");
                let of_blocked = is_theirs && line.contains("\"lh:blocked-waits:");
                asked.of_blocked += u64::from(of_blocked);
            }
        });
        Self {
            reading,
            redis: server.async_connection().await,
        }
    }

    /// Returns the counts since the start.
    pub(crate) async fn finish(mut self) -> Asked {
        let mut end = redis::cmd("ECHO");
        let said: String = end.arg(END).query_async(&mut self.redis).await.unwrap();
        assert_eq!(said, END);
        let seen = tokio::time::timeout(PROMPT, self.reading).await;
        seen.expect("the monitor sees the end").unwrap()
    }
}
