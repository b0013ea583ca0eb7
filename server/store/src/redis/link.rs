//! A link to one Redis server, or to whichever is the master now: a few multiplexed connections for commands, and one that listens.
//!
//! The connections are ours rather than the Redis library's, because a lock service must know what became of a command:
//! each is dialled, watched, given up and dialled again here. While one is down, what would go over it fails at once
//! and was surely not sent; what was in flight when it broke is reported as indeterminate.

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::{
    sync::{mpsc, watch},
    time::{error::Elapsed, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    dial::Purpose,
    handshake::{RunId, load_script},
    listening::{Heard, Listener, Listening, forward_to},
    place::Place,
    replies::{into_result, is_missing_script, unfit_server},
    slot::{Live, Slot},
    status::{Board, DownCause, Fault, LinkError, LinkStatus},
    upkeep::{Timing, Upkeep},
    url::RedisTarget,
};

/// How a link behaves. The defaults suit a Redis server in the same data centre.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// How many command connections to keep, at least 1; 2 by default.
    pub connections: usize,
    /// How long a batch may take, from its sending to its last reply, and a ping likewise; 1 s by default.
    pub command_timeout: Duration,
    /// How long a dial may take in all: name resolution, TCP, TLS, login and set-up; 500 ms by default.
    pub dial_timeout: Duration,
    /// How often a connection on which nothing was heard is pinged; 500 ms by default. A server that answers nothing is
    /// found within this time (twice, if commands were answered just before) and `command_timeout`.
    pub ping_interval: Duration,
    /// Lua scripts that every command connection loads before it is used, to be called by `EVALSHA`.
    pub scripts: Vec<Arc<str>>,
    /// What to listen to, if anything.
    pub subscription: Option<Subscription>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connections: 2,
            command_timeout: Duration::from_secs(1),
            dial_timeout: Duration::from_millis(500),
            ping_interval: Duration::from_millis(500),
            scripts: Vec::new(),
            subscription: None,
        }
    }
}

/// One channel to listen to, over a connection of its own.
///
/// What is published while that connection is down is lost, and so is what finds `messages` full: a message is a hint.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The name of the channel.
    pub channel: Vec<u8>,
    /// Gets the payload of each message, as it was published.
    pub messages: mpsc::Sender<Vec<u8>>,
}

/// A link to one Redis server, or to whichever is the master now. Cheap to clone; when the last clone is dropped, its connections are closed and its tasks
/// end.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    place: Place,
    slots: Vec<Arc<Slot>>,
    board: Arc<Board>,
    subscription: Option<Listening>,
    scripts: Arc<[Arc<str>]>,
    timing: Timing,
    /// Dropped with this, which ends them. They hold nothing of this.
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// One connection of a link, among all that it has had: what [`Link::mark_bad`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId {
    slot: usize,
    generation: u64,
}

#[cfg(test)]
impl ConnectionId {
    /// The connection of this number among all that the first place of a link has had.
    pub(crate) const fn of_first(generation: u64) -> Self {
        Self {
            slot: 0,
            generation,
        }
    }
}

/// The replies to one batch.
#[derive(Debug)]
pub struct Replies {
    /// One for each command, in order: the reply, or the error that the server answered. An error *inside* a reply (a
    /// script's answer for one item) stays a [`Value::ServerError`] where it is.
    ///
    /// An error's text can repeat arguments of the command. Where those are secret, show its `code()` alone.
    pub items: Vec<RedisResult<Value>>,
    /// The connection that they came by.
    pub connection: ConnectionId,
}

