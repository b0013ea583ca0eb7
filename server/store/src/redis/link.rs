//! Link to one Redis server, or to the present master: a few multiplexed connections for commands, and one that listens.
//!
//! This module, rather than the Redis library, dials, watches, gives up and redials each connection, because a lock service
//! must know the fate of every command. While a connection is down, a command fails at once and was surely not sent; a command
//! that was in flight when it broke is reported as indeterminate.

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::failure::StoreError;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::{
    sync::{mpsc, watch},
    time::{error::Elapsed, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    dial::{Listener, Purpose, RunId},
    fields::Garbled,
    handshake::load_script,
    listening::{Heard, forward_to},
    place::Place,
    replies::{each_error, into_result, is_missing_script, is_redirection, unfit},
    slot::{Live, Slot},
    status::{Board, DownCause, Fault, LinkError, LinkStatus},
    upkeep::{Timing, Upkeep},
    url::RedisTarget,
};
pub use super::{listening::Listening, slot::ConnectionId};
use crate::measure::Meter;

/// Options of a link. The defaults suit a Redis server in the same data centre.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Number of command connections, at least 1; 2 by default.
    pub connections: usize,
    /// Time-out of a batch, from its sending to its last reply, and of a ping; 1 s by default.
    pub command_timeout: Duration,
    /// Time-out of a dial as a whole: name resolution, TCP, TLS, login and set-up; 500 ms by default.
    pub dial_timeout: Duration,
    /// Interval of pings on a silent connection; 500 ms by default. A dead server is noticed within this time (twice, if
    /// commands were answered just before) plus `command_timeout`.
    pub ping_interval: Duration,
    /// Lua scripts that every command connection loads before it is used, to be called by `EVALSHA`.
    pub scripts: Vec<Arc<str>>,
    /// Notes what the server refuses.
    pub meter: Meter,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connections: 2,
            command_timeout: Duration::from_secs(1),
            dial_timeout: Duration::from_millis(500),
            ping_interval: Duration::from_millis(500),
            scripts: Vec::new(),
            meter: Meter::default(),
        }
    }
}

/// Link to one Redis server, or to the present master. Cheap to clone; when the last clone is dropped, its connections are
/// closed and its tasks end.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    place: Place,
    slots: Vec<Arc<Slot>>,
    board: Arc<Board>,
    scripts: Arc<[Arc<str>]>,
    timing: Timing,
    meter: Meter,
    /// Ended when this is dropped. They do not keep this alive.
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// Replies to one batch.
#[derive(Debug)]
pub struct Replies {
    /// One for each command, in order: the reply, or the server's error. An error *inside* a reply (a script's answer for one
    /// item) stays a [`Value::ServerError`] where it is.
    ///
    /// An error's text can repeat arguments of the command. If those are secret, show only its `code()`.
    pub items: Vec<RedisResult<Value>>,
    /// The connection over which they came.
    pub connection: ConnectionId,
}

