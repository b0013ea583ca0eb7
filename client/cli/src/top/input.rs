//! Inputs and outputs of the model, and the time.

use std::time::{Instant, SystemTime};

use crossterm::event::KeyCode;
use leasehold_client::{CoordinatorStatus, FencingToken, ForceReleased, LockView, LockWatchEvent};

/// The time: of the process, and of the wall, which the store's times are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: SystemTime,
}

impl Now {
    pub(super) fn read() -> Self {
        Self {
            instant: Instant::now(),
            wall: SystemTime::now(),
        }
    }
}

/// Rows that PgUp and PgDn go past.
const PAGE: usize = 10;

/// Returns the row that a key chooses among some rows, if it is a key that moves the choice.
pub(super) fn moved(key: KeyCode, at: usize, rows: usize) -> Option<usize> {
    let last = rows.saturating_sub(1);
    let to = match key {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => at.saturating_add(1),
        KeyCode::PageUp => at.saturating_sub(PAGE),
        KeyCode::PageDown => at.saturating_add(PAGE),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => return None,
    };
    Some(to.min(last))
}

/// Something that happened.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are the watcher's, which would have to be allocated one by one"
)]
pub(super) enum Input {
    /// The user pressed a key.
    Key(KeyCode),
    /// The watcher told something.
    Watched(LockWatchEvent),
    /// No coordinator serves the watcher, for this reason; or one does again.
    Interrupted(Option<String>),
    /// The coordinators answered.
    Coordinators(Vec<CoordinatorStatus>),
    /// A coordinator showed this lock, or failed to.
    Looked(String, Result<LockView, String>),
    /// A coordinator carried out a release, or failed to.
    Released(Release, Result<ForceReleased, String>),
    /// About a second has passed.
    Tick,
}

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Output {
    Quit,
    /// Ask all coordinators for their status.
    AskCoordinators,
    /// Look at this lock.
    Look(String),
    Release(Release),
}

/// A release by force, of one hold or one wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Release {
    pub(super) name: String,
    pub(super) target: Target,
    /// The client that loses it, in a word.
    pub(super) who: String,
}

/// The hold or wait that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Holder(FencingToken),
    /// A foreign holder, which has no token: the lock is taken from whoever holds it.
    All,
    Waiter(u64),
}

#[cfg(test)]
pub(super) mod made {
    //! Inputs for tests.

    use std::time::Duration;

    use leasehold_client::{Holder, LockEvent, LockEventKind, LockMode, LockView, Waiter};

    use super::*;

    pub(in super::super) fn now() -> Now {
        Now {
            instant: Instant::now(),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000),
        }
    }

    pub(in super::super) fn holder(client: &str, since: SystemTime) -> Holder {
        let mut holder = Holder::default();
        holder.client_name = client.into();
        holder.fencing_token = Some(7.into());
        holder.acquired_at = Some(since);
        holder.ttl = Some(Duration::from_secs(9));
        holder.coordinator = "one".into();
        holder
    }

    pub(in super::super) fn waiter(client: &str, number: u64) -> Waiter {
        let mut waiter = Waiter::default();
        waiter.client_name = client.into();
        waiter.number = Some(number);
        waiter.position = number;
        waiter
    }

    pub(in super::super) fn held(
        name: &str,
        client: &str,
        since: SystemTime,
        waiters: u64,
    ) -> LockView {
        let mut view = LockView::default();
        view.name = name.into();
        view.mode = Some(LockMode::Exclusive);
        view.holders = vec![holder(client, since)];
        view.holder_count = 1;
        view.waiter_count = waiters;
        view.fencing_token = Some(7.into());
        view
    }

    fn event(kind: LockEventKind, name: &str, client: &str) -> LockEvent {
        let mut event = LockEvent::default();
        event.kind = kind;
        event.name = name.into();
        event.fencing_token = Some(7.into());
        event.holder = Some(holder(client, SystemTime::UNIX_EPOCH));
        event
    }

    pub(in super::super) fn granted(name: &str, client: &str, at: SystemTime) -> LockEvent {
        let mut event = event(LockEventKind::Granted, name, client);
        event.time = Some(at);
        event.mode = Some(LockMode::Exclusive);
        event.holder = Some(holder(client, at));
        event.holder_count = 1;
        event
    }

    pub(in super::super) fn released(name: &str, client: &str) -> LockEvent {
        event(LockEventKind::Released, name, client)
    }
}
