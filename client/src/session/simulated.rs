//! Session of a client without its driver, for the simulation in the workspace's own tests: it runs the machine of a real
//! session against the coordinator's, on a clock of its own. Time is the time since that clock's start.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tonic::Status;

use super::{
    fate::Fate,
    lock_spec::{LockSpec, Mode},
    machine::Machine,
    messages::Change,
    output::Output as MachineOutput,
    spec::{AcquireSpec, Locks},
    stream::Hearing,
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure, HoldFailure},
    lease::{Lease, LockState, LostReason},
    proto::v1,
    token::FencingToken,
};

/// Something that a session has its driver do.
#[derive(Debug)]
pub enum Output {
    /// Puts this on the stream of this number.
    Send(u64, v1::SessionRequest),
    /// The acquire has its locks.
    Granted(u64, Vec<Guard>),
    /// The acquire has ended without them.
    NotGranted(u64, AcquireError),
    /// A release or a change of a hold has ended: whether it was confirmed.
    Changed(bool),
    /// The session is open on this stream; the one before is left.
    Opened(u64),
    /// The coordinator goes away.
    Draining,
    /// This stream is cut.
    Cut(u64),
    /// This stream did not open in time: it is kept until another one has opened.
    Overdue(u64),
    /// The end of the session waits for the end of this stream.
    Leave(u64),
    /// The session is over.
    Ended,
}

/// A guard.
#[derive(Clone)]
pub struct Guard {
    key: u64,
    lease: Arc<Lease>,
}

/// End of a stream, as a client sees it.
#[derive(Clone, Debug)]
pub enum StreamEnd {
    /// The stream ended without a status.
    Plain,
    /// The coordinator ended the stream with a status.
    Status(Box<Status>),
    /// The connection broke.
    Broken,
}

/// An acquire.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The names, each with its mode: one, or several together.
    pub locks: Vec<(String, v1::LockMode)>,
    /// Number of permits of a semaphore, at most.
    pub permits: u32,
    /// The fewest permits to be content with; `None` for all.
    pub permits_at_least: Option<u32>,
    /// The semaphore's limit.
    pub limit: u32,
    /// The revision of that limit.
    pub limit_revision: u32,
    /// Longest wait; `None` is without a bound.
    pub wait: Option<Duration>,
    /// Time for which each name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// Longest time for which each lock may be held.
    pub max_hold: Option<Duration>,
    /// The actor; 0 for none.
    pub actor: u64,
    /// Whether the actor's own holds count as granted once more.
    pub reentrant: bool,
}

/// Session of a client.
pub struct Session {
    machine: Machine<u64, ()>,
}

impl Guard {
    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns whether its hold is lost for good, or was given back.
    pub fn is_lost(&self, now: Duration) -> bool {
        matches!(self.lease.state(moment(now)), LockState::Lost(_))
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &str {
        &self.lease.name
    }

    /// Returns the grant's token.
    pub fn token(&self) -> FencingToken {
        self.lease.token
    }

    /// Returns the number of permits that were granted; `None` in modes without permits.
    pub fn permits(&self) -> Option<u32> {
        self.lease.permits
    }

    /// Returns the time left until its bound, if it has one.
    pub fn ends_in(&self, now: Duration) -> Option<Duration> {
        self.lease.ends_in(moment(now))
    }

    /// Returns for how long the guard goes on to say that it holds the lock, unless it hears anything; zero if it does not hold
    /// it.
    pub fn valid_for(&self, now: Duration) -> Duration {
        self.lease.valid_for(moment(now))
    }

    /// Returns the reason of the last request to release it.
    pub fn asked(&self, now: Duration) -> Option<String> {
        let request = self.lease.request(moment(now))?;
        Some(request.reason().to_owned())
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with token {}", self.name(), self.token())
    }
}

impl Session {
    /// Returns a session that is not connected. `draw` makes owner ids.
    pub fn new(open_timeout: Duration, open: v1::SessionOpen, draw: fn() -> Vec<u8>) -> Self {
        Self {
            machine: Machine::new(open_timeout, open, draw),
        }
    }

