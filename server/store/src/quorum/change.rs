//! Changes of a hold's record.

use leasehold_core::{command::Reply, time::StoreTime};

use super::{
    decide::Verdict,
    master::Outcome,
    round::{Masters, Round},
    script::Said,
};
use leasehold_core::failure::StoreError;

impl Masters {
    /// Waits for the result of a change that was sent to all masters.
    pub(super) async fn changed(&self, mut round: Round) -> Result<(Reply, StoreTime), StoreError> {
        let mut at = StoreTime::from_micros(0);
        let verdict = loop {
            if let Some(verdict) = round.tally().standing() {
                break verdict;
            }
            let Some(answer) = round.next().await else {
                break Verdict::Undecided;
            };
            let Outcome::Said { reply, counts } = answer.outcome else {
                round.tally().out();
                continue;
            };
            at = at.max(reply.at);
            match reply.said {
                Said::Done if counts => round.tally().yes(),
                Said::Gone(_) if counts => round.tally().no(),
                _ => round.tally().out(),
            }
        };
        match verdict {
            Verdict::Agreed => Ok((Reply::Changed(true), at)),
            Verdict::Refused => Ok((Reply::Changed(false), at)),
            Verdict::Undecided => Err(self.undecided(&round)),
        }
    }
}
