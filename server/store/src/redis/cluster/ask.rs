//! Questions to cluster nodes about the state of the cluster.

use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use tokio::time::timeout;

use super::{
    super::{
        address::Address,
        dial::{Purpose, dial},
        replies::into_result,
        status::{DownCause, Fault, LinkError},
        url::RedisTarget,
    },
    node::Node,
    view::View,
};

/// Time-out of one node.
pub(super) const LIMIT: Duration = Duration::from_millis(500);

/// Answer of a node.
pub(super) struct Answer {
    pub(super) view: View,
    /// The reply to `CLUSTER NODES`.
    pub(super) nodes: String,
}

fn questions() -> Vec<Cmd> {
    ["SLOTS", "NODES"]
        .map(|what| {
            let mut command = redis::cmd("CLUSTER");
            command.arg(what);
            command
        })
        .into()
}

/// Asks a node over one of its command connections.
pub(super) async fn ask_node(node: &Node) -> Result<View, Fault> {
    let replies = match timeout(LIMIT, node.execute(questions())).await {
        Ok(Ok(replies)) => replies,
        Ok(Err(LinkError::Down { cause, reason })) => return Err(Fault { cause, reason }),
        Ok(Err(LinkError::Indeterminate { reason })) => {
            return Err(Fault::new(DownCause::TimedOut, reason));
        }
        Err(_) => return Err(silent(&node.address, LIMIT)),
    };
    read(replies.items, &node.address).map(|answer| answer.view)
}

/// Asks a server, which may be a replica, over a connection of its own.
///
/// `limit` is for the connection, and as much again for the answer.
pub(super) async fn ask_server(
    target: &RedisTarget,
    limit: Duration,
    attempt: usize,
) -> Result<Answer, Fault> {
    let address = target.address();
    let asked = async {
        let mut dialled = dial(target, &Purpose::Questions, limit, attempt).await?;
        let mut pipeline = redis::pipe();
        for question in questions() {
            pipeline.add_command(question);
        }
        let replies = dialled
            .connection
            .send_packed_commands(&pipeline, 0, pipeline.len())
            .await
            .map_err(|error| {
                let reason = format!("the connection to Redis at {address} broke: {error}");
                Fault::new(DownCause::Lost, reason)
            })?;
        read(replies.into_iter().map(into_result).collect(), address)
    };
    match timeout(limit + limit, asked).await {
        Ok(asked) => asked,
        Err(_) => Err(silent(address, limit)),
    }
}

fn silent(address: &Address, limit: Duration) -> Fault {
    let millis = limit.as_millis();
    let reason = format!("Redis at {address} did not tell of its cluster within {millis} ms");
    Fault::new(DownCause::TimedOut, reason)
}

pub(super) fn read(replies: Vec<RedisResult<Value>>, asked: &Address) -> Result<Answer, Fault> {
    let mut replies = replies.into_iter();
    let mut next = || match replies.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(refused(&error, asked)),
        None => Err(nonsense(asked)),
    };
    let (slots, nodes) = (next()?, next()?);
    let nodes: String = redis::from_redis_value(nodes).map_err(|_| nonsense(asked))?;
    match View::read(slots, &nodes, asked) {
        Some(view) => Ok(Answer { view, nodes }),
        None => Err(nonsense(asked)),
    }
}

fn refused(error: &redis::RedisError, asked: &Address) -> Fault {
    let code = error.code().unwrap_or("an error");
    if error
        .detail()
        .is_some_and(|detail| detail.contains("cluster support disabled"))
    {
        let reason = format!(
            "Redis at {asked} is no node of a cluster (cluster support disabled); for one server write redis://, or \
             rediss://, in the store URL"
        );
        return Fault::new(DownCause::WrongKind, reason);
    }
    let cause = DownCause::of(code, error.detail());
    let reason = format!("Redis at {asked} did not tell of its cluster ({code})");
    Fault::new(cause, reason)
}

fn nonsense(asked: &Address) -> Fault {
    let reason = format!(
        "Redis at {asked} tells of its cluster what cannot be understood; is it Redis 6.2 or later?"
    );
    Fault::new(DownCause::Rejected, reason)
}