    /// Asks for locks. Ids rise.
    pub fn acquire(&mut self, now: Duration, id: u64, acquire: Acquire) {
        let locks = acquire.locks.into_iter().map(|(name, mode)| {
            let mode = match mode {
                v1::LockMode::Shared => Mode::Shared,
                v1::LockMode::Semaphore => Mode::Semaphore {
                    permits: acquire.permits,
                    at_least: acquire.permits_at_least,
                    limit: acquire.limit,
                    revision: acquire.limit_revision,
                },
                _ => Mode::Exclusive,
            };
            LockSpec::new(name.into(), mode)
        });
        let mut locks: Vec<LockSpec> = locks.collect();
        let locks = match locks.pop() {
            Some(lock) if locks.is_empty() => Locks::One(lock),
            last => Locks::All(locks.into_iter().chain(last).collect()),
        };
        let spec = AcquireSpec {
            wait: acquire.wait,
            lock_delay: acquire.lock_delay,
            max_hold: acquire.max_hold,
            actor: acquire.actor,
            reentrant: acquire.reentrant,
            ..AcquireSpec::new(locks)
        };
        self.machine.acquire(moment(now), id, spec, id);
    }

    /// Cancels an acquire.
    pub fn cancel(&mut self, now: Duration, id: u64) {
        self.machine.cancel(moment(now), id);
    }

    /// Gives a guard's lock back.
    pub fn release(&mut self, now: Duration, guard: &Guard) {
        let now = moment(now);
        guard.lease.end(now, LostReason::Released).ok();
        self.machine.release(now, guard.key, None, Some(()));
    }

    /// Makes a guard's hold a shared one.
    pub fn downgrade(&mut self, now: Duration, guard: &Guard) {
        let now = moment(now);
        self.machine
            .change(now, guard.key, Change::Downgrade, None, ());
    }

    /// Gives permits of a guard's hold back except this many.
    pub fn keep(&mut self, now: Duration, guard: &Guard, permits: u32) {
        let now = moment(now);
        self.machine
            .change(now, guard.key, Change::Reduce(permits), None, ());
    }

    /// Changes the value of a guard's hold.
    pub fn set_value(&mut self, now: Duration, guard: &Guard, value: Vec<u8>) {
        let now = moment(now);
        self.machine
            .change(now, guard.key, Change::Value(value), None, ());
    }

    /// Closes the session.
    pub fn close(&mut self, now: Duration) {
        self.machine.close(moment(now));
    }

    /// Returns whether a connection is to be made.
    pub fn wants_connection(&self) -> bool {
        self.machine.wants_connection()
    }

    /// Returns whether a connection counts only when its stream has begun.
    pub fn awaits_beginning(&self, now: Duration) -> bool {
        self.machine.is_moving() || self.machine.is_orphaned(moment(now))
    }

    /// Returns whether the session is open on a stream.
    pub fn is_open(&self) -> bool {
        self.machine.is_open()
    }

    /// Takes in that a connection was made. Returns the number of its stream.
    pub fn connected(&mut self, now: Duration) -> u64 {
        self.machine.connected(moment(now), "http://test".into())
    }

    /// Takes in that no coordinator could be reached.
    pub fn connect_failed(&mut self, now: Duration) {
        let endpoint = "http://test".to_owned();
        let error = Arc::new(ConnectError::Ended { endpoint });
        self.machine.connect_failed(moment(now), &error);
    }

    /// Takes in a message on this stream.
    pub fn message(&mut self, now: Duration, stream: u64, message: v1::SessionResponse) {
        self.machine.message(moment(now), stream, message);
    }

    /// Takes in the end of a stream.
    pub fn stream_ended(&mut self, now: Duration, stream: u64, end: StreamEnd) {
        let now = moment(now);
        let failure = failure(end);
        if self.machine.is_next(stream) {
            self.machine.attempt_failed(now, Fate::of(&broke(failure)));
        } else {
            self.machine.stream_ended_by(now, stream, failure.as_ref());
        }
    }

