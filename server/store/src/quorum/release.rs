//! Ends of holds: releases, force-releases and requests to release.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Caller, End, HoldAt, OwnerAt, ReleaseRequest, Reply, Stamped},
    failure::StoreError,
    id::{FencingToken, OwnerId},
    name::LockName,
};

use super::{
    decide::{Tally, Verdict, Vote},
    round::{Masters, Round},
    script::{Ask, Said},
};
use crate::clock;

/// Release in flight.
pub(super) struct Ending {
    round: Round,
    name: LockName,
    caller: Caller,
    owner: OwnerId,
    end: End,
    /// Whether it is repeated at silent masters, even if no master reports the hold.
    is_certain: bool,
    heard: Heard,
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
}

/// Result of a release.
pub(super) struct Ended {
    pub(super) result: Result<Stamped, StoreError>,
    /// Whether waiters of other coordinators were woken.
    pub(super) others_wait: bool,
}

impl Masters {
    /// Sends a release to all masters.
    pub(super) fn end(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        owner: OwnerId,
        end: End,
    ) -> Ending {
        Ending {
            round: self.ask(name, Ask::release(caller, &owner, end)),
            name: name.clone(),
            caller: caller.clone(),
            owner,
            end,
            is_certain: false,
            heard: Heard::default(),
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
        tokio::spawn(ending.outcome());
    }

    /// Takes a lock from its holder, or only from the one of this token, and raises the token above every other.
    pub(super) async fn force(
        self: &Arc<Self>,
        name: &LockName,
        caller: &Caller,
        only: Option<FencingToken>,
    ) -> Result<Stamped, StoreError> {
        let mut round = self.ask(name, Ask::force_release(caller, only));
        let (mut newest, mut released) = (0, false);
        let mut former: Vec<OwnerAt> = Vec::new();
        let mut silent: Vec<usize> = (0..self.number()).collect();
        let forced = round.verdict(Tally::attempt, |from, said, _| {
            if let Said::Forced {
                held,
                newest: here,
                former: of,
            } = said
            {
                if held || only.is_none() {
                    silent.retain(|place| *place != from);
                }
                newest = newest.max(here);
                released |= held;
                former.extend(of.filter(|of| !former.contains(of)));
            }
            Vote::Yes
        });
        if forced.await != Verdict::Agreed {
            return Err(round.undecided());
        }
        if released {
            newest = (newest + 1)
                .max(round.at.as_micros())
                .max(caller.floor_at(round.at).get());
            let mut round = self.ask(name, Ask::raise(caller, newest, false, None));
            let raised = round.verdict(Tally::attempt, |_, _, _| Vote::Yes).await;
            if raised != Verdict::Agreed {
                return Err(round.undecided());
            }
        }
        former.sort_unstable_by_key(|former| former.owner);
        // Also at masters that had not answered, or do not know the token of what they hold. A master that did it meanwhile
        // finds nothing.
        for former in &former {
            let ask = Ask::release(caller, &former.owner, End::Clean);
            self.owe_all(name, ask, |place| silent.contains(&place));
        }
        Ok(round.stamp(Reply::Forced {
            former,
            released,
            token: FencingToken::new(newest),
        }))
    }

    /// Asks the session that holds a lock to release it, unless the hold has another token than this.
    pub(super) async fn request_release(
        self: Arc<Self>,
        name: LockName,
        caller: Caller,
        only: Option<FencingToken>,
        request: Arc<ReleaseRequest>,
    ) -> Result<Stamped, StoreError> {
        let ask = Ask::request_release(&caller, only, &request);
        let mut round = self.ask(&name, ask);
        let mut holders: Vec<HoldAt> = Vec::new();
        let asked = round.verdict(Tally::attempt, |_, said, _| {
            if let Said::Asked(Some(hold)) = said {
                let of_owner = |other: &&mut HoldAt| other.holder.owner == hold.holder.owner;
                match holders.iter_mut().find(of_owner) {
                    // A master may not have heard of its newest token.
                    Some(other) => other.token = other.token.max(hold.token),
                    None => holders.push(hold),
                }
            }
            Vote::Yes
        });
        if asked.await != Verdict::Agreed {
            return Err(round.undecided());
        }
        holders.sort_unstable_by_key(|hold| hold.holder.owner);
        Ok(round.stamp(Reply::Asked { holders }))
    }

    /// Makes the chosen masters carry out a release as soon as they answer, until its hold must have expired.
    fn owe_all(self: &Arc<Self>, name: &LockName, ask: Ask, chosen: impl Fn(usize) -> bool) {
        let question = self.question(name, ask);
        let now = clock::now();
        for place in (0..self.number()).filter(|place| chosen(*place)) {
            let gone_at = now.after(self.terms.hold);
            self.owe(place, Arc::clone(&question), now, gone_at, None);
        }
    }
}

impl Heard {
    fn judge(&mut self, from: usize, said: Said) -> Vote {
        self.answered.push(from);
        let Said::Released {
            held,
            closed_for,
            token,
            woken,
        } = said
        else {
            return Vote::Out;
        };
        self.closed_for = self.closed_for.max(closed_for);
        self.others_wait |= woken > 0;
        self.held |= held;
        if token.is_some() {
            self.token = self.token.max(token);
            self.raised.push(from);
        }
        if held { Vote::Yes } else { Vote::No }
    }
}

impl Ending {
    /// Waits for the result. Then, in the background, raises the token at masters that lacked the hold, and releases it at
    /// masters that did not answer.
    pub(super) async fn outcome(mut self) -> Ended {
        let heard = &mut self.heard;
        let judge = |from, said, _| heard.judge(from, said);
        let verdict = self.round.verdict(Tally::standing, judge).await;
        let held = verdict == Verdict::Agreed;
        let result = match verdict {
            Verdict::Agreed | Verdict::Refused => Ok(self.round.stamp(Reply::Released {
                held,
                waited: false,
                closed_for: self.heard.closed_for.filter(|_| held),
            })),
            Verdict::Undecided => Err(self.round.undecided()),
        };
        let ended = Ended {
            result,
            others_wait: self.heard.others_wait,
        };
        tokio::spawn(async move {
            let heard = &mut self.heard;
            let mut judge = |from, said, _| heard.judge(from, said);
            while self.round.hear(&mut judge).await {}
            self.see_to_the_rest(held);
        });
        ended
    }

    fn see_to_the_rest(&self, was_held: bool) {
        let (heard, masters) = (&self.heard, &self.round.masters);
        let raise = heard.token.map(|token| {
            // A hold that stood under this owner id on a majority has no other owner id any more. An earlier command may have
            // set it again since its release there.
            let token = token.saturating_add(1);
            Ask::raise(&self.caller, token, was_held, Some(&self.owner))
        });
        if let Some(raise) = raise.clone() {
            // The answers are not needed: this is a second line of defence, after the majority that has it.
            drop(masters.ask_some(&self.name, raise, |place| !heard.raised.contains(&place)));
        }
        if self.is_certain || heard.held || heard.token.is_some() {
            let release = Ask::release(&self.caller, &self.owner, self.end);
            for ask in [Some(release), raise.filter(|_| was_held)]
                .into_iter()
                .flatten()
            {
                masters.owe_all(&self.name, ask, |place| !heard.answered.contains(&place));
            }
        }
    }
}
