//! Releases that nobody waits for, as a state machine without I/O: of holds whose client is gone, and of acquires that were
//! cancelled or whose reply was lost. Each is tried until the store has surely let it expire.
//!
//! A driver carries out what [`Cleanups::poll_output`] gives, in this order, tells what the store answers, and calls
//! [`Cleanups::handle_timeout`] at [`Cleanups::next_timeout`].

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use crate::{
    command::{Loss, Op, Reply, Stamped},
    failure::StoreError,
    id::OwnerId,
    name::LockName,
    session::{CommandId, PendingCleanup},
    time::{Moment, StoreTime},
};

/// Most releases under way at a time, so that the death of a client with very many locks leaves room for others.
const MAX_IN_FLIGHT: usize = 2048;
/// Time before another try after an error, or after a release that came before what it releases.
const RETRY: Duration = Duration::from_millis(100);
/// Added to that while the store is down: one of its connections may be up all the same.
const DOWN_RETRY: Duration = Duration::from_secs(1);

/// For how long a hold that was not renewed in time is kept, once it is known that nobody has resumed it, until its release.
const ASKED_FOR: Duration = Duration::from_secs(1);

/// Something that a driver does for clean-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Sends a command to the store.
    Store {
        /// Identifies the command's answer.
        id: CommandId,
        /// The lock.
        name: LockName,
        /// The operation.
        op: Op,
    },
    /// Its client has lost this hold, which was not renewed in time.
    Lost(LockName, OwnerId),
    /// Another stream has resumed this hold, which was not renewed in time here.
    Moved(OwnerId),
    /// Nothing is left of this owner id.
    Forget {
        /// The owner id.
        owner: OwnerId,
        /// The store's time of the release that ended its hold; `None` if there was no hold any more.
        released_at: Option<StoreTime>,
    },
    /// The name's next waiter can be served after this time, which may be zero: its coordinator looks then.
    Recheck(LockName, Duration),
    /// A release failed in a way that another try does not mend, and is tried again all the same.
    Failed(LockName, StoreError),
}

/// The releases that are still to be carried out.
#[derive(Debug, Default)]
pub struct Cleanups {
    ready: VecDeque<PendingCleanup>,
    in_flight: HashMap<CommandId, PendingCleanup>,
    /// By the time of their next try.
    retries: VecDeque<(Moment, PendingCleanup)>,
    is_store_down: bool,
    last_command: u64,
    outputs: VecDeque<Output>,
}

impl Cleanups {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ready.len() + self.in_flight.len() + self.retries.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one.
    pub fn add(&mut self, cleanup: PendingCleanup) {
        self.ready.push_back(cleanup);
    }

    /// Takes in whether the store can be reached.
    pub fn on_store_up(&mut self, is_up: bool) {
        self.is_store_down = !is_up;
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let cleanup = pop(&mut self.ready)?;
        self.last_command += 1;
        let id = CommandId::new(self.last_command);
        let output = Output::Store {
            id,
            name: cleanup.name.clone(),
            op: match cleanup.asks {
                true => Op::Renew {
                    owner: cleanup.owner,
                    token: None,
                    ttl: ASKED_FOR,
                },
                false => Op::Release {
                    owner: cleanup.owner,
                    end: cleanup.end,
                },
            },
        };
        self.in_flight.insert(id, cleanup);
        Some(output)
    }

    /// Returns the time of the next try.
    pub fn next_timeout(&self) -> Option<Moment> {
        let (due, _) = self.retries.front()?;
        let is_late = self.is_store_down;
        Some(if is_late { due.after(DOWN_RETRY) } else { *due })
    }

    /// Tries again what is due.
    pub fn handle_timeout(&mut self, now: Moment) {
        while self.next_timeout().is_some_and(|due| due <= now)
            && let Some((_, cleanup)) = pop(&mut self.retries)
        {
            self.ready.push_back(cleanup);
        }
    }

    /// Takes in the answer to a command.
    pub fn on_answer(&mut self, id: CommandId, result: Result<Stamped, StoreError>, now: Moment) {
        let Some(mut cleanup) = self.in_flight.remove(&id) else {
            return;
        };
        let owner = cleanup.owner;
        if let (true, Ok(stamped)) = (cleanup.asks, &result) {
            if matches!(stamped.executed.reply, Reply::Lost(Loss::Resumed)) {
                self.outputs.push_back(Output::Moved(owner));
                let released_at = None;
                self.outputs
                    .push_back(Output::Forget { owner, released_at });
                return;
            }
            let lost = Output::Lost(cleanup.name.clone(), owner);
            self.outputs.push_back(lost);
            cleanup.asks = false;
            return self.ready.push_back(cleanup);
        }
        let mut released_at = None;
        let is_over = match result {
            Ok(Stamped { executed, sent_at }) => {
                let (found, closed_for) = match executed.reply {
                    Reply::Released {
                        held,
                        waited,
                        closed_for,
                        ..
                    } => {
                        released_at = held.then_some(executed.at);
                        (held || waited, closed_for)
                    }
                    _ => (false, None),
                };
                if let Some(closed_for) = closed_for {
                    let recheck = Output::Recheck(cleanup.name.clone(), closed_for);
                    self.outputs.push_back(recheck);
                }
                let may_arrive = cleanup
                    .may_arrive_until
                    .is_some_and(|until| sent_at < until);
                found || !may_arrive
            }
            // The key is not even a lock's: nothing of ours is there.
            Err(StoreError::WrongType { .. }) => true,
            Err(error) => {
                // Once it is gone, the store has let it expire.
                let is_over = now >= cleanup.gone_at;
                if error.is_indeterminate() {
                    // It may have handed the lock on: whoever waits here finds out at once.
                    let recheck = Output::Recheck(cleanup.name.clone(), Duration::ZERO);
                    self.outputs.push_back(recheck);
                }
                if !is_over && !error.is_retryable() {
                    let failed = Output::Failed(cleanup.name.clone(), error);
                    self.outputs.push_back(failed);
                }
                is_over
            }
        };
        if is_over {
            if cleanup.asks {
                let lost = Output::Lost(cleanup.name.clone(), owner);
                self.outputs.push_back(lost);
            }
            self.outputs
                .push_back(Output::Forget { owner, released_at });
        } else {
            self.retries.push_back((now.after(RETRY), cleanup));
        }
    }
}

/// Removes the first item. Frees the memory that a burst needed.
fn pop<T>(queue: &mut VecDeque<T>) -> Option<T> {
    let first = queue.pop_front();
    if queue.is_empty() && queue.capacity() > MAX_IN_FLIGHT {
        *queue = VecDeque::new();
    }
    first
}

#[cfg(test)]
mod tests;
