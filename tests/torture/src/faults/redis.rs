//! Commands that disturb a Redis server.

use std::time::Duration;

use leasehold_tests::RedisServer;
use redis::{AsyncConnectionConfig, Cmd, RedisResult, Value};

/// Longest time for a command. A server that stands still is no reason to wait: the fault was then that it stood still.
const ANSWER: Duration = Duration::from_secs(5);

/// Sends a command, and says on standard error if it failed: a server may be on its way down or up.
pub(super) async fn send(server: &RedisServer, command: &Cmd) -> Option<Value> {
    let sent: RedisResult<Value> = async {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER));
        let mut connection = server
            .client()
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        command.query_async(&mut connection).await
    }
    .await;
    match sent {
        Ok(answer) => Some(answer),
        Err(error) => {
            eprintln!("torture: {} did not answer: {error}", server.address());
            None
        }
    }
}

/// Returns a command of these words.
pub(super) fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}
