//! Messages about a wait on standard error: in place on a terminal, else a line at the start and on each change.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold_client::{Admin, Client, FailureKind, LockView, Session};
use tokio::time::{sleep, timeout};

use super::options::RunOptions;
use crate::{
    outage::{Contact, LOOK, Outage},
    say::say,
    show::{lock, text},
};

/// Time for an immediate grant before the first message.
const SOON: Duration = Duration::from_millis(500);
/// Interval of looks at the lock on a terminal, and at first elsewhere.
const CLOSE: Duration = Duration::from_secs(1);
/// Final interval of looks without a terminal: each look costs the store a command.
const FAR: Duration = Duration::from_secs(15);
/// Time-out of a look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Most names that are looked at.
const MOST_NAMES: usize = 8;

/// Progress of a wait for a lock, as `run` shows it.
pub(super) struct Progress {
    names: Vec<String>,
    begun: Instant,
    admin: Admin,
    session: Session,
    contact: Contact,
    outage: Outage,
    output: Output,
    /// Line in place; hidden unless the output is a terminal.
    bar: ProgressBar,
    /// False once the caller may not look at the lock.
    may_look: bool,
    next_look: Instant,
    interval: Duration,
    seen: Option<Seen>,
}

/// Form of the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// None at all: `--quiet`.
    Quiet,
    /// In place, on a terminal.
    Terminal,
    /// A line on each change.
    Lines,
}

/// Present holder, and this client's place in the queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Seen {
    /// The holder, or why the lock is closed.
    holder: Option<String>,
    place: Option<u64>,
}

impl Progress {
    pub(super) fn begin(client: &Client, options: &RunOptions, begun: Instant) -> Self {
        let (output, bar) = match (options.quiet, io::stderr().is_terminal()) {
            (true, _) => (Output::Quiet, ProgressBar::hidden()),
            (false, true) => (Output::Terminal, bar()),
            (false, false) => (Output::Lines, ProgressBar::hidden()),
        };
        let session = client.default_session().clone();
        Self {
            names: options.all_names(),
            begun,
            admin: client.admin(),
            contact: Contact::new(&session),
            session,
            outage: Outage::new(options.quiet),
            output,
            bar,
            may_look: true,
            next_look: Instant::now() + SOON,
            interval: CLOSE,
            seen: None,
        }
    }

    /// Waits a moment, and prints any news. May be dropped and called again.
    pub(super) async fn tick(&mut self) {
        sleep(LOOK).await;
        if self.output == Output::Quiet {
            return;
        }
        if let Some(news) = self.contact.news() {
            self.bar.suspend(|| say(news));
        }
        if self.session.info().is_none() || Instant::now() < self.next_look {
            return self.redraw();
        }
        let seen = match self.may_look {
            true => self.look().await,
            false => Some(Seen::default()),
        };
        if self.output == Output::Lines {
            self.interval = (self.interval * 2).min(FAR);
        }
        self.next_look = Instant::now() + self.interval;
        // The store answered, which a connection alone does not show.
        if seen.is_some() && self.may_look {
            self.bar.suspend(|| self.outage.is_over());
        }
        // If the look failed, the previous result stands.
        if let Some(seen) = seen
            && self.seen.as_ref() != Some(&seen)
        {
            let is_first = self.seen.replace(seen).is_none();
            self.changed(is_first);
        }
        self.redraw();
    }

    /// Notes that an attempt was refused, and another one follows.
    pub(super) fn refused(&mut self, why: &str) {
        self.bar.suspend(|| self.outage.goes_on(why));
        self.next_look = Instant::now() + CLOSE;
    }

    /// Notes that the lock was granted.
    pub(super) fn granted(&mut self) {
        self.end();
        self.outage.is_over();
    }

    async fn look(&mut self) -> Option<Seen> {
        let session_id = self.session.info()?.session_id;
        for name in self.names.iter().take(MOST_NAMES) {
            let view = match timeout(LOOK_TIMEOUT, self.admin.get_lock(name)).await {
                Ok(Ok(view)) => view,
                Ok(Err(failure)) => {
                    let denied = matches!(
                        failure.kind(),
                        FailureKind::PermissionDenied | FailureKind::Unauthenticated
                    );
                    self.may_look &= !denied;
                    return denied.then(Seen::default);
                }
                Err(_) => return None,
            };
            let seen = Seen {
                holder: in_the_way(&view),
                place: view
                    .waiters
                    .iter()
                    .find(|waiter| waiter.session_id == session_id)
                    .map(|waiter| waiter.position),
            };
            if seen != Seen::default() {
                return Some(seen);
            }
        }
        Some(Seen::default())
    }

    /// Prints a changed state.
    fn changed(&self, is_first: bool) {
        match (self.output, is_first) {
            (Output::Lines, true) => say(self.text()),
            (Output::Lines, false) => {
                let elapsed = text::short(self.begun.elapsed());
                say(format_args!("still {}, {elapsed} so far", self.text()));
            }
            (Output::Quiet | Output::Terminal, _) => {}
        }
    }

    fn redraw(&self) {
        if self.output == Output::Terminal && self.seen.is_some() {
            let elapsed = text::short(Duration::from_secs(self.begun.elapsed().as_secs()));
            let text = self.text();
            self.bar
                .set_message(format!("leasehold: {text}, {elapsed} so far"));
        }
    }

    /// Ends the display, and clears it from the terminal.
    pub(super) fn end(&self) {
        if self.seen.is_some() {
            self.bar.finish_and_clear();
        }
    }

    fn text(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| format!("{name:?}")).collect();
        let locks = if names.len() == 1 { "lock" } else { "locks" };
        let mut text = format!("waiting for {locks} {}", names.join(", "));
        let seen = self.seen.clone().unwrap_or_default();
        if let Some(holder) = seen.holder {
            text = format!("{text}: {holder}");
        }
        if let Some(place) = seen.place {
            text = format!("{text}, place {place} in the queue");
        }
        text
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// Describes the holder of a lock, or says that it is closed. Returns `None` if it is free.
fn in_the_way(view: &LockView) -> Option<String> {
    if let Some(holder) = view.holders.first() {
        return Some(format!("held by {}", lock::and_more(holder, view)));
    }
    view.closed_for
        .map(|_| "closed after an unclean end of its last hold".to_owned())
}
