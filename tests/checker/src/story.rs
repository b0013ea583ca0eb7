//! Acquires, holds, writes and faults, put together from the lines of a history.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{Event, HistoryError, Line, Mode, Outcome, Record};

/// A whole history.
#[derive(Debug, Default)]
pub struct Story {
    /// Acquires in the order in which they began.
    pub acquires: Vec<Acquire>,
    /// Writes of all registers, by time.
    pub writes: Vec<Write>,
    /// Events that each watcher saw, by time.
    pub watchers: BTreeMap<String, Vec<Seen>>,
    /// Faults in the order in which they began.
    pub faults: Vec<Fault>,
    /// Times in which processes got no processor.
    pub stalls: Vec<Fault>,
    /// Number of masters that were replaced.
    pub fail_overs: u64,
    /// Time at which the harness broke the run off, and the reason.
    pub broken_off: Option<(u64, String)>,
    /// Keys left in the store; none if the history does not say.
    pub left: Option<Vec<String>>,
    /// Time of the last line.
    pub end: u64,
}

/// An acquire, and the hold that came of it.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The client's name.
    pub client: String,
    /// The client's number of it.
    pub ask: u64,
    /// The lock's name.
    pub lock: String,
    /// Mode.
    pub mode: Mode,
    /// Permits asked for; zero in other modes.
    pub permits: u64,
    /// Limit of the semaphore; zero in other modes.
    pub limit: u64,
    /// Name of the queue that it joins; empty if the lock has only one.
    pub queue: String,
    /// Time at which the client began.
    pub asked: u64,
    /// End of the wait.
    pub end: End,
    /// The hold, if it was granted.
    pub hold: Option<Hold>,
}

/// End of the wait of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was granted at this time.
    Granted(u64),
    /// It ended at this time without a grant.
    Refused(u64, Outcome),
    /// The client was killed at this time.
    Killed(u64),
    /// It has not ended.
    None,
}

impl End {
    /// Returns the time; the largest one if it has not ended.
    pub fn at(self) -> u64 {
        match self {
            Self::Granted(at) | Self::Refused(at, _) | Self::Killed(at) => at,
            Self::None => u64::MAX,
        }
    }
}

/// Hold, as its client believed in it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Fencing token; none if the lock has none.
    pub token: Option<i64>,
    /// Times for which the client counted the lock as held: more than one if the hold was suspended.
    pub parts: Vec<Span>,
    /// The last deadline that the client knew of.
    pub until: u64,
    /// End of it.
    pub end: HoldEnd,
    /// The answer to its release said that the lock was still there.
    pub stood: bool,
}

impl Hold {
    /// Returns its token in words.
    pub fn token_name(&self) -> String {
        match self.token {
            Some(token) => format!("token {token}"),
            None => "no token".to_owned(),
        }
    }
}

/// A time from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub begin: u64,
    /// End, which does not belong to it.
    pub end: u64,
}

impl Span {
    /// Returns the common time of two spans, if there is any.
    pub fn common(self, other: Self) -> Option<Self> {
        let begin = self.begin.max(other.begin);
        let end = self.end.min(other.end);
        (begin < end).then_some(Self { begin, end })
    }

    /// Returns whether two spans touch or overlap.
    pub fn touches(self, other: Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

/// End of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The client began to release it at this time.
    Released(u64),
    /// The client was told of the loss at this time.
    Lost(u64, String),
    /// The client was killed at this time.
    Killed(u64),
    /// The history does not say.
    None,
}

/// A write to a register.
#[derive(Clone, Debug)]
pub struct Write {
    /// Time.
    pub at: u64,
    /// The client's name.
    pub client: String,
    /// The lock that protects the register.
    pub lock: String,
    /// The client's token.
    pub token: i64,
    /// The register took it.
    pub accepted: bool,
    /// Place in the register's own order.
    pub sequence: u64,
}

/// Something that a watcher saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Time.
    pub at: u64,
    /// Kind.
    pub what: Sight,
}

/// Kind of event that a watcher sees.
#[derive(Clone, Debug)]
pub enum Sight {
    /// It knows all locks: from here on it misses nothing.
    Ready,
    /// It has missed events, and knows nothing.
    Gap,
    /// A hold, by its lock and token, began or ended.
    Event(String, i64, Event),
}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The harness's number of it.
    pub number: u64,
    /// Kind.
    pub what: String,
    /// The process or the connection that it was done to.
    pub target: String,
    /// Its time.
    pub span: Span,
    /// The store may forget what it had confirmed.
    pub loses_data: bool,
    /// Leases may end in the store before their time.
    pub cuts_leases: bool,
    /// An operator takes locks from their holders, who are told within a moment if they can be.
    pub forces: bool,
    /// Clients whose connections may be reset in the middle.
    pub resets: Vec<String>,
    /// Clients whose connections are gone for as long as the fault lasts.
    pub disconnects: Vec<String>,
    /// Clients whose processes stand still.
    pub stops: Vec<String>,
    /// Clients whose waiting may lose its place or its time, and who may lose what they hold.
    pub disturbs: Vec<String>,
    /// Clients whose rights end for as long as the fault lasts.
    pub revokes: Vec<String>,
}