impl Link {
    /// Starts to connect, and returns at once; [`Link::status`] tells when the link is up.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(target: RedisTarget, options: LinkOptions) -> Self {
        Self::start_at(Place::Fixed(target), options)
    }

    /// The same for a place that may move. Its connections follow it at once: what is in flight then is indeterminate.
    pub(super) fn start_at(place: Place, options: LinkOptions) -> Self {
        let LinkOptions {
            connections,
            command_timeout,
            dial_timeout,
            ping_interval,
            scripts,
            subscription,
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
                warns_of_eviction: index == 0,
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(upkeep.run())));
            slots.push(slot);
        }
        let subscription = subscription.map(|Subscription { channel, messages }| {
            Listening::start(
                place.clone(),
                timing,
                (format!("the subscription to {subject}"), &board),
                Heard {
                    channels: vec![channel],
                    ..Heard::default()
                },
                forward_to(messages),
            )
        });
        let inner = Inner {
            place,
            slots,
            board,
            subscription,
            scripts,
            timing,
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
    /// A `READONLY`, `MASTERDOWN` or `LOADING` reply is returned as the error that it is: that command was not
    /// executed. The connection is given up nevertheless, since this server is no master, or none yet.
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
    /// Dropping the future does not take the commands back: they may have been executed already, or be executed later.
    /// Whoever must know what became of them runs this in a task of its own.
    pub async fn execute(&self, shard: usize, commands: Vec<Cmd>) -> Result<Replies, LinkError> {
        let index = shard % self.inner.slots.len();
        let slot = &self.inner.slots[index];
        let live = slot.live()?;
        let connection = ConnectionId {
            slot: index,
            generation: live.generation,
        };
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
                slot.give_up(live.generation, fault.clone());
                fault
            }
            Err(_) => {
                let millis = self.inner.timing.command_timeout.as_millis();
                let fault = Fault::new(
                    DownCause::TimedOut,
                    format!("{self} did not answer within {millis} ms"),
                );
                if live.unanswered() {
                    slot.give_up(live.generation, fault.clone());
                }
                fault
            }
        };
        Err(LinkError::Indeterminate {
            reason: fault.reason,
        })
    }

    /// Runs something for the command time-out and a little more. When this process had too much to do, a reply may lie
    /// unread in the socket when the time is up: the little more lets it be read before Redis is blamed.
    async fn in_time<F: Future>(&self, send: F) -> Result<F::Output, Elapsed> {
        tokio::pin!(send);
        match timeout(self.inner.timing.command_timeout, &mut send).await {
            Ok(output) => Ok(output),
            Err(_) => timeout(self.inner.timing.command_timeout / 20, send).await,
        }
    }

    /// Gives a connection up because a reply that came by it did not answer its command: what is in flight on it becomes
    /// indeterminate, and it is dialled afresh. Does nothing if that connection is gone already.
    pub fn mark_bad(&self, connection: ConnectionId, reason: &str) {
        if let Some(slot) = self.inner.slots.get(connection.slot) {
            let reason = format!("{self} sent a reply that does not answer its command: {reason}");
            slot.give_up(
                connection.generation,
                Fault::new(DownCause::WrongReply, reason),
            );
        }
    }

    /// The run of the server at the other end of a connection; `None` if the connection is gone, or the server does not
    /// tell.
    pub(super) fn run(&self, connection: ConnectionId) -> Option<RunId> {
        let live = self.inner.slots.get(connection.slot)?.live().ok()?;
        (live.generation == connection.generation)
            .then(|| live.run.clone())
            .flatten()
    }

    /// Whether all command connections are up, now and from now on.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.inner.board.watch()
    }

    /// The same for the subscription: while it isn't up, messages are lost. `None` if the link was started without one.
    pub fn subscription_status(&self) -> Option<watch::Receiver<LinkStatus>> {
        self.inner.subscription.as_ref().map(Listening::status)
    }

    /// Listens to what is published over one more connection; `what` is what the log puts before the server's name.
    pub(super) fn listen(&self, what: &str, of: Heard, listener: Listener) -> Listening {
        let place = self.inner.place.clone();
        let what = format!("{what} {self}");
        Listening::start(
            place,
            self.inner.timing,
            (what, &self.inner.board),
            of,
            listener,
        )
    }

    /// How many command connections there are: batches whose shards are equal modulo this share one.
    pub fn connections(&self) -> usize {
        self.inner.slots.len()
    }

    /// The database number that each connection selects.
    pub(super) fn database(&self) -> u32 {
        self.inner.place.database()
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
        // One pipeline: the scripts go ahead of the commands that need them.
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
        if let Some((cause, code)) = unfit_server(&replies) {
            let fault = Fault::new(cause, format!("{self} refuses commands with {code}"));
            slot.give_up(live.generation, fault);
        }
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
