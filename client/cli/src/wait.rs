//! `wait`: waits until a lock is free, or held, without taking it.

use std::time::Duration;

use anyhow::Context;
use leasehold_client::{LockWatchEvent, LockWatcher};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    connection::Connection,
    duration::duration,
    exit::{NotYet, Outcome},
    outage::{LOOK, WatcherContact},
    show,
};

pub(crate) const HELP: &str = "\
The command watches the lock and does not take it: another client may have it a moment later. To
work while you hold it, use `leasehold run`. A lock that an unclean end keeps closed is not free.
If the coordinator goes away, the command waits for one; a coordinator must be reachable at startup
(otherwise 69). The caller needs the permission `inspect` for the name.

Examples:
  leasehold wait nightly-report && ./publish.sh
  leasehold wait migration --held --timeout 30s

Exit codes: 0 if the lock is free (or held), 75 if the time ran out, otherwise as for all commands.";

/// Options of `wait`.
#[derive(clap::Args, Debug)]
pub(crate) struct WaitOptions {
    /// The lock's name
    name: String,

    /// Wait until somebody holds the lock, instead of until it is free
    #[arg(long)]
    held: bool,

    /// Longest time to wait [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

/// State of a lock, from a watcher's messages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    /// The snapshot is not complete.
    #[default]
    Unknown,
    Held,
    /// Not held, but closed until then.
    Closed(Instant),
    Free,
}

/// One lock among those that a watcher tells of.
#[derive(Debug)]
struct Watched<'a> {
    name: &'a str,
    state: State,
}

impl Watched<'_> {
    fn hear(&mut self, now: Instant, news: &LockWatchEvent) {
        let (holders, closed_for) = match news {
            LockWatchEvent::Lock(view) if view.name == self.name => {
                (view.holders.len() as u64, view.closed_for)
            }
            LockWatchEvent::Event(event) if event.name == self.name => {
                (event.holder_count, event.closed_for)
            }
            // It was not in the snapshot.
            LockWatchEvent::Ready if self.state == State::Unknown => (0, None),
            LockWatchEvent::Gap(_) => {
                self.state = State::Unknown;
                return;
            }
            _ => return,
        };
        self.state = match (holders, closed_for) {
            (0, None) => State::Free,
            (0, Some(time)) => State::Closed(now + time),
            _ => State::Held,
        };
    }

    /// Returns whether the lock is as wanted.
    fn is(&self, held: bool, now: Instant) -> bool {
        match self.state {
            State::Unknown => false,
            State::Held => held,
            State::Closed(until) => !held && until <= now,
            State::Free => !held,
        }
    }

    /// Returns when the lock becomes free without a message, if it does.
    fn opens_at(&self) -> Option<Instant> {
        match self.state {
            State::Closed(until) => Some(until),
            _ => None,
        }
    }
}

/// Waits for the lock to be free, or held.
pub(crate) async fn wait(connection: &Connection, options: &WaitOptions, as_json: bool) -> Outcome {
    let WaitOptions { name, held, .. } = options;
    let mut watcher = connection.admin()?.watch_locks(name.as_str());
    let waiting = until(&mut watcher, name, *held);
    match options.timeout {
        None => waiting.await?,
        Some(limit) => match tokio::time::timeout(limit, waiting).await {
            Ok(ended) => ended?,
            Err(_) => {
                let (state, limit) = (word(!held), show::text::short(limit));
                let message = format!("lock {name:?} is still {state} after {limit}");
                return Err(NotYet(message).into());
            }
        },
    }
    show::answer(as_json, json!({ "name": name, "held": held }), || {
        format!("{} is {}", show::text::escaped(name), word(*held))
    })
}

fn word(held: bool) -> &'static str {
    match held {
        true => "held",
        false => "free",
    }
}

async fn until(watcher: &mut LockWatcher, name: &str, held: bool) -> anyhow::Result<()> {
    let what = || format!("failed to watch lock {name:?}");
    let mut watched = Watched {
        name,
        state: State::default(),
    };
    let mut contact = WatcherContact::default();
    while !watched.is(held, Instant::now()) {
        let opens_at = watched.opens_at();
        tokio::select! {
            biased;
            item = watcher.next() => match item {
                Some(Ok(news)) => {
                    contact.told(watcher.interruption());
                    watched.hear(Instant::now(), &news);
                }
                Some(Err(failure)) => return Err(anyhow::Error::new(failure).context(what())),
                None => anyhow::bail!(what()),
            },
            () = sleep_until(opens_at.unwrap_or_else(Instant::now)), if opens_at.is_some() => {}
            () = sleep(LOOK) => contact.looked(watcher.interruption()).with_context(what)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use leasehold_client::{LockEvent, LockView};

    use super::*;

    fn watched() -> Watched<'static> {
        Watched {
            name: "a",
            state: State::default(),
        }
    }

    fn event(name: &str, holders: u64, closed_for: Option<Duration>) -> LockWatchEvent {
        let mut event = LockEvent::default();
        event.name = name.into();
        event.holder_count = holders;
        event.closed_for = closed_for;
        LockWatchEvent::Event(event)
    }

    #[test]
    fn a_lock_that_is_not_in_the_snapshot_is_free_when_that_is_complete() {
        let (mut watched, now) = (watched(), Instant::now());
        let mut longer = LockView::default();
        longer.name = "ab".into();
        longer.holders = vec![Default::default()];
        watched.hear(now, &LockWatchEvent::Lock(longer));
        assert!(!watched.is(true, now) && !watched.is(false, now));
        watched.hear(now, &LockWatchEvent::Ready);
        assert!(watched.is(false, now));
    }

    #[test]
    fn events_and_gaps_change_what_is_known() {
        let (mut watched, now) = (watched(), Instant::now());
        watched.hear(now, &event("a", 2, None));
        assert!(watched.is(true, now) && !watched.is(false, now));
        watched.hear(now, &LockWatchEvent::Ready);
        assert!(watched.is(true, now));
        watched.hear(now, &event("b", 0, None));
        assert!(watched.is(true, now));
        watched.hear(now, &LockWatchEvent::Gap(String::new()));
        assert!(!watched.is(true, now) && !watched.is(false, now));
        watched.hear(now, &event("a", 0, None));
        assert!(watched.is(false, now));
    }

    #[test]
    fn a_closed_lock_is_free_when_its_time_is_over() {
        let (mut watched, now) = (watched(), Instant::now());
        let time = Duration::from_secs(5);
        watched.hear(now, &event("a", 0, Some(time)));
        assert_eq!(watched.opens_at(), Some(now + time));
        assert!(!watched.is(false, now) && !watched.is(true, now));
        assert!(watched.is(false, now + time));
    }
}