impl Link {
    /// Starts to connect, and returns at once; [`Link::status`] shows when the link is up.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(target: RedisTarget, options: LinkOptions) -> Self {
        Self::start_at(Place::fixed(target), options)
    }

    /// Starts a link to a place that may move. Its connections follow at once: commands in flight are then indeterminate.
    pub(super) fn start_at(place: Place, options: LinkOptions) -> Self {
        let LinkOptions {
            connections,
            command_timeout,
            dial_timeout,
            ping_interval,
            scripts,
            meter,
        } = options;
        let scripts: Arc<[Arc<str>]> = scripts.into();
        let subject = place.to_string();
        let fault = Fault::new(
            DownCause::Connecting,
            format!("still connecting to {subject}"),
        );
        let timing = Timing {
            dial_timeout,
            command_timeout,
            ping_interval: ping_interval.max(Duration::from_millis(1)),
        };

        let connections = connections.max(1);
        let board = Arc::new(Board::new(subject.clone(), connections, &fault));
        let mut slots = Vec::with_capacity(connections);
        let mut tasks = Vec::with_capacity(connections);
        for index in 0..connections {
            let slot = Arc::new(Slot::new(index, Arc::clone(&board), fault.clone()));
            let upkeep = Upkeep {
                slot: Arc::clone(&slot),
                place: place.clone(),
                purpose: Purpose::Commands {
                    scripts: Arc::clone(&scripts),
                },
                timing,
                meter: meter.clone(),
                warns_of_eviction: index == 0,
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(upkeep.run())));
            slots.push(slot);
        }
        let inner = Inner {
            place,
            slots,
            board,
            scripts,
            timing,
            meter,
            _tasks: tasks,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Sends commands as one pipeline (not a transaction) over the connection that `shard` chooses, and returns a reply
    /// or an error for each.
    ///
    /// Batches of equal `shard` reach the server in the order in which they were first polled, as long as the
    /// connection lasts. The one exception: commands that fail because the server's script cache was emptied are sent
    /// again behind the rest, after the scripts were loaded.
    ///
    /// A `READONLY`, `MASTERDOWN`, `LOADING` or `BUSY` reply is returned as the error that it is: that command was not
    /// executed. The connection is given up nevertheless, because this server is no master, or serves nobody now.
    ///
    /// Commands must not be empty, block, or change the connection (`SUBSCRIBE`, `SELECT`, `MULTI`, `CLIENT REPLY`).
    ///
    /// # Errors
    ///
    /// [`LinkError::Down`] at once if the connection is down: nothing was sent. [`LinkError::Indeterminate`] if no reply
    /// came within the time-out, or the connection broke: anything may have happened, and may still happen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the commands: they may have been executed already, or be executed later. A caller
    /// that must know their fate runs this in a task of its own.
    pub async fn execute(&self, shard: usize, commands: Vec<Cmd>) -> Result<Replies, LinkError> {
        let slot = &self.inner.slots[shard % self.inner.slots.len()];
        let live = slot.live()?;
        let connection = live.id;
        if commands.is_empty() {
            return Ok(Replies {
                items: Vec::new(),
                connection,
            });
        }
        let fault = match self.in_time(self.send(slot, &live, commands)).await {
            Ok(Ok(items)) => {
                live.answered();
                return Ok(Replies { items, connection });
            }
            Ok(Err(error)) => {
                let fault = Fault::new(
                    DownCause::Lost,
                    format!("the connection to {self} broke: {error}"),
                );
                slot.give_up(live.id, fault.clone());
                fault
            }
            Err(_) => {
                let millis = self.inner.timing.command_timeout.as_millis();
                let fault = Fault::new(
                    DownCause::TimedOut,
                    format!("{self} did not answer within {millis} ms"),
                );
                if live.unanswered() {
                    slot.give_up(live.id, fault.clone());
                }
                fault
            }
        };
        Err(LinkError::Indeterminate {
            reason: fault.reason,
        })
    }

    /// Runs a future for the command time-out and a little more. If this process was too busy, a reply may be unread in the
    /// socket when the time is up: the extra time lets it be read before Redis is blamed.
    async fn in_time<F: Future>(&self, send: F) -> Result<F::Output, Elapsed> {
        tokio::pin!(send);
        match timeout(self.inner.timing.command_timeout, &mut send).await {
            Ok(output) => Ok(output),
            Err(_) => timeout(self.inner.timing.command_timeout / 20, send).await,
        }
    }

    /// Gives a connection up because one of its replies did not answer its command: commands in flight on it become
    /// indeterminate, and the link redials. Does nothing if that connection is gone already.
    pub fn mark_bad(&self, connection: ConnectionId, reason: &str) {
        let reason = format!("{self} sent a reply that does not answer its command: {reason}");
        let fault = Fault::new(DownCause::WrongReply, reason);
        for slot in &self.inner.slots {
            slot.give_up(connection, fault.clone());
        }
    }

    /// Gives a connection up because of a garbled reply. Returns the error for the caller.
    pub(crate) fn garbled(&self, connection: ConnectionId, garbled: Garbled) -> StoreError {
        let reason = garbled.reason();
        self.mark_bad(connection, reason);
        StoreError::Garbled {
            reason: reason.to_owned(),
        }
    }

    /// Returns the run of the server at the other end of a connection; `None` if the connection is gone, or the server does
    /// not report it.
    pub(crate) fn run(&self, connection: ConnectionId) -> Option<RunId> {
        let mut live = self.inner.slots.iter().filter_map(|slot| slot.live().ok());
        live.find(|live| live.id == connection)?.run.clone()
    }

    /// Returns whether a command connection is up.
    pub(super) fn is_up(&self, index: usize) -> bool {
        let slot = self.inner.slots.get(index);
        slot.is_some_and(|slot| slot.live().is_ok())
    }

    /// Returns whether all command connections are up, as it changes.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.inner.board.watch()
    }

    /// Subscribes to one channel over a connection of its own, until the result is dropped. `messages` gets what `read` makes of
    /// each payload. Messages that are published while that connection is down, or while `messages` is full, are lost: a message
    /// is a hint.
    pub fn subscribe<T: Send + 'static>(
        &self,
        channel: Vec<u8>,
        messages: mpsc::Sender<T>,
        read: impl Fn(Vec<u8>) -> Option<T> + Send + Sync + 'static,
    ) -> Listening {
        let of = Heard {
            channels: vec![channel],
            ..Heard::default()
        };
        self.listen("the subscription to", of, forward_to(messages, read))
    }

    /// Listens to channels over one more connection; the log shows `what` before the server's name.
    pub(super) fn listen(&self, what: &str, of: Heard, listener: Listener) -> Listening {
        let place = self.inner.place.clone();
        let what = format!("{what} {self}");
        let Inner {
            timing,
            board,
            meter,
            ..
        } = &*self.inner;
        Listening::start(place, *timing, (what, board, meter), of, listener)
    }

    /// Returns the number of command connections: batches whose shards are equal modulo this share one.
    pub fn connections(&self) -> usize {
        self.inner.slots.len()
    }

    /// Returns the database number that each connection selects.
    pub(super) fn database(&self) -> u32 {
        self.inner.place.database
    }

    async fn send(
        &self,
        slot: &Slot,
        live: &Live,
        commands: Vec<Cmd>,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut batch = Pipeline::with_capacity(commands.len());
        for command in commands {
            batch.add_command(command);
        }
        let mut results = self.round_trip(slot, live, &batch).await?;
        let unknown: Vec<usize> = (0..results.len())
            .filter(|&index| is_missing_script(&results[index]))
            .collect();
        if unknown.is_empty() {
            return Ok(results);
        }
        // One pipeline: the scripts go before the commands that need them.
        let scripts = &self.inner.scripts;
        let mut again = Pipeline::with_capacity(scripts.len() + unknown.len());
        for script in scripts.iter() {
            again.add_command(load_script(script));
        }
        for command in unknown
            .iter()
            .filter_map(|&index| batch.cmd_iter().nth(index))
        {
            again.add_command(command.clone());
        }
        let replies = self.round_trip(slot, live, &again).await?;
        for (index, reply) in unknown
            .into_iter()
            .zip(replies.into_iter().skip(scripts.len()))
        {
            results[index] = reply;
        }
        Ok(results)
    }

    async fn round_trip(
        &self,
        slot: &Slot,
        live: &Live,
        batch: &Pipeline,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut connection = live.connection.clone();
        let replies = connection
            .send_packed_commands(batch, 0, batch.len())
            .await?;
        if replies.len() != batch.len() {
            return Err(RedisError::from((
                ErrorKind::Parse,
                "the number of replies is not that of the commands",
            )));
        }
        each_error(&replies, &mut |error| {
            if unfit(error).is_some() {
                slot.give_up(live.id, Fault::answered(self, error));
            } else if !is_redirection(error) {
                self.inner.meter.refused(self, error);
            }
        });
        Ok(replies.into_iter().map(into_result).collect())
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner.place)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("place", &self.inner.place.to_string())
            .finish_non_exhaustive()
    }
}
