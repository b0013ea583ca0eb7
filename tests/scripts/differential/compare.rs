//! Comparison of two answers: exact, except that Redis counts remaining times in milliseconds.

use std::{fmt::Debug, time::Duration};

use leasehold_core::{
    command::{Executed, Reply},
    view::{HoldView, HolderView, NameView},
    watch::{Change, Telling},
};

/// Tolerated difference between times left: Redis rounds to milliseconds.
const TOLERANCE: Duration = Duration::from_millis(1);

/// Compares all effects of a command.
pub(crate) fn compare(expected: &Executed, got: &Executed) -> Result<(), String> {
    if (&expected.handed, expected.more) != (&got.handed, got.more) {
        return Err(format!(
            "expected {:?} to be handed on (and more: {}), not {:?} ({})",
            expected.handed, expected.more, got.handed, got.more
        ));
    }
    compare_timed(&expected.reply, &got.reply, reply_times)
}

pub(crate) fn compare_tellings(expected: &Telling, got: &Telling) -> Result<(), String> {
    compare_timed(expected, got, telling_times)
}

/// Compares what has times in it, which `take` takes out.
fn compare_timed<T: Clone + Debug + PartialEq>(
    expected: &T,
    got: &T,
    take: impl Fn(&mut T) -> Vec<Option<Duration>>,
) -> Result<(), String> {
    let (mut expected_rest, mut got_rest) = (expected.clone(), got.clone());
    let (expected_times, got_times) = (take(&mut expected_rest), take(&mut got_rest));
    let is_same = |times: (Option<Duration>, Option<Duration>)| match times {
        (Some(a), Some(b)) => a.abs_diff(b) <= TOLERANCE,
        times => times == (None, None),
    };
    if expected_rest == got_rest && expected_times.into_iter().zip(got_times).all(is_same) {
        return Ok(());
    }
    Err(format!("expected {expected:?}, not {got:?}"))
}

fn reply_times(reply: &mut Reply) -> Vec<Option<Duration>> {
    match reply {
        Reply::Queued { expires_in, .. }
        | Reply::Refreshed { expires_in, .. }
        | Reply::ResumedWait { expires_in, .. } => {
            vec![expires_in.take()]
        }
        Reply::Released { closed_for, .. } => vec![closed_for.take()],
        Reply::Busy { holder } => holder.iter_mut().map(holder_time).collect(),
        Reply::Seen(view) => view_times(view),
        _ => Vec::new(),
    }
}

fn telling_times(telling: &mut Telling) -> Vec<Option<Duration>> {
    let changes = telling.changes.iter_mut().flat_map(change_times);
    let looked = telling.looked.iter_mut().flat_map(|view| view_times(view));
    changes.chain(looked).collect()
}

fn change_times(change: &mut Change) -> Vec<Option<Duration>> {
    match change {
        Change::Granted(hold)
        | Change::Expired(hold)
        | Change::ValueChanged(hold)
        | Change::Downgraded(hold)
        | Change::Reduced { hold, .. }
        | Change::ForcedHolder(hold)
        | Change::ReleaseRequested(hold)
        | Change::Resumed(hold)
        | Change::Shortened(hold) => vec![hold_time(hold)],
        Change::Lost { hold, .. } | Change::Forced(hold) => {
            hold.iter_mut().map(|hold| hold_time(hold)).collect()
        }
        Change::Released { hold, closed_for } => {
            let hold = hold.iter_mut().map(|hold| hold_time(hold));
            hold.chain([closed_for.take()]).collect()
        }
        Change::Queued { .. }
        | Change::Withdrawn(_)
        | Change::ForcedWaiter(_)
        | Change::LimitChanged(_)
        | Change::Doubtful => Vec::new(),
    }
}

fn view_times(view: &mut NameView) -> Vec<Option<Duration>> {
    let mut times = vec![view.closed_for.take()];
    times.extend(view.holders.iter_mut().map(holder_time));
    times
}

fn holder_time(holder: &mut HolderView) -> Option<Duration> {
    match holder {
        HolderView::Ours(hold) => hold_time(hold),
        HolderView::Foreign { expires_in } => expires_in.take(),
    }
}

fn hold_time(hold: &mut HoldView) -> Option<Duration> {
    Some(std::mem::take(&mut hold.expires_in))
}