impl Fault {
    /// A process got no processor for a time, so that it was as if it was stopped. The harness's own stall concerns all.
    fn stall(process: &str, span: Span) -> Self {
        let concerned = match process {
            HARNESS => "*",
            client => client,
        };
        Self {
            number: 0,
            what: "no processor".to_owned(),
            target: process.to_owned(),
            span,
            loses_data: false,
            cuts_leases: false,
            forces: false,
            resets: Vec::new(),
            disconnects: Vec::new(),
            stops: vec![concerned.to_owned()],
            disturbs: vec![concerned.to_owned()],
            revokes: Vec::new(),
        }
    }

    /// Returns whether one of its lists names a client.
    pub fn names(list: &[String], client: &str) -> bool {
        list.iter().any(|name| name == "*" || name == client)
    }
}

/// Name of the harness's process in stalls.
const HARNESS: &str = "harness";

impl Story {
    /// Puts the lines of a history together.
    ///
    /// # Errors
    ///
    /// If they contradict each other: then a client or the harness is broken, and nothing can be said of the rest.
    pub fn tell(lines: Vec<Line>) -> Result<Self, HistoryError> {
        let mut lines = lines;
        // Stable: what one process wrote within a microsecond stays in its order.
        lines.sort_by_key(|line| line.at);
        let mut teller = Teller::default();
        teller.story.end = lines.last().map_or(0, |line| line.at);
        for line in lines {
            teller.take(line).map_err(HistoryError::Story)?;
        }
        Ok(teller.finish())
    }

    /// Returns the acquires by the names of their locks.
    pub fn by_lock(&self) -> BTreeMap<&str, Vec<&Acquire>> {
        let mut locks: BTreeMap<&str, Vec<&Acquire>> = BTreeMap::new();
        for acquire in &self.acquires {
            locks.entry(&acquire.lock).or_default().push(acquire);
        }
        locks
    }
}

#[derive(Default)]
struct Teller {
    story: Story,
    /// Index of an acquire by client and number.
    index: HashMap<(String, u64), usize>,
    /// Begin of the part of each hold that is held now.
    open: HashMap<usize, u64>,
    /// Acquires of each client that have not ended, or are held.
    alive: HashMap<String, HashSet<usize>>,
    /// Index of a fault by number.
    faults: HashMap<u64, usize>,
    /// Clients that the harness has killed. It says so first, so that they may have a moment more.
    dead: HashSet<String>,
}

impl Teller {
    /// Returns whether the harness has killed the client, or broken off.
    fn is_dead(&self, client: &str) -> bool {
        self.story.broken_off.is_some() || self.dead.contains(client)
    }

