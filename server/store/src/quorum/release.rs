//! Ends of holds: releases and force-releases.

use std::{sync::Arc, time::Duration};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Caller, End, Former, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
    time::{Moment, StoreTime},
};

use super::{
    decide::Verdict,
    master::Outcome,
    round::{Masters, Round},
    script::{Ask, Said},
};
use crate::clock;

/// Release in flight.
pub(super) struct Ending {
    round: Round,
    sent_at: Moment,
    name: LockName,
    ask: Ask,
    owner: OwnerId,
    memory: Duration,
    /// Whether it is repeated at silent masters, even if no master reports the hold.
    is_certain: bool,
}

/// Answers of the masters.
#[derive(Default)]
struct Heard {
    /// Its token, if any master knew it; and the masters that have raised it already.
    token: Option<i64>,
    raised: Vec<usize>,
    closed_for: Option<Duration>,
    /// The masters that answered; the others may have the hold.
    answered: Vec<usize>,
    others_wait: bool,
    held: bool,
    at: Option<StoreTime>,
}

/// Result of a release.
pub(super) struct Ended {
    pub(super) result: Result<Reply, StoreError>,
    pub(super) at: StoreTime,
    pub(super) sent_at: Moment,
    /// Whether waiters of other coordinators were woken.
    pub(super) others_wait: bool,
}

impl Masters {
    /// Sends a release to all masters.
    pub(super) fn end(&self, name: &LockName, caller: &Caller, owner: OwnerId, end: End) -> Ending {
        let ask = release(caller, owner, end);
        Ending {
            sent_at: clock::now(),
            round: self.ask(name, ask.clone()),
            name: name.clone(),
            ask,
            owner,
            memory: caller.token_memory,
            is_certain: false,
        }
    }

    /// Releases a hold in the background, also at masters that do not answer now.
    pub(super) fn give_back(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        owner: OwnerId,
        end: End,
    ) {
        let mut ending = self.end(name, caller, owner, end);
        ending.is_certain = true;
        let masters = Arc::clone(self);
        tokio::spawn(async move { ending.outcome(&masters).await });
    }

    /// Takes a lock from its holder, and raises the token above every other.
    pub(super) async fn force(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
    ) -> Result<(Reply, StoreTime), StoreError> {
        let coordinator = caller.coordinator.clone();
        let mut round = self.ask(name, Ask::ForceRelease { coordinator });
        let mut at = StoreTime::from_micros(0);
        let (mut newest, mut released) = (0, false);
        let mut former: Vec<Former> = Vec::new();
        let mut silent: Vec<usize> = (0..self.number()).collect();
        while round.tally().attempt().is_none() {
            let Some(answer) = round.next().await else {
                break;
            };
            let Outcome::Said { reply, counts } = answer.outcome else {
                round.tally().out();
                continue;
            };
            at = at.max(reply.at);
            silent.retain(|place| *place != answer.from);
            if let Said::Forced {
                held,
                newest: here,
                former: of,
            } = reply.said
            {
                newest = newest.max(here);
                released |= held;
                let of = of.map(|(owner, coordinator)| Former { owner, coordinator });
                former.extend(of.filter(|of| !former.contains(of)));
            }
            if counts {
                round.tally().yes();
            } else {
                round.tally().out();
            }
        }
        if round.tally().attempt() != Some(Verdict::Agreed) {
            return Err(self.undecided(&round));
        }
        if released {
            newest = (newest + 1)
                .max(at.as_micros())
                .max(caller.floor_at(at).get());
            let raise = Ask::Raise {
                token: FencingToken::new(newest),
                memory: caller.token_memory,
                ends: false,
                ended: None,
            };
            let mut round = self.ask(name, raise);
            if self.count(&mut round).await != Verdict::Agreed {
                return Err(self.undecided(&round));
            }
        }
        former.sort_unstable_by_key(|former| former.owner);
        self.force_the_rest(name, caller, &former, silent);
        let reply = Reply::Forced {
            former,
            released,
            token: FencingToken::new(newest),
        };
        Ok((reply, at))
    }

    /// Ends a forced hold also at masters that had not answered. A master that did it meanwhile finds nothing.
    fn force_the_rest(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        former: &[Former],
        silent: Vec<usize>,
    ) {
        let now = clock::now();
        let gone_at = now.after(self.terms.hold);
        for former in former {
            let question = self.question(name, release(caller, former.owner, End::Clean));
            for place in &silent {
                self.owe(*place, Arc::clone(&question), now, gone_at, None);
            }
        }
    }

