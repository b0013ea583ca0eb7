//! Changes of a hold's record.

use leasehold_core::{
    command::{Reply, Stamped},
    failure::StoreError,
};

use super::{
    decide::{Tally, Verdict, Vote},
    round::Round,
    script::Said,
};

/// Waits for the result of a change that was sent to all masters.
pub(super) async fn changed(mut round: Round) -> Result<Stamped, StoreError> {
    let verdict = round.verdict(Tally::standing, |_, said, _| match said {
        Said::Done => Vote::Yes,
        Said::Gone(_) => Vote::No,
        _ => Vote::Out,
    });
    match verdict.await {
        Verdict::Agreed => Ok(round.stamp(Reply::Changed(true))),
        Verdict::Refused => Ok(round.stamp(Reply::Changed(false))),
        Verdict::Undecided => Err(round.undecided()),
    }
}
