//! Whether two answers are the same: everything exactly, but for times left, which Redis counts in milliseconds.

use std::time::Duration;

use leasehold_core::{
    command::{Executed, Reply},
    view::{HolderView, NameView},
};

/// How far times left may be apart: Redis rounds to milliseconds.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(2);

/// Whether two answers agree.
pub(crate) enum Comparison {
    Same,
    /// But for times left, which are this far apart.
    Apart(Duration, String),
    Different(String),
}

pub(crate) fn compare(expected: &Executed, got: &Executed) -> Comparison {
    match apart(expected, got) {
        Ok(apart) if apart <= TOLERANCE => Comparison::Same,
        Ok(apart) => Comparison::Apart(
            apart,
            format!(
                "expected the times of {:?}, not of {:?}",
                expected.reply, got.reply
            ),
        ),
        Err(difference) => Comparison::Different(difference),
    }
}

/// How far apart the times in two answers are that are the same otherwise.
fn apart(expected: &Executed, got: &Executed) -> Result<Duration, String> {
    if (&expected.handed, expected.more) != (&got.handed, got.more) {
        return Err(format!(
            "expected {:?} to be handed on (and more: {}), not {:?} ({})",
            expected.handed, expected.more, got.handed, got.more
        ));
    }
    let (expected_reply, expected_times) = without_times(&expected.reply);
    let (got_reply, got_times) = without_times(&got.reply);
    if expected_reply != got_reply {
        return Err(format!(
            "expected {:?}, not {:?}",
            expected.reply, got.reply
        ));
    }
    let apart = |times: (Option<Duration>, Option<Duration>)| match times {
        (Some(a), Some(b)) => a.abs_diff(b),
        (None, None) => Duration::ZERO,
        _ => Duration::MAX,
    };
    Ok(expected_times
        .into_iter()
        .zip(got_times)
        .map(apart)
        .max()
        .unwrap_or_default())
}

/// An answer with its times left out, and those.
fn without_times(reply: &Reply) -> (Reply, Vec<Option<Duration>>) {
    let mut reply = reply.clone();
    let mut times = Vec::new();
    match &mut reply {
        Reply::Queued { expires_in, .. } | Reply::Refreshed { expires_in, .. } => {
            times.push(expires_in.take())
        }
        Reply::Released { closed_for, .. } => times.push(closed_for.take()),
        Reply::Busy { holder } => holder_times(holder.iter_mut(), &mut times),
        Reply::Seen(view) => {
            let NameView {
                holders,
                closed_for,
                ..
            } = &mut **view;
            times.push(closed_for.take());
            holder_times(holders.iter_mut(), &mut times);
        }
        _ => {}
    }
    (reply, times)
}

fn holder_times<'a>(
    holders: impl Iterator<Item = &'a mut HolderView>,
    times: &mut Vec<Option<Duration>>,
) {
    times.extend(holders.map(|holder| match holder {
        HolderView::Ours(hold) => Some(std::mem::take(&mut hold.expires_in)),
        HolderView::Foreign { expires_in } => expires_in.take(),
    }));
}
