//! Acknowledgement by replicas, awaited before the answer to a command is given.
//!
//! `WAIT` blocks its connection, and covers what the server had written before that connection's own last write. So the store
//! sends it over separate connections, behind a small write, and a dead replica delays only the answers that wait for it.
//! Commands that come while all of these connections wait share the next `WAIT`.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use leasehold_core::failure::StoreError;
use leasehold_core::id::CoordinatorId;
use redis::{Cmd, RedisResult, Value};
use tokio::{sync::oneshot, time::timeout};

use super::{
    dial::RunId,
    errors::{call_error, link_error},
    keys,
    link::{Link, LinkOptions},
};
use crate::{
    lane::Lane,
    store::{Acknowledgement, Options, unanswered},
};

/// Connections that may wait for replicas at the same time. With fewer, a dead replica would delay answers that a living one
/// has acknowledged; more would be idle.
const AT_ONCE: usize = 4;
/// Time for which the small write stays. Until then, it can be repeated even if the server is out of memory.
const KEPT: Duration = Duration::from_secs(3600);
/// Most slots in which the small write is tried before the store gives up.
const TRIES: usize = 4;

/// Handle to ask the replicas of one master.
pub(super) struct Acknowledger {
    wanted: Acknowledgement,
    link: Link,
    coordinator: CoordinatorId,
    lane: Lane<Request>,
    /// The connections that do not wait for replicas; one for each call that the lane may begin.
    idle: Mutex<Vec<usize>>,
    /// The slot of the last small write; -1 before the first.
    usual: AtomicI32,
}

/// Request to confirm that replicas have all that the server had done when this was made.
struct Request {
    /// The slot of the command: the small write can go there, unless the slot is being moved.
    slot: u16,
    /// The run of the server that did it.
    run: RunId,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

impl Acknowledgement {
    /// Returns the options of its link, whose time-out exceeds the replicas', so that a dead replica does not break the link.
    pub(super) fn link_options(self, options: &Options) -> LinkOptions {
        LinkOptions {
            connections: AT_ONCE,
            command_timeout: self.timeout + options.timeout,
            meter: options.meter.clone(),
            ..LinkOptions::default()
        }
    }

    fn wait(self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        // 0 would wait for ever.
        wait.arg(self.replicas).arg(millis(self.timeout).max(1));
        wait
    }

    /// Judges the replies to the small writes and to the `WAIT` behind them. Returns the run of the server that enough replicas
    /// have acknowledged, or why none is; fails if nothing was written.
    fn judge(
        self,
        mut replies: Vec<RedisResult<Value>>,
        run: Option<RunId>,
    ) -> Result<Result<RunId, StoreError>, StoreError> {
        let acknowledged: RedisResult<u32> = match replies.pop() {
            Some(Ok(value)) => redis::from_redis_value(value).map_err(Into::into),
            Some(Err(error)) => Err(error),
            None => Ok(0),
        };
        let written = replies.pop().unwrap_or(Ok(Value::Nil));
        // The only other reply is that of `ASKING`, which is a word.
        let is_extended = replies
            .iter()
            .any(|reply| matches!(reply, Ok(Value::Int(1))));
        if let Err(error) = &written
            && !is_extended
        {
            return Err(indeterminate(&call_error(error)));
        }
        let acknowledged = acknowledged.map_err(|error| indeterminate(&call_error(&error)))?;
        if acknowledged < self.replicas {
            tracing::debug!(
                acknowledged,
                wanted = self.replicas,
                "too few replicas have acknowledged"
            );
            return Ok(Err(self.missed()));
        }
        Ok(run.ok_or_else(|| StoreError::Indeterminate {
            reason: "the connection ended while replicas were asked".to_owned(),
        }))
    }

    fn missed(self) -> StoreError {
        StoreError::NotReplicated {
            replicas: self.replicas,
            timeout: self.timeout,
        }
    }
}

impl Acknowledger {
    /// Returns a handle over a link to the master, made with [`Acknowledgement::link_options`].
    pub(super) fn new(link: Link, wanted: Acknowledgement, coordinator: CoordinatorId) -> Self {
        Self {
            wanted,
            link,
            coordinator,
            lane: Lane::new(AT_ONCE),
            idle: Mutex::new((0..AT_ONCE).collect()),
            usual: AtomicI32::new(-1),
        }
    }