    /// Takes in the end of a stream that did not open in time.
    pub fn overdue_ended(&mut self, now: Duration, end: StreamEnd) {
        let error = broke(failure(end));
        self.machine.overdue_ended(moment(now), Fate::of(&error));
    }

    /// Returns when to call [`tick`](Self::tick).
    pub fn alarm(&self) -> Option<Duration> {
        let alarm = self.machine.alarm()?;
        Some(Duration::from_nanos(alarm.as_nanos()))
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Duration) {
        self.machine.tick(moment(now));
    }

    /// Returns the next thing to do.
    pub fn next_output(&mut self) -> Option<Output> {
        Some(match self.machine.next_output()? {
            MachineOutput::Send(stream, request) => Output::Send(stream, request),
            MachineOutput::Acquired(id, Ok(granted)) => {
                let guards = granted.into_iter().map(|granted| Guard {
                    key: granted.key,
                    lease: granted.lease,
                });
                Output::Granted(id, guards.collect())
            }
            MachineOutput::Acquired(id, Err(error)) => Output::NotGranted(id, error),
            MachineOutput::HoldDone((), result) => {
                Output::Changed(!matches!(result, Err(HoldFailure::Unconfirmed)))
            }
            MachineOutput::Opened(stream, _) => Output::Opened(stream),
            MachineOutput::Draining(_) => Output::Draining,
            MachineOutput::HangUp(stream, error) => match error {
                Some(error) if Fate::of(&error) == Fate::Kept => Output::Overdue(stream),
                _ => Output::Cut(stream),
            },
            MachineOutput::Leave(stream) => Output::Leave(stream),
            MachineOutput::Ended => Output::Ended,
        })
    }

    /// Returns the names of the state of its stream, and of the one that is to have the session next.
    pub fn state(&self) -> (&'static str, &'static str) {
        let machine = &self.machine;
        let stream = match &machine.stream {
            None if machine.ending => "ended",
            None if machine.stopped_until.is_some() => "stopped",
            None => "none",
            Some(stream) if stream.closing.is_some() => "closing",
            Some(stream) => match stream.hearing {
                Hearing::Deaf => "deaf",
                Hearing::Withheld(_) => "withheld",
                Hearing::Open if stream.is_to_be_left() => "to be left",
                Hearing::Open => "open",
            },
        };
        let next = match &machine.next {
            None => "",
            Some(next) if next.asked => "asked",
            Some(_) => "connected",
        };
        (stream, next)
    }

    /// Returns how many holds, acquires, releases, changes and requests without an answer the session still has, by kind.
    pub fn leftovers(&self) -> BTreeMap<&'static str, usize> {
        let machine = &self.machine;
        // The request that opens the next stream is not left over: a session may begin to move at any time.
        let in_flight = (machine.stream.as_ref()).map_or(0, |stream| stream.in_flight.len());
        let counts = [
            ("holds", machine.holds.numbers().len()),
            ("acquires", machine.waiting.len()),
            ("releases to send", machine.unsent_releases.len()),
            ("changes to send", machine.unsent_changes.len()),
            (
                "answers that guards wait for",
                usize::from(machine.replies.first_due().is_some()),
            ),
            ("requests without an answer", in_flight),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.leftovers()).finish()
    }
}

pub(crate) fn moment(since_start: Duration) -> Moment {
    Moment::from_nanos(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns what the end of a stream says.
fn failure(end: StreamEnd) -> Option<Failure> {
    match end {
        StreamEnd::Plain => None,
        StreamEnd::Status(status) => Some(Failure::from_status(*status)),
        // What tonic says of a stream that ends without its trailers.
        StreamEnd::Broken => Some(Failure::from_status(Status::unknown(
            "no status at the stream's end",
        ))),
    }
}

/// Returns the error of a stream that ended before it was open.
fn broke(failure: Option<Failure>) -> ConnectError {
    ConnectError::broke("http://test".to_owned(), failure)
}
