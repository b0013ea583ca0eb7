//! Question to a sentinel for the master, and the reading of its answer.

use std::{collections::HashMap, sync::Arc};

use redis::{Pipeline, RedisError, RedisResult, ServerError, Value, aio::MultiplexedConnection};

use super::{
    super::{
        address::Address,
        status::{DownCause, Fault},
        url::RedisTarget,
    },
    choice::Report,
};

/// Question to one sentinel.
pub(super) struct Question {
    pub(super) sentinel: RedisTarget,
    pub(super) master: Arc<str>,
}

/// Answer of a sentinel.
pub(super) struct Told {
    pub(super) report: Report,
    /// All that it tells of the master's state.
    pub(super) state: HashMap<String, String>,
}

impl Question {
    pub(super) async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Vec<Value>> {
        let mut questions = Pipeline::new();
        // The epoch first: it may then be older than the address, which the next answer corrects, but never newer. The address
        // has a question of its own because `MASTER` shows the old one while a sentinel finishes a fail-over.
        for question in ["MASTER", "GET-MASTER-ADDR-BY-NAME"] {
            questions.cmd("SENTINEL").arg(question).arg(&*self.master);
        }
        connection
            .send_packed_commands(&questions, 0, questions.len())
            .await
    }

    pub(super) fn read(&self, replies: Vec<Value>) -> Result<Told, Fault> {
        let mut replies = replies.into_iter();
        let (Some(state), Some(address)) = (replies.next(), replies.next()) else {
            return Err(self.nonsense());
        };
        for reply in [&state, &address] {
            if let Value::ServerError(error) = reply {
                return Err(self.refused(error));
            }
        }
        let read = || -> Result<Told, RedisError> {
            let state: HashMap<String, String> = redis::from_redis_value(state)?;
            let epoch = state.get("config-epoch").cloned().unwrap_or_default();
            let (host, port): (String, u16) = redis::from_redis_value(address)?;
            let report = Report {
                address: Address::new(&host, port),
                epoch: redis::from_redis_value(Value::BulkString(epoch.into()))?,
            };
            Ok(Told { report, state })
        };
        match read() {
            Ok(told) if !told.report.address.host.is_empty() && told.report.address.port != 0 => {
                Ok(told)
            }
            _ => Err(self.nonsense()),
        }
    }

    fn refused(&self, error: &ServerError) -> Fault {
        let sentinel = self.sentinel.label();
        let details = error.details().unwrap_or_default();
        if details.contains("No such master") {
            let reason = format!(
                "{sentinel} knows no master named {}; correct the name in the store URL, or have the sentinels monitor it",
                self.master
            );
            return Fault::new(DownCause::NoSuchMaster, reason);
        }
        if details.contains("unknown command") {
            let reason = format!(
                "{sentinel} is no sentinel; list the sentinels in the store URL, not the Redis servers"
            );
            return Fault::new(DownCause::WrongKind, reason);
        }
        let cause = DownCause::of(error.code(), error.details());
        let reason = format!("{sentinel} refused to tell of a master ({})", error.code());
        Fault::new(cause, reason)
    }

    fn nonsense(&self) -> Fault {
        let reason = format!(
            "{} tells of a master in no known way",
            self.sentinel.label()
        );
        Fault::new(DownCause::WrongReply, reason)
    }
}