    /// Waits until enough replicas have all that the server's run had done when this was called.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotReplicated`] if they have not within the time-out; [`StoreError::Indeterminate`] if that is not known.
    pub(super) async fn confirm(
        self: &Arc<Self>,
        slot: u16,
        run: Option<RunId>,
    ) -> Result<(), StoreError> {
        let Some(run) = run else {
            return Err(StoreError::Indeterminate {
                reason: "the connection ended before replicas could be asked, or its user may not ask INFO".to_owned(),
            });
        };
        let (answer, answered) = oneshot::channel();
        if self.lane.push(Request { slot, run, answer }) {
            let this = Arc::clone(self);
            tokio::spawn(async move { this.lane.drive(|batch| this.serve(batch)).await });
        }
        match timeout(self.wanted.timeout, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(unanswered()),
            Err(_) => Err(self.wanted.missed()),
        }
    }

    /// Asks once for a batch of requests, except those whose callers have given up meanwhile.
    async fn serve(&self, mut batch: Vec<Request>) {
        batch.retain(|request| !request.answer.is_closed());
        if batch.is_empty() {
            return;
        }
        let usual = u16::try_from(self.usual.load(Ordering::Relaxed)).ok();
        // The lane has no more calls in flight than there are connections.
        let connection = self.take_idle();
        let asked = self.ask(connection, slots(usual, &batch)).await;
        self.idle().push(connection);
        if let Ok((_, slot)) = &asked {
            self.usual.store(i32::from(*slot), Ordering::Relaxed);
        }
        let asked = asked.and_then(|(run, _)| run);
        for request in batch {
            let result = acknowledged(&request.run, &asked);
            // The caller may have given up.
            let _ = request.answer.send(result);
        }
    }