    /// Counts the masters that did what was asked.
    async fn count(&self, round: &mut Round) -> Verdict {
        loop {
            if let Some(verdict) = round.tally().attempt() {
                return verdict;
            }
            match round.next().await.map(|answer| answer.outcome) {
                None => return Verdict::Undecided,
                Some(Outcome::Said { counts: true, .. }) => round.tally().yes(),
                Some(_) => round.tally().out(),
            }
        }
    }

    /// Returns the error of a command that some masters may have carried out.
    pub(super) fn undecided(&self, round: &Round) -> StoreError {
        round
            .wrong_type()
            .unwrap_or_else(|| StoreError::Indeterminate {
                reason: self.why(round),
            })
    }
}

fn release(caller: &Caller, owner: OwnerId, end: End) -> Ask {
    Ask::Release {
        owner,
        coordinator: caller.coordinator.clone(),
        is_unclean: end == End::Unclean,
        memory: caller.token_memory,
    }
}

impl Ending {
    /// Waits for the result. Then, in the background, raises the token at masters that lacked the hold, and releases it at
    /// masters that did not answer.
    pub(super) async fn outcome(mut self, masters: &Arc<Masters>) -> Ended {
        let mut heard = Heard::default();
        let verdict = loop {
            if let Some(verdict) = self.round.tally().standing() {
                break verdict;
            }
            if !self.hear(&mut heard).await {
                break Verdict::Undecided;
            }
        };
        let result = match verdict {
            Verdict::Agreed | Verdict::Refused => Ok(Reply::Released {
                held: verdict == Verdict::Agreed,
                waited: false,
                closed_for: heard.closed_for.filter(|_| verdict == Verdict::Agreed),
            }),
            Verdict::Undecided => Err(masters.undecided(&self.round)),
        };
        let ended = Ended {
            result,
            at: heard.at.unwrap_or_else(|| masters.time()),
            sent_at: self.sent_at,
            others_wait: heard.others_wait,
        };
        let masters = Arc::clone(masters);
        tokio::spawn(async move {
            while self.hear(&mut heard).await {}
            self.see_to_the_rest(&heard, &masters, verdict == Verdict::Agreed);
        });
        ended
    }

    async fn hear(&mut self, heard: &mut Heard) -> bool {
        let Some(answer) = self.round.next().await else {
            return false;
        };
        let tally = self.round.tally();
        let Outcome::Said { reply, counts } = answer.outcome else {
            tally.out();
            return true;
        };
        heard.answered.push(answer.from);
        heard.at = heard.at.max(Some(reply.at));
        if let Said::Released {
            held,
            closed_for,
            token,
            woken,
        } = reply.said
        {
            heard.closed_for = heard.closed_for.max(closed_for);
            heard.others_wait |= woken > 0;
            heard.held |= held;
            if token.is_some() {
                heard.token = heard.token.max(token);
                heard.raised.push(answer.from);
            }
            match (counts, held) {
                (true, true) => tally.yes(),
                (true, false) => tally.no(),
                (false, _) => tally.out(),
            }
        } else {
            tally.out();
        }
        true
    }

    fn see_to_the_rest(&self, heard: &Heard, masters: &Arc<Masters>, was_held: bool) {
        let raise = heard.token.map(|token| Ask::Raise {
            token: FencingToken::new(token.saturating_add(1)),
            memory: self.memory,
            // A hold that stood under this owner id on a majority has no other owner id any more.
            ends: was_held,
            // An earlier command may have set it again since its release there.
            ended: Some(self.owner),
        });
        if let Some(raise) = raise.clone() {
            // The answers are not needed: this is a second line of defence, after the majority that has it.
            drop(masters.ask_some(&self.name, raise, |place| !heard.raised.contains(&place)));
        }
        if self.is_certain || heard.held || heard.token.is_some() {
            let asks = [Some(self.ask.clone()), raise.filter(|_| was_held)];
            let now = clock::now();
            let gone_at = now.after(masters.terms.hold);
            for ask in asks.into_iter().flatten() {
                let question = masters.question(&self.name, ask);
                for master in &masters.all {
                    if !heard.answered.contains(&master.place) {
                        masters.owe(master.place, Arc::clone(&question), now, gone_at, None);
                    }
                }
            }
        }
    }
}
