//! Coverage of the histories: counts the cases, and demands that each occurred.

use std::collections::BTreeMap;

use leasehold_core::{
    command::{Executed, Loss, One, Op, Reply},
    id::FencingToken,
    mode::Mode,
    time::StoreTime,
    view::{HolderView, NameView},
    watch::{Change, Telling},
};

/// All that must have happened.
const EVERYTHING: [&str; 91] = [
    "granted",
    "granted to share",
    "granted permits",
    "granted alone",
    "queued",
    "busy",
    "other limit",
    "late",
    "renewed",
    "renewed, as one of several",
    "renewal refused in the lock-delay",
    "lost",
    "closed",
    "ghost",
    "released",
    "cancelled",
    "nothing to release",
    "refresh found a grant",
    "fresh found by a refresh",
    "refreshed",
    "forced",
    "several forced",
    "one forced",
    "waiter forced",
    "acquire again of a waiter that was forced",
    "resume of a waiter that was forced",
    "refresh that misses one",
    "nothing to force",
    "asked",
    "nobody to ask",
    "value set",
    "value not set",
    "count set",
    "count not set",
    "downgraded",
    "not downgraded",
    "reduced",
    "not reduced",
    "resumed",
    "resumed to share",
    "resumed permits",
    "resumed alone",
    "resumed and granted",
    "place resumed",
    "resume of what was resumed",
    "resume of what is taken",
    "resume of what is gone",
    "resume refused in the lock-delay",
    "renewal of what was resumed",
    "acquire again of what was resumed",
    "acquire again refused in the lock-delay",
    "seen",
    "edges",
    "edges of several",
    "handed on by an acquire",
    "handed on by a release",
    "handed on by a refresh",
    "handed on by a resume",
    "handed on by force",
    "handed on by a downgrade",
    "handed on by a reduce",
    "handed several at once",
    "handed permits, their number left to the store",
    "granted fewer permits than asked for",
    "granted all permits, though fewer would do",
    "permits found by a refresh, their number left to the store",
    "looked",
    "told: granted",
    "told: queued",
    "told: withdrawn",
    "told: released",
    "told: closed",
    "told: expired",
    "told: lost",
    "told: lost in the lock-delay",
    "told: forced",
    "told: forced nobody's",
    "told: forced holder",
    "told: forced waiter",
    "told: value",
    "told: downgraded",
    "told: reduced",
    "told: resumed",
    "told: shortened",
    "told: shortened, as one of several",
    "told: asked",
    "told: limit changed",
    "told: doubtful",
    "more taken than a lowered limit",
    "told: several changes",
    "told: a hold with a lock-delay",
];

/// Number of times that each case occurred.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    /// Notes what an operation did, and what could be seen of the name afterwards.
    pub(crate) fn note(&mut self, op: &Op, executed: &Executed, view: &NameView) {
        self.count(what(op, &executed.reply));
        let several = view.holders.len() > 1;
        if view
            .limit
            .is_some_and(|limit| view.permits_taken > limit.number.into())
        {
            self.count("more taken than a lowered limit");
        }
        match &executed.reply {
            Reply::Granted {
                permits: Some(permits),
                ..
            } => self.count(match op {
                Op::Acquire(acquire) if acquire.mode.permits() > *permits => {
                    "granted fewer permits than asked for"
                }
                _ => "granted all permits, though fewer would do",
            }),
            Reply::Granted { .. } => self.count(match op {
                Op::Acquire(acquire) if acquire.mode == Mode::Shared => "granted to share",
                Op::Acquire(acquire) if acquire.mode == Mode::Exclusive => "granted alone",
                _ => "granted permits",
            }),
            Reply::Resumed { token, mode, .. } => {
                if is_just_granted(view, *token, executed.at) {
                    self.count("resumed and granted");
                }
                self.count(match mode {
                    Mode::Shared => "resumed to share",
                    Mode::Exclusive => "resumed alone",
                    Mode::Semaphore(_) => "resumed permits",
                });
            }
            Reply::Renewed if several => self.count("renewed, as one of several"),
            // What an exclusive hold leaves stands alone.
            Reply::Released {
                closed_for: Some(_),
                ..
            } if view.permits_taken > 0 || !view.holders.is_empty() => self.count("ghost"),
            Reply::Refreshed { current, .. } if !current.is_empty() && !is_exclusive(view) => {
                self.count("fresh found by a refresh");
                if current.iter().any(|current| current.permits.is_some()) {
                    self.count("permits found by a refresh, their number left to the store");
                }
            }
            Reply::Forced { former, .. } if former.len() > 1 => self.count("several forced"),
            Reply::Edges(edges) if edges.holders.len() > 1 => self.count("edges of several"),
            _ => {}
        }
        if executed.handed.is_empty() {
            return;
        }
        self.count(match op {
            Op::Acquire(_) => "handed on by an acquire",
            Op::Release { .. } => "handed on by a release",
            Op::Refresh { .. } => "handed on by a refresh",
            Op::Downgrade { .. } => "handed on by a downgrade",
            Op::Reduce { .. } => "handed on by a reduce",
            Op::Resume(_) => "handed on by a resume",
            _ => "handed on by force",
        });
        if executed.handed.len() > 1 {
            self.count("handed several at once");
        }
        if executed
            .handed
            .iter()
            .any(|handed| handed.permits.is_some())
        {
            self.count("handed permits, their number left to the store");
        }
    }

    /// Notes the reports of an operation.
    pub(crate) fn note_changes(&mut self, op: &Op, telling: &Telling) {
        for change in &telling.changes {
            self.count(match change {
                Change::Granted(hold) if !hold.lock_delay.is_zero() => {
                    "told: a hold with a lock-delay"
                }
                Change::Granted(_) => "told: granted",
                Change::Queued { .. } => "told: queued",
                Change::Withdrawn(_) => "told: withdrawn",
                Change::Released {
                    closed_for: Some(_),
                    ..
                } => "told: closed",
                Change::Released { .. } => "told: released",
                Change::Expired(_) => "told: expired",
                Change::Lost { hold: None, .. } => "told: lost",
                Change::Lost { .. } => "told: lost in the lock-delay",
                Change::Forced(Some(_)) => "told: forced",
                Change::Forced(None) => "told: forced nobody's",
                Change::ForcedHolder(_) => "told: forced holder",
                Change::ForcedWaiter(_) => "told: forced waiter",
                Change::ValueChanged(_) => "told: value",
                Change::Downgraded(_) => "told: downgraded",
                Change::Reduced { .. } => "told: reduced",
                Change::Resumed(_) => "told: resumed",
                Change::Shortened(hold) if hold.mode != Mode::Exclusive => {
                    "told: shortened, as one of several"
                }
                Change::Shortened(_) => "told: shortened",
                Change::ReleaseRequested(_) => "told: asked",
                Change::LimitChanged(_) => "told: limit changed",
                Change::Doubtful => "told: doubtful",
            });
        }
        if !matches!(op, Op::Release { .. })
            && telling
                .changes
                .iter()
                .any(|change| matches!(change, Change::Withdrawn(_)))
        {
            self.count("a waiter dropped because of a lowered limit");
        }
        if telling.changes.len() > 1 {
            self.count("told: several changes");
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Returns what must have happened and has not.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let missing = EVERYTHING.iter().filter(|what| !self.0.contains_key(*what));
        missing.copied().collect()
    }
}

