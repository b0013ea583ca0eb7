//! Teller of a story: puts the lines of a history together, one after the other.

use std::collections::{HashMap, HashSet};

use super::{Acquire, Counted, End, Fault, Hold, HoldEnd, Seen, Sight, Span, Story};
use crate::history::{Line, Record};

impl Story {
    /// Puts the lines of a history together.
    ///
    /// # Errors
    ///
    /// If they contradict each other: then a client or the harness is broken, and nothing can be said of the rest.
    pub fn tell(mut lines: Vec<Line>) -> Result<Self, String> {
        // Stable: what one process wrote within a microsecond stays in its order.
        lines.sort_by_key(|line| line.at);
        let mut teller = Teller::default();
        teller.story.end = lines.last().map_or(0, |line| line.at);
        for line in lines {
            teller.take(line)?;
        }
        Ok(teller.finish())
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
                    stood: None,
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
                self.hold(index)?.end = HoldEnd::Released(at);
                self.over(&client, index);
            }
            Record::Released { client, ask, held } => {
                let index = self.find(&client, ask)?;
                self.hold(index)?.stood = held.then_some(at);
            }
            Record::Lost { client, ask, why } => {
                let index = self.find(&client, ask)?;
                self.close(index, at)?;
                // A release may be overtaken by a loss: it has ended already.
                if self.hold(index)?.end == HoldEnd::None {
                    self.hold(index)?.end = HoldEnd::Lost(at, why);
                }
                self.over(&client, index);
            }
            Record::Counted {
                coordinator,
                client,
                lock,
                reason,
            } => self.story.counted.push(Counted {
                at,
                coordinator,
                client,
                lock,
                reason,
            }),
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
                let span = Span::new(since, at);
                self.story.stalls.push(Fault::stall(&process, span));
            }
            Record::Write(write) => self.story.writes.push((at, write)),
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
                effects,
            } => {
                self.faults.insert(fault, self.story.faults.len());
                self.story.faults.push(Fault {
                    number: fault,
                    what,
                    target,
                    // Until it is known to have ended.
                    span: Span::new(at, u64::MAX),
                    effects,
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
                self.hold(index)?.end = HoldEnd::Killed(at);
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
            hold.parts.push(Span::new(begin, end));
        }
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
            .sort_by_key(|(at, write)| (*at, write.sequence));
        self.story
    }
}
