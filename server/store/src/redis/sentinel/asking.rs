//! Task that asks one sentinel for the master, over a connection of its own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::{Pipeline, RedisError, RedisResult, ServerError, Value, aio::MultiplexedConnection};
use tokio::{
    select,
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};

use super::{
    super::{
        address::Address,
        dial::{Dialled, Purpose, dial},
        status::{DownCause, Fault},
        url::RedisTarget,
    },
    choice::Report,
};

/// Interval of questions to a sentinel, unless there is reason to ask at once.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time-out of a dial, and of an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Task that asks one sentinel.
pub(super) struct Asking {
    pub(super) index: usize,
    pub(super) sentinel: RedisTarget,
    pub(super) master: Arc<str>,
    /// Receives each answer, with the index.
    pub(super) answers: mpsc::Sender<(usize, Result<Report, Fault>)>,
    /// Notified when there is reason to ask at once.
    pub(super) doubt: Arc<Notify>,
}

impl Asking {
    /// Asks until the receiver of the answers is gone.
    pub(super) async fn run(self) {
        let mut attempt = 0;
        loop {
            let fault = match dial(&self.sentinel, &Purpose::Questions, PATIENCE, attempt).await {
                Ok(dialled) => match self.ask_by(dialled).await {
                    Some(fault) => fault,
                    None => return,
                },
                Err(fault) => fault,
            };
            if !self.answer(Err(fault)).await {
                return;
            }
            attempt += 1;
            self.rest().await;
        }
    }

    /// Asks over one connection, until it breaks (and returns how), or the receiver of the answers is gone.
    async fn ask_by(&self, dialled: Dialled) -> Option<Fault> {
        // Closed at the end.
        let Dialled {
            mut connection,
            driver: _driver,
            ..
        } = dialled;
        let sentinel = self.sentinel.label();
        loop {
            let answer = match timeout(PATIENCE, self.ask(&mut connection)).await {
                Ok(Ok(replies)) => self.read(replies),
                Ok(Err(error)) => {
                    let reason = format!("the connection to {sentinel} broke: {error}");
                    return Some(Fault::new(DownCause::Lost, reason));
                }
                Err(_) => {
                    let millis = PATIENCE.as_millis();
                    let reason = format!("{sentinel} did not answer within {millis} ms");
                    return Some(Fault::new(DownCause::TimedOut, reason));
                }
            };
            if !self.answer(answer).await {
                return None;
            }
            self.rest().await;
        }
    }

    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<Vec<Value>> {
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

    fn read(&self, replies: Vec<Value>) -> Result<Report, Fault> {
        let mut replies = replies.into_iter();
        let (Some(state), Some(address)) = (replies.next(), replies.next()) else {
            return Err(self.nonsense());
        };
        for reply in [&state, &address] {
            if let Value::ServerError(error) = reply {
                return Err(self.refused(error));
            }
        }
        let read = || -> Result<Report, RedisError> {
            let state: HashMap<String, String> = redis::from_redis_value(state)?;
            let epoch = state.get("config-epoch").cloned().unwrap_or_default();
            let (host, port): (String, u16) = redis::from_redis_value(address)?;
            Ok(Report {
                address: Address::new(&host, port),
                epoch: redis::from_redis_value(Value::BulkString(epoch.into()))?,
            })
        };
        match read() {
            Ok(report) if !report.address.host.is_empty() && report.address.port != 0 => Ok(report),
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
            return Fault::new(DownCause::Rejected, reason);
        }
        let cause = match error.code() {
            "NOAUTH" | "NOPERM" => DownCause::Login,
            _ => DownCause::Rejected,
        };
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

    /// Sends an answer, and returns whether the receiver exists.
    async fn answer(&self, answer: Result<Report, Fault>) -> bool {
        self.answers.send((self.index, answer)).await.is_ok()
    }

    /// Waits until it is time to ask again.
    async fn rest(&self) {
        select! {
            () = sleep(INTERVAL) => {}
            () = self.doubt.notified() => {}
        }
    }
}