    fn take(&mut self, Line { at, record }: Line) -> Result<(), String> {
        match record {
            Record::Run { .. } | Record::Finished { .. } => {}
            Record::Asked {
                client,
                ask,
                lock,
                mode,
                permits,
                limit,
                wait: _,
                queue,
            } => {
                let index = self.story.acquires.len();
                if self.index.insert((client.clone(), ask), index).is_some() {
                    return Err(format!("{client} asked twice as number {ask}"));
                }
                let end = if self.is_dead(&client) {
                    End::Killed(at)
                } else {
                    self.alive.entry(client.clone()).or_default().insert(index);
                    End::None
                };
                self.story.acquires.push(Acquire {
                    client,
                    ask,
                    lock,
                    mode,
                    permits,
                    limit,
                    queue,
                    asked: at,
                    end,
                    hold: None,
                });
            }
            Record::Granted {
                client,
                ask,
                token,
                until,
            } => {
                let index = self.find(&client, ask)?;
                let dead = self.is_dead(&client);
                let acquire = &mut self.story.acquires[index];
                if acquire.end != End::None && !dead {
                    return Err(format!("{client}'s acquire {ask} ended twice"));
                }
                acquire.end = End::Granted(at);
                let end = if dead {
                    HoldEnd::Killed(at)
                } else {
                    self.open.insert(index, at);
                    HoldEnd::None
                };
                acquire.hold = Some(Hold {
                    token,
                    parts: Vec::new(),
                    until,
                    end,
                    stood: false,
                });
            }
            Record::Ended {
                client,
                ask,
                outcome,
                why: _,
            } => {
                let index = self.find(&client, ask)?;
                if self.is_dead(&client) {
                    return Ok(());
                }
                let acquire = &mut self.story.acquires[index];
                if acquire.end != End::None {
                    return Err(format!("{client}'s acquire {ask} ended twice"));
                }
                acquire.end = End::Refused(at, outcome);
                self.over(&client, index);
            }
            Record::Extended { client, ask, until } => {
                let index = self.find(&client, ask)?;
                self.hold(index)?.until = until;
            }
            Record::Suspended { client, ask } => {
                let index = self.find(&client, ask)?;
                self.close(index, at)?;
            }
            Record::Resumed { client, ask, until } => {
                let index = self.find(&client, ask)?;
                self.hold(index)?.until = until;
                if self.is_dead(&client) {
                    return Ok(());
                }
                self.open.entry(index).or_insert(at);
            }
            Record::Releasing { client, ask } => {
                let index = self.find(&client, ask)?;
                if self.is_dead(&client) {
                    return Ok(());
                }
                self.close(index, at)?;
                self.finish_hold(index, HoldEnd::Released(at))?;
                self.over(&client, index);
            }
            Record::Released { client, ask, held } => {
                let index = self.find(&client, ask)?;
                self.hold(index)?.stood = held;
            }
            Record::Lost { client, ask, why } => {
                let index = self.find(&client, ask)?;
                self.close(index, at)?;
                // A release may be overtaken by a loss: it has ended already.
                if self.hold(index)?.end == HoldEnd::None {
                    self.finish_hold(index, HoldEnd::Lost(at, why))?;
                }
                self.over(&client, index);
            }
            Record::Killed { client } => {
                self.kill(&client, at)?;
                self.dead.insert(client);
            }
            Record::BrokenOff { why } => {
                let clients: Vec<_> = self.alive.keys().cloned().collect();
                for client in clients {
                    self.kill(&client, at)?;
                }
                self.story.broken_off.get_or_insert((at, why));
            }
            Record::FailedOver { to: _ } => self.story.fail_overs += 1,
            Record::Stalled { process, since } => {
                let span = Span {
                    begin: since,
                    end: at,
                };
                self.story.stalls.push(Fault::stall(&process, span));
            }
            Record::Write {
                client,
                lock,
                token,
                accepted,
                sequence,
            } => self.story.writes.push(Write {
                at,
                client,
                lock,
                token,
                accepted,
                sequence,
            }),
            Record::Watched {
                watcher,
                lock,
                event,
                token,
            } => self.saw(at, watcher, Sight::Event(lock, token, event)),
            Record::WatchReady { watcher } => self.saw(at, watcher, Sight::Ready),
            Record::WatchGap { watcher } => self.saw(at, watcher, Sight::Gap),
            Record::FaultBegan {
                fault,
                what,
                target,
                loses_data,
                cuts_leases,
                forces,
                resets,
                disconnects,
                stops,
                disturbs,
                revokes,
            } => {
                self.faults.insert(fault, self.story.faults.len());
                self.story.faults.push(Fault {
                    number: fault,
                    what,
                    target,
                    // Until it is known to have ended.
                    span: Span {
                        begin: at,
                        end: u64::MAX,
                    },
                    loses_data,
                    cuts_leases,
                    forces,
                    resets,
                    disconnects,
                    stops,
                    disturbs,
                    revokes,
                });
            }
            Record::FaultEnded { fault } => {
                let index = self.faults.get(&fault);
                let index = index.ok_or_else(|| format!("fault {fault} ended before it began"))?;
                self.story.faults[*index].span.end = at;
            }
            Record::Left { keys } => self.story.left = Some(keys),
        }
        Ok(())
    }

    /// Ends what the client has, and what it waits for.
    fn kill(&mut self, client: &str, at: u64) -> Result<(), String> {
        for index in self.alive.remove(client).unwrap_or_default() {
            if self.story.acquires[index].hold.is_some() {
                self.close(index, at)?;
                self.finish_hold(index, HoldEnd::Killed(at))?;
            } else {
                self.story.acquires[index].end = End::Killed(at);
            }
        }
        Ok(())
    }

    fn saw(&mut self, at: u64, watcher: String, what: Sight) {
        // The harness has ended the coordinators and the store.
        if self.story.broken_off.is_some() {
            return;
        }
        let seen = self.story.watchers.entry(watcher).or_default();
        seen.push(Seen { at, what });
    }

    fn find(&self, client: &str, ask: u64) -> Result<usize, String> {
        let found = self.index.get(&(client.to_owned(), ask)).copied();
        found.ok_or_else(|| format!("{client} never asked as number {ask}"))
    }

    fn hold(&mut self, index: usize) -> Result<&mut Hold, String> {
        let acquire = &mut self.story.acquires[index];
        let (client, ask) = (&acquire.client, acquire.ask);
        let missing = || format!("{client}'s acquire {ask} was never granted");
        acquire.hold.as_mut().ok_or_else(missing)
    }

    /// Ends the part that is held now, if there is one: at its deadline if that was before.
    fn close(&mut self, index: usize, at: u64) -> Result<(), String> {
        if let Some(begin) = self.open.remove(&index) {
            let hold = self.hold(index)?;
            let end = at.min(hold.until).max(begin);
            hold.parts.push(Span { begin, end });
        }
        Ok(())
    }

    fn finish_hold(&mut self, index: usize, end: HoldEnd) -> Result<(), String> {
        self.hold(index)?.end = end;
        Ok(())
    }

    fn over(&mut self, client: &str, index: usize) {
        if let Some(alive) = self.alive.get_mut(client) {
            alive.remove(&index);
        }
    }

    fn finish(mut self) -> Story {
        let end = self.story.end;
        for index in self.open.keys().copied().collect::<Vec<_>>() {
            // Each open part belongs to a hold.
            let _ = self.close(index, end);
        }
        self.story
            .writes
            .sort_by_key(|write| (write.at, write.sequence));
        self.story
    }
}
