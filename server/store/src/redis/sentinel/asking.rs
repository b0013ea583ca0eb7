//! Task that asks one sentinel for the master, over a connection of its own.

use std::{sync::Arc, time::Duration};

use tokio::{
    select,
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};

use super::{
    super::{
        dial::{Dialled, Purpose, dial},
        status::{DownCause, Fault},
    },
    choice::Report,
    question::Question,
};

/// Interval of questions to a sentinel, unless there is reason to ask at once.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time-out of a dial, and of an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Task that asks one sentinel.
pub(super) struct Asking {
    pub(super) index: usize,
    pub(super) question: Question,
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
            let sentinel = &self.question.sentinel;
            let fault = match dial(sentinel, &Purpose::Questions, PATIENCE, attempt).await {
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
        let sentinel = self.question.sentinel.label();
        loop {
            let answer = match timeout(PATIENCE, self.question.ask(&mut connection)).await {
                Ok(Ok(replies)) => self.question.read(replies).map(|told| told.report),
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
