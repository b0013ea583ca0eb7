//! One attempt of an acquire: two rounds, and a third that takes back a failed one.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use leasehold_core::{
    command::{Acquire, Caller, Loss},
    failure::StoreError,
    id::FencingToken,
    lease::drift_margin,
    name::LockName,
    time::{Moment, StoreTime},
    view::HolderView,
};

use super::{
    decide::{self, Obstacle, Tally, Verdict, Vote},
    look::{self, CLOSED},
    record::Record,
    round::{Masters, Round},
    script::{Ask, Found, Said},
    undo::Fate,
};
use crate::clock;

/// Tries of an acquire that only other undecided acquires block.
const TRIES: u32 = 5;
/// Longest pause before the first retry, doubled for each further one.
const PAUSE: Duration = Duration::from_millis(2);
/// Tries to write back a token that some masters find too small.
const TOKENS: usize = 3;

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
        /// Whether others try as well, and none is settled.
        is_race: bool,
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

impl Masters {
    /// Acquires a lock, or finds its holder. A waiting acquire has this coordinator woken when the lock comes free.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
    ) -> Attempted {
        let give_up_at = clock::now().after(self.patience);
        let mut longest = PAUSE;
        for _ in 1..TRIES {
            let tried = self.try_once(name, caller, acquire).await;
            let is_race = matches!(tried, Attempted::Held { is_race: true, .. });
            if !is_race || clock::now() >= give_up_at {
                return tried;
            }
            tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
            longest *= 2;
        }
        self.try_once(name, caller, acquire).await
    }

    async fn try_once(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
    ) -> Attempted {
        // Read before the first round, so that everything undone by then is gone before the round reads it.
        let undone = self.undoing.of(&acquire.owner);
        // Above the token of any earlier try, so that the undo of those can't undo this one.
        let own = FencingToken::new(self.floor.load(Ordering::Relaxed));
        let ask = Ask::propose(caller, acquire, caller.floor.max(own));
        let mut round = self.ask(name, ask);
        let mut first = First::new(self.number(), undone);
        let verdict = first.listen(&mut round).await;
        let mut highest = 0;
        let tried = match verdict {
            Verdict::Agreed => {
                let second = self.second(name, caller, acquire, &first, &round, &mut highest);
                second.await
            }
            Verdict::Refused if first.was_resumed => Attempted::Resumed(round.at),
            Verdict::Refused => first.held(&round),
            Verdict::Undecided => Attempted::Failed(round.unavailable()),
        };
        if !matches!(tried, Attempted::Granted(_)) {
            // If it is held, its release wakes the others.
            let is_race = matches!(tried, Attempted::Held { is_race: true, .. });
            let wakes = is_race || matches!(tried, Attempted::Failed(_));
            let undo = Ask::undo(caller, &acquire.owner, highest, wakes);
            let gone_at = round.until().after(acquire.ttl + acquire.lock_delay);
            let undone = self.undoing.begin(acquire.owner, highest);
            self.undo(name, undo, undone, gone_at, first.fates, round);
        }
        tried
    }

    /// Runs the second round: writes the largest proposal back to a majority before any client learns of it.
    async fn second(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        acquire: &Acquire,
        first: &First,
        proposed: &Round,
        highest: &mut i64,
    ) -> Attempted {
        let (at, sent_at) = (proposed.at, proposed.sent_at);
        let granted = |token| {
            let token = FencingToken::new(token);
            Attempted::Granted(Granted { token, at, sent_at })
        };
        let failed = |reason| Attempted::Failed(StoreError::Unavailable { reason });
        // Its reply was lost: the grant stands.
        if let Some(token) = decide::stands(self.number(), &first.standing, first.undone) {
            return granted(token);
        }
        let mut above = first.undone;
        for _ in 0..TOKENS {
            let token = decide::token(first.proposed.iter().copied(), above);
            *highest = token;
            self.floor
                .fetch_max(token.saturating_add(1), Ordering::Relaxed);
            let mut round = self.ask(name, Ask::write_back(caller, acquire, token));
            let mut newest = None;
            let written = round.verdict(Tally::attempt, |_, said, _| match said {
                Said::Done => Vote::Yes,
                Said::Above(token) => {
                    newest = newest.max(Some(token));
                    Vote::No
                }
                Said::Gone(_) => Vote::No,
                _ => Vote::Out,
            });
            match (written.await, newest) {
                (Verdict::Agreed, _) => {
                    let over = sent_at.after(acquire.ttl.saturating_sub(drift_margin(acquire.ttl)));
                    if clock::now() < over {
                        return granted(token);
                    }
                    return failed(format!(
                        "a majority of the masters took longer to agree than the TTL, {:?}, lasts",
                        acquire.ttl
                    ));
                }
                (_, Some(newest)) => above = above.max(Some(newest)),
                // The keys were deleted meanwhile.
                (Verdict::Refused, None) => {
                    return Attempted::Held {
                        holder: None,
                        expires_in: None,
                        at,
                        is_race: true,
                    };
                }
                (_, None) => return Attempted::Failed(round.unavailable()),
            }
        }
        failed("other coordinators are taking and losing the lock all the time".to_owned())
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
        }
    }

    async fn listen(&mut self, round: &mut Round) -> Verdict {
        loop {
            if let Some(verdict) = round.tally.attempt() {
                return verdict;
            }
            let Some(answer) = round.next().await else {
                return Verdict::Undecided;
            };
            if let Some(fate) = self.fates.get_mut(answer.from) {
                *fate = Fate::of(&answer.outcome);
            }
            round.count(answer, |_, said, counts| self.judge(said, counts));
        }
    }

    fn judge(&mut self, said: Said, counts: bool) -> Vote {
        match said {
            Said::Proposed { token, stands } => {
                self.proposed.push(token);
                if counts && stands {
                    self.standing.push(token);
                }
                Vote::Yes
            }
            Said::Gone(Loss::Resumed) if counts => {
                self.was_resumed = true;
                Vote::No
            }
            Said::Holds(found) if counts => {
                self.found.push(found);
                Vote::No
            }
            _ => Vote::Out,
        }
    }

    /// Returns the result if too few masters are free.
    fn held(&self, round: &Round) -> Attempted {
        let masters = round.masters.number();
        let obstacles: Vec<_> = self.found.iter().map(obstacle).collect();
        let holders = obstacles.iter().map(|obstacle| &obstacle.holder);
        let most = decide::largest(holders);
        let left = obstacles.iter().map(|obstacle| obstacle.left);
        Attempted::Held {
            // The holder on most masters.
            holder: most.and_then(|(holder, _)| look::holder(holder, self.found.iter())),
            expires_in: decide::free_in(masters, round.tally.number_of_yes(), left),
            at: round.at,
            is_race: decide::is_race(masters, &obstacles),
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