    /// Takes a connection that is up, or any if none is.
    fn take_idle(&self) -> usize {
        let mut idle = self.idle();
        let up = idle.iter().rposition(|index| self.link.is_up(*index));
        match up {
            Some(place) => idle.swap_remove(place),
            None => idle.pop().unwrap_or_default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<usize>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks enough replicas, over a connection, to acknowledge all earlier writes. Returns the run of the server that confirms
    /// it, or why not, and the slot that was written; fails if no slot could be written.
    async fn ask(
        &self,
        connection: usize,
        slots: Vec<u16>,
    ) -> Result<(Result<RunId, StoreError>, u16), StoreError> {
        let last = slots.last().copied();
        let tries = slots.into_iter().map(|slot| (slot, false));
        // A slot that is still moving here is written with `ASKING`.
        let tries = tries.chain(last.map(|slot| (slot, true)));
        let mut refused = unanswered();
        for (slot, asking) in tries {
            match self.ask_once(connection, slot, asking).await {
                Ok(answer) => return Ok((answer, slot)),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Asks after a write to this slot; fails if it could not be written.
    async fn ask_once(
        &self,
        connection: usize,
        slot: u16,
        asking: bool,
    ) -> Result<Result<RunId, StoreError>, StoreError> {
        let mut commands = Vec::new();
        for write in self.writes(slot) {
            commands.extend(asking.then(|| redis::cmd("ASKING")));
            commands.push(write);
        }
        commands.push(self.wanted.wait());
        let replies = self.link.execute(connection, commands).await;
        let replies = replies.map_err(|error| indeterminate(&link_error(&error)))?;
        let run = self.link.run(replies.connection);
        self.wanted.judge(replies.items, run)
    }

    /// Returns the small writes. Without one, `WAIT` answers at once, and means nothing. The first works if the key exists,
    /// also when the server is out of memory.
    fn writes(&self, slot: u16) -> [Cmd; 2] {
        let key = keys::acknowledged(slot, &self.coordinator);
        let mut extend = redis::cmd("PEXPIRE");
        extend.arg(&key).arg(millis(KEPT));
        let mut write = redis::cmd("SET");
        write.arg(&key).arg("").arg("PX").arg(millis(KEPT));
        [extend, write]
    }
}

/// Returns the slots for the small write: any slot of the server will do, because `WAIT` covers all that it wrote. The slots
/// of a batch may be moving to or from another node of a cluster.
fn slots(usual: Option<u16>, batch: &[Request]) -> Vec<u16> {
    let mut slots: Vec<u16> = Vec::with_capacity(TRIES);
    let of_batch = batch.iter().map(|request| request.slot);
    for slot in usual.into_iter().chain(of_batch) {
        if slots.len() < TRIES && !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    slots
}

/// Checks that the run whose replicas have acknowledged is the one that executed the command.
fn acknowledged(run: &RunId, asked: &Result<RunId, StoreError>) -> Result<(), StoreError> {
    match asked {
        Ok(asked) if asked != run => Err(StoreError::Indeterminate {
            reason: "another server, or the same after a restart, has taken the master's place"
                .to_owned(),
        }),
        Ok(_) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

/// Returns the error of a command that was executed but may not be acknowledged.
fn indeterminate(error: &StoreError) -> StoreError {
    StoreError::Indeterminate {
        reason: format!("replicas could not be asked to acknowledge it: {error}"),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const WANTED: Acknowledgement = Acknowledgement {
        replicas: 2,
        timeout: Duration::from_millis(300),
    };

    #[test]
    fn as_many_replicas_are_asked_for_as_are_wanted() {
        let packed = WANTED.wait().get_packed_command();
        assert_eq!(packed, b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$3\r\n300\r\n");
    }

    #[test]
    fn fewer_replicas_than_wanted_acknowledge_nothing() {
        let run = RunId::from("one");
        let answered = |number| {
            let replies = vec![Ok(Value::Int(1)), Ok(Value::Okay), Ok(Value::Int(number))];
            WANTED.judge(replies, Some(Arc::clone(&run))).unwrap()
        };
        for too_few in [0, 1] {
            let missed = answered(too_few);
            assert!(
                matches!(missed, Err(StoreError::NotReplicated { replicas: 2, .. })),
                "{too_few}: {missed:?}"
            );
        }
        for enough in [2, 3] {
            assert_eq!(answered(enough).unwrap(), run);
        }
    }

    #[test]
    fn without_a_write_before_it_an_acknowledgement_means_nothing() {
        let failed = || Err((redis::ErrorKind::Client, "failed").into());
        let run = || Some(RunId::from("one"));
        let unwritten = WANTED.judge(vec![Ok(Value::Int(0)), failed(), Ok(Value::Int(2))], run());
        assert!(
            matches!(unwritten, Err(StoreError::Indeterminate { .. })),
            "{unwritten:?}"
        );
        // The key was there, and lives on: that is a write.
        let extended = WANTED.judge(vec![Ok(Value::Int(1)), failed(), Ok(Value::Int(2))], run());
        assert!(extended.unwrap().is_ok());
        let cut_off = WANTED.judge(
            vec![Ok(Value::Int(1)), Ok(Value::Okay), Ok(Value::Int(2))],
            None,
        );
        assert!(
            matches!(cut_off, Ok(Err(StoreError::Indeterminate { .. }))),
            "{cut_off:?}"
        );
    }

    #[test]
    fn only_the_replicas_of_the_run_that_did_it_acknowledge_it() {
        let [run, other] = ["one", "other"].map(RunId::from);
        assert!(acknowledged(&run, &Ok(Arc::clone(&run))).is_ok());
        let elsewhere = acknowledged(&run, &Ok(other));
        assert!(
            matches!(elsewhere, Err(StoreError::Indeterminate { .. })),
            "{elsewhere:?}"
        );
        let missed = StoreError::NotReplicated {
            replicas: 1,
            timeout: Duration::from_secs(1),
        };
        let missed = acknowledged(&run, &Err(missed));
        assert!(
            matches!(missed, Err(StoreError::NotReplicated { .. })),
            "{missed:?}"
        );
    }
}
