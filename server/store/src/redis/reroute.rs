//! Refusals of a call that was not carried out and that another server, or a later attempt, may carry out.

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

use super::{
    address::Address,
    batch::Item,
    errors::{call_error, link_error},
    replies::met_moving_key,
    status::{DownCause, LinkError},
};
use crate::store::Stamped;
use leasehold_core::failure::StoreError;

/// Refusal of a call, which was surely not carried out.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// Its slot is another node's; the address is `host:port`, and no host means that of the answering node.
    Moved(String),
    /// Some of its keys have moved to another node, which does not have the slot yet.
    Ask(String),
    /// Some of its keys are here and some are not, while its slot moves to another node.
    TryAgain,
    /// The server can't execute commands now, but it, or another server in its place, may soon.
    NotNow(StoreError),
    /// Nothing was sent: the link is down.
    Down(StoreError),
}

/// Router of commands that one server of many did not carry out.
pub(super) trait Reroute: Send + Sync {
    /// Takes back items of one slot that were sent together to a node. None of them was carried out.
    fn returned(&self, items: Vec<Item>, refusal: Refusal, by: &Address);

    /// Observes the result of an item, before the caller receives it.
    fn answered(&self, item: &Item, stamped: &Stamped);
}

impl Refusal {
    /// Returns the refusal that a call's error means, if the call can safely be sent again.
    pub(super) fn of_call(error: &RedisError) -> Option<Self> {
        let address = || error.redirect_node().map(|(address, _)| address.to_owned());
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => address().map(Self::Moved),
            ErrorKind::Server(ServerErrorKind::Ask) => address().map(Self::Ask),
            ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Self::TryAgain),
            ErrorKind::Server(
                ServerErrorKind::ClusterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown,
            ) => Some(Self::NotNow(call_error(error))),
            _ => None,
        }
    }

    /// Returns the refusal that a link's error means, if the call can safely be sent again.
    pub(super) fn of_link(error: &LinkError) -> Option<Self> {
        let LinkError::Down { cause, .. } = error else {
            return None;
        };
        Some(match cause {
            DownCause::Connecting | DownCause::NotMaster | DownCause::Loading => {
                Self::NotNow(link_error(error))
            }
            _ => Self::Down(link_error(error)),
        })
    }

    /// Returns the refusal that the error of one command in a script means. A key that a call cannot name beforehand (see
    /// `lua/many.lua`) may be on another node while its slot moves; the script is idempotent, so it may run again.
    pub(super) fn of_command(error: &ServerError) -> Option<Self> {
        met_moving_key(error).then_some(Self::TryAgain)
    }

    /// Returns the error for the caller, if sending again failed too.
    pub(super) fn into_error(self) -> StoreError {
        let moving = |code| {
            format!(
                "the lock's hash slot is being moved to another node of the Redis Cluster ({code})"
            )
        };
        let reason = match self {
            Self::NotNow(error) | Self::Down(error) => return error,
            Self::Moved(to) => format!(
                "nodes of the Redis Cluster do not agree on who serves the lock's hash slot, at last sent to {to} (MOVED)"
            ),
            Self::Ask(_) => moving("ASK"),
            Self::TryAgain => moving("TRYAGAIN"),
        };
        StoreError::Unavailable { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        match reply {
            redis::Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refused_commands_are_distinguished_from_executed_ones() {
        let of = |text: &str| Refusal::of_call(&error(text));
        assert!(
            matches!(of("MOVED 3999 10.0.0.1:6381"), Some(Refusal::Moved(to)) if to == "10.0.0.1:6381")
        );
        assert!(matches!(of("ASK 3999 :6381"), Some(Refusal::Ask(to)) if to == ":6381"));
        assert!(matches!(
            of("TRYAGAIN Multiple keys request during rehashing of slot"),
            Some(Refusal::TryAgain)
        ));
        for text in [
            "CLUSTERDOWN The cluster is down",
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
        ] {
            assert!(matches!(of(text), Some(Refusal::NotNow(_))), "{text}");
        }
        for text in [
            "MOVED nonsense",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "ERR unknown command",
            "OOM command not allowed when used memory > 'maxmemory'",
        ] {
            assert!(of(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_script_that_met_a_key_on_its_way_is_tried_again() {
        let of = |text: &str| {
            let error = ServerError::try_from(error(text)).unwrap();
            Refusal::of_command(&error)
        };
        for text in [
            // Valkey 8, Redis 7, and 6.2.
            "ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot",
            "ERR Script attempted to access a non local key in a cluster node script: 1f, on @user_script:1.",
            "ERR Error running script (call to f_1f): @user_script:1: Lua script attempted to access a non local key in a \
             cluster node",
        ] {
            assert!(matches!(of(text), Some(Refusal::TryAgain)), "{text}");
        }
        assert!(of("WRONGTYPE Operation against a key holding the wrong kind of value").is_none());
    }
}
