//! One attempt of an acquire: two rounds, and a third that takes back a failed one.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Acquire, Caller, Loss},
    id::FencingToken,
    lease::drift_margin,
    name::LockName,
    time::{Moment, StoreTime},
    view::HolderView,
};

use super::{
    decide::{self, Obstacle, Verdict},
    master::Outcome,
    record::Record,
    round::{Masters, Round},
    script::{Ask, Found, Said},
    undo::Fate,
};
use crate::{clock, redis::encode::details};

/// Tries of an acquire that only other undecided acquires block.
const TRIES: u32 = 5;
/// Longest pause before the first retry, doubled for each further one.
const PAUSE: Duration = Duration::from_millis(2);
/// Tries to write back a token that some masters find too small.
const TOKENS: usize = 3;
/// Value of the key of a closed lock.
const CLOSED: &[u8] = b"lh:closed";

/// Result of an acquire.
#[derive(Debug)]
pub(super) enum Attempted {
    /// It holds the lock.
    Granted(Granted),
    /// Another owner id holds it.
    Held {
        holder: Option<HolderView>,
        expires_in: Option<Duration>,
        at: StoreTime,
    },
    /// It was granted before, and another stream has resumed it.
    Resumed(StoreTime),
    /// The result is unknown, and its effects are being undone.
    Failed(StoreError),
}

/// Grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) token: FencingToken,
    pub(super) at: StoreTime,
    pub(super) sent_at: Moment,
}

/// Result of one try that was not granted.
enum Tried {
    Granted(Granted),
    /// Others try as well, and none is settled.
    Race(Held),
    Held(Held),
    Resumed(StoreTime),
    Failed(StoreError),
}

#[derive(Default)]
struct Held {
    obstacles: Vec<Obstacle<Vec<u8>>>,
    found: Vec<Found>,
    free: usize,
    at: Option<StoreTime>,
}

impl Masters {
    /// Acquires a lock, or finds its holder. `waits` says whether this coordinator is to be woken when it comes free.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
        waits: bool,
    ) -> Attempted {
        let give_up_at = self.patience.until();
        let mut tries = 0;
        loop {
            tries += 1;
            let held = match self.try_once(name, caller, acquire, waits).await {
                Tried::Granted(granted) => return Attempted::Granted(granted),
                Tried::Resumed(at) => return Attempted::Resumed(at),
                Tried::Failed(error) => return Attempted::Failed(error),
                Tried::Race(_) if tries < TRIES && clock::now() < give_up_at => {
                    let longest = PAUSE * (1 << (tries - 1));
                    tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
                    continue;
                }
                Tried::Race(held) | Tried::Held(held) => held,
            };
            let left = held.obstacles.iter().map(|obstacle| obstacle.left);
            return Attempted::Held {
                expires_in: decide::free_in(self.number(), held.free, left),
                at: held.at.unwrap_or(self.time()),
                holder: held.holder(),
            };
        }
    }

    async fn try_once(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
        waits: bool,
    ) -> Tried {
        let sent_at = clock::now();
        // Read before the first round, so that everything undone by then is gone before the round reads it.
        let undone = self.undoing.of(&acquire.owner);
        let mut round = self.ask(
            name,
            Ask::Propose {
                owner: acquire.owner,
                lasts: acquire.ttl + acquire.lock_delay,
                // Above the token of any earlier try, so that the undo of those can't undo this one.
                floor: caller
                    .floor
                    .max(FencingToken::new(self.floor.load(Ordering::Relaxed))),
                memory: caller.token_memory,
                waiter: waits.then(|| caller.coordinator.clone()),
            },
        );
        let mut first = First::new(self.number(), undone);
        let verdict = first.listen(&mut round).await;
        let mut highest = 0;
        let tried = match verdict {
            Verdict::Agreed => {
                let second = self.second(name, caller, acquire, &first, sent_at, &mut highest);
                second.await
            }
            Verdict::Refused if first.was_resumed => Tried::Resumed(first.at),
            Verdict::Refused => {
                let held = Held {
                    free: round.tally().number_of_yes(),
                    obstacles: first.found.iter().map(obstacle).collect(),
                    found: std::mem::take(&mut first.found),
                    at: Some(first.at),
                };
                if decide::is_race(self.number(), &held.obstacles) {
                    Tried::Race(held)
                } else {
                    Tried::Held(held)
                }
            }
            Verdict::Undecided => Tried::Failed(match round.wrong_type() {
                Some(wrong) => wrong,
                None => StoreError::Unavailable {
                    reason: self.why(&round),
                },
            }),
        };
        if !matches!(tried, Tried::Granted(_)) {
            let undo = Ask::Undo {
                owner: acquire.owner,
                coordinator: caller.coordinator.clone(),
                token: FencingToken::new(highest),
                // If it is held, its release wakes the others.
                wakes: matches!(tried, Tried::Race(_) | Tried::Failed(_)),
            };
            let gone_at = round.until().after(acquire.ttl + acquire.lock_delay);
            self.undo(name, undo, gone_at, first.fates, round);
        }
        tried
    }

    /// Runs the second round: writes the largest proposal back to a majority before any client learns of it.
    async fn second(
        &self,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
        first: &First,
        sent_at: Moment,
        highest: &mut i64,
    ) -> Tried {
        let granted = |token| Granted {
            token: FencingToken::new(token),
            at: first.at,
            sent_at,
        };
        // Its reply was lost: the grant stands.
        if let Some(token) = decide::stands(self.number(), &first.standing, first.undone) {
            return Tried::Granted(granted(token));
        }
        let mut above = first.undone;
        for _ in 0..TOKENS {
            let token = decide::token(first.proposed.iter().copied(), above);
            *highest = token;
            self.floor
                .fetch_max(token.saturating_add(1), Ordering::Relaxed);
            let mut written = Vec::new();
            // Writing to memory does not fail.
            let _ = details(&mut written, caller, acquire);
            let mut round = self.ask(
                name,
                Ask::WriteBack {
                    owner: acquire.owner,
                    token: FencingToken::new(token),
                    memory: caller.token_memory,
                    details: written.into(),
                },
            );
            let mut newest = None;
            let verdict = loop {
                if let Some(verdict) = round.tally().attempt() {
                    break verdict;
                }
                let Some(answer) = round.next().await else {
                    break Verdict::Undecided;
                };
                match answer.outcome {
                    Outcome::Said { reply, counts } => {
                        if let Said::Above(token) = reply.said {
                            newest = newest.max(Some(token));
                        }
                        match reply.said {
                            Said::Done if counts => round.tally().yes(),
                            Said::Above(_) | Said::Gone(_) if counts => round.tally().no(),
                            _ => round.tally().out(),
                        }
                    }
                    _ => round.tally().out(),
                }
            };
            match (verdict, newest) {
                (Verdict::Agreed, _) => {
                    let over = sent_at.after(acquire.ttl.saturating_sub(drift_margin(acquire.ttl)));
                    if clock::now() < over {
                        return Tried::Granted(granted(token));
                    }
                    return Tried::Failed(StoreError::Unavailable {
                        reason: format!(
                            "a majority of the masters took longer to agree than the TTL, {:?}, lasts",
                            acquire.ttl
                        ),
                    });
                }
                (_, Some(newest)) => above = above.max(Some(newest)),
                // The keys were deleted meanwhile.
                (Verdict::Refused, None) => return Tried::Race(Held::default()),
                (_, None) => {
                    return Tried::Failed(StoreError::Unavailable {
                        reason: self.why(&round),
                    });
                }
            }
        }
        Tried::Failed(StoreError::Unavailable {
            reason: "other coordinators are taking and losing the lock all the time".to_owned(),
        })
    }
}

