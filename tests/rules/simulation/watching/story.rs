//! Stories of watchers and observers: what each of them has read since its last gap, and the checks that it fits together.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    name::LockName,
    view::{HolderView, NameView},
    watch::{Event, EventKind, Leader},
};
use leasehold_server::watch::{
    elections::Observer,
    watchers::{Message, Watcher},
};

use crate::{
    promises::holds,
    world::{NAMES, World},
};

pub(super) struct Reader {
    pub(super) watcher: Watcher,
    pub(super) is_slow: bool,
    /// What it knows of each name since the last gap.
    pub(super) story: BTreeMap<LockName, Chapter>,
    /// When it has read the whole snapshot.
    pub(super) since: Option<u64>,
}

/// What a watcher knows of a name.
#[derive(Debug, Default)]
pub(super) struct Chapter {
    newest: Option<i64>,
    live: BTreeSet<i64>,
}

pub(super) struct Spectator {
    pub(super) name: usize,
    pub(super) observer: Observer,
    pub(super) leader: Option<Leader>,
    /// The newest term that it has seen.
    pub(super) newest: Option<i64>,
}

fn number_of(name: &LockName) -> usize {
    let number = NAMES.iter().position(|it| *it == name.as_str());
    number.expect("it is one of them")
}

impl World {
    pub(super) fn read(&mut self, reader: &mut Reader, message: Message) {
        match message {
            Message::Gap(_) => {
                self.seen.gaps += 1;
                reader.story.clear();
                reader.since = None;
            }
            Message::Lock(name, view) => {
                reader.story.insert(name, Chapter::of(&view));
            }
            Message::Ready { .. } => reader.since = Some(self.now),
            Message::Event(event) => self.read_event(reader, &event),
        }
    }

    /// Fails if an event does not continue the story.
    fn read_event(&mut self, reader: &mut Reader, event: &Event) {
        self.seen.events += 1;
        let Some(HolderView::Ours(hold)) = &event.holder else {
            return;
        };
        let (number, token) = (number_of(&event.name), hold.token.get());
        let now = self.now;
        let chapter = reader.story.entry(event.name.clone()).or_default();
        if self.may_be_unseen(number, token) {
            chapter.live.remove(&token);
            if event.kind == EventKind::Granted {
                chapter.live.insert(token);
                chapter.newest = chapter.newest.max(Some(token));
            }
            return;
        }
        if event.kind != EventKind::Granted {
            assert!(
                chapter.live.contains(&token),
                "at {now}, a watcher is told the {:?} of token {token}, which is not held as far as it knows: {chapter:?}",
                event.kind
            );
            use EventKind::{Expired, Forced, Lost, Released};
            if matches!(event.kind, Expired | Forced | Lost(_) | Released) {
                chapter.live.remove(&token);
            }
            return;
        }
        assert!(
            self.is_untold(number, token) || chapter.newest.is_none_or(|newest| newest < token),
            "at {now}, a watcher is told the grant of token {token} after {chapter:?}"
        );
        if let (Some(newest), Some(since)) = (chapter.newest, reader.since)
            && newest < token
        {
            let missed = self.granted_between(number, (newest, token), since);
            assert!(
                missed.is_none(),
                "at {now}, a watcher is told the grant of token {token} of {}, and not that of {missed:?} before it: {chapter:?}",
                event.name
            );
        }
        chapter.newest = chapter.newest.max(Some(token));
        chapter.live.insert(token);
    }

    /// Fails if an observer goes back to a former term.
    pub(super) fn observe(&mut self, spectator: &mut Spectator, leader: Option<Leader>) {
        if let Some(leader) = &leader {
            let token = leader.token().get();
            if let Some(newest) = spectator.newest {
                // A fail-over may have lost the newer term.
                assert!(
                    newest <= token || self.may_be_made_twice(spectator.name, newest),
                    "at {}, an observer of {} goes back from term {newest} to {token}",
                    self.now,
                    NAMES[spectator.name]
                );
            }
            spectator.newest = Some(token);
        }
        spectator.leader = leader;
    }

    /// Fails if a watcher or observer believes in a hold, when nobody has held anything for a while.
    pub(crate) fn check_watching(&self) {
        for (number, site) in self.watching.sites.iter().enumerate() {
            for reader in &site.readers {
                let live = reader.story.values().map(|chapter| chapter.live.len());
                assert!(
                    reader.since.is_some() && live.sum::<usize>() == 0,
                    "a watcher of {number} does not know that all is over: {:?}",
                    reader.story
                );
            }
            for spectator in &site.spectators {
                assert!(
                    spectator.leader.is_none(),
                    "an observer of {number} does not know that the last term is over: {:?}",
                    spectator.leader
                );
            }
        }
    }
}

impl Chapter {
    fn of(view: &NameView) -> Self {
        Self {
            newest: view.token.map(|token| token.get()),
            live: holds(view).map(|hold| hold.token.get()).collect(),
        }
    }
}
