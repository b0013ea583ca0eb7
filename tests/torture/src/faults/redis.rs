//! Commands that disturb a Redis server.

use std::time::Duration;

use leasehold_tests::RedisServer;
use redis::{AsyncConnectionConfig, Cmd, RedisResult, Value};

/// Longest time for a command. A server that stands still is no reason to wait: the fault was then that it stood still.
const ANSWER: Duration = Duration::from_secs(5);

/// Sends a command of these words, and says on standard error if it failed: a server may be on its way down or up.
pub(super) async fn send(server: &RedisServer, words: &[&str]) {
    let sent: RedisResult<Value> = async {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER));
        let mut connection = server
            .client()
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Cmd::new().arg(words).query_async(&mut connection).await
    }
    .await;
    if let Err(error) = sent {
        eprintln!("torture: {} did not answer: {error}", server.address());
    }
}