/// Result of the first round.
struct First {
    fates: Vec<Fate>,
    proposed: Vec<i64>,
    /// Tokens of the same grant that stand already.
    standing: Vec<i64>,
    /// The largest token of an earlier try that is still being undone.
    undone: Option<i64>,
    found: Vec<Found>,
    was_resumed: bool,
    at: StoreTime,
}

impl First {
    fn new(masters: usize, undone: Option<i64>) -> Self {
        Self {
            fates: vec![Fate::Unknown; masters],
            proposed: Vec::new(),
            standing: Vec::new(),
            undone,
            found: Vec::new(),
            was_resumed: false,
            at: StoreTime::from_micros(0),
        }
    }

    async fn listen(&mut self, round: &mut Round) -> Verdict {
        loop {
            if let Some(verdict) = round.tally().attempt() {
                return verdict;
            }
            let Some(answer) = round.next().await else {
                return Verdict::Undecided;
            };
            if let Some(fate) = self.fates.get_mut(answer.from) {
                *fate = Fate::of(&answer.outcome);
            }
            let Outcome::Said { reply, counts } = answer.outcome else {
                round.tally().out();
                continue;
            };
            self.at = self.at.max(reply.at);
            match reply.said {
                Said::Proposed { token, stands } => {
                    self.proposed.push(token);
                    if counts {
                        if stands {
                            self.standing.push(token);
                        }
                        round.tally().yes();
                    } else {
                        round.tally().out();
                    }
                }
                Said::Gone(Loss::Resumed) if counts => {
                    self.was_resumed = true;
                    round.tally().no();
                }
                Said::Holds(found) if counts => {
                    self.found.push(found);
                    round.tally().no();
                }
                _ => round.tally().out(),
            }
        }
    }
}

fn obstacle(found: &Found) -> Obstacle<Vec<u8>> {
    let holder = found.holder.clone().unwrap_or_default();
    let record = found.record.as_deref().and_then(Record::parse);
    Obstacle {
        is_settled: holder == CLOSED || record.is_some_and(|record| record.of(&holder).is_some()),
        left: found.left,
        holder,
    }
}

impl Held {
    /// Returns the holder on most masters.
    fn holder(&self) -> Option<HolderView> {
        let holders = self.obstacles.iter().map(|obstacle| &obstacle.holder);
        let (holder, _) = decide::largest(holders)?;
        super::look::holder(holder, self.found.iter())
    }
}