fn is_exclusive(view: &NameView) -> bool {
    matches!(view.holders.first(), Some(HolderView::Ours(hold)) if hold.mode == Mode::Exclusive)
}

fn is_just_granted(view: &NameView, token: FencingToken, at: StoreTime) -> bool {
    view.holders.iter().any(|holder| {
        matches!(holder, HolderView::Ours(hold) if hold.token == token && hold.acquired_at == at)
    })
}

fn what(op: &Op, reply: &Reply) -> &'static str {
    match reply {
        Reply::Granted { .. } => "granted",
        Reply::Queued { .. } => "queued",
        Reply::Busy { .. } => "busy",
        Reply::OtherLimit { .. } => "other limit",
        Reply::Late => "late",
        Reply::Renewed => "renewed",
        Reply::Resumed { .. } => "resumed",
        Reply::ResumedWait { .. } => "place resumed",
        Reply::Lost(loss) => match (op, loss) {
            (Op::Resume(_), Loss::Resumed) => "resume of what was resumed",
            (Op::Resume(_), Loss::Forced) => "resume of a waiter that was forced",
            (Op::Acquire(_), Loss::Forced) => "acquire again of a waiter that was forced",
            (Op::Resume(_), Loss::Taken) => "resume of what is taken",
            (Op::Resume(_), Loss::Expired) => "resume refused in the lock-delay",
            (Op::Resume(_), _) => "resume of what is gone",
            (Op::Acquire(_), Loss::Expired) => "acquire again refused in the lock-delay",
            (Op::Acquire(_), _) => "acquire again of what was resumed",
            (_, Loss::Resumed) => "renewal of what was resumed",
            (_, Loss::Expired) => "renewal refused in the lock-delay",
            _ => "lost",
        },
        Reply::Released {
            closed_for: Some(_),
            ..
        } => "closed",
        Reply::Released { held: true, .. } => "released",
        Reply::Released { waited: true, .. } => "cancelled",
        Reply::Released { .. } => "nothing to release",
        Reply::Refreshed { current, .. } if !current.is_empty() => "refresh found a grant",
        Reply::Refreshed {
            attached: false, ..
        } if matches!(op, Op::Refresh { oldest: None }) => "refresh that misses one",
        Reply::Refreshed { .. } => "refreshed",
        Reply::Forced { released: true, .. } => match op {
            Op::ForceReleaseOne(One::Holder(_)) => "one forced",
            Op::ForceReleaseOne(One::Waiter(_)) => "waiter forced",
            _ => "forced",
        },
        Reply::Forced { .. } => "nothing to force",
        Reply::Asked { holders } if holders.is_empty() => "nobody to ask",
        Reply::Asked { .. } => "asked",
        Reply::Changed(done) => match (op, done) {
            (Op::Downgrade { .. }, true) => "downgraded",
            (Op::Downgrade { .. }, false) => "not downgraded",
            (Op::Reduce { .. }, true) => "reduced",
            (Op::Reduce { .. }, false) => "not reduced",
            (Op::SetCount { .. }, true) => "count set",
            (Op::SetCount { .. }, false) => "count not set",
            (_, true) => "value set",
            (_, false) => "value not set",
        },
        Reply::Seen(_) => "seen",
        Reply::Edges(_) => "edges",
        Reply::Looked => "looked",
        Reply::Unheard => "unheard",
    }
}
