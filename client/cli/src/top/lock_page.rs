//! The page of one lock: its holders and its queue, the chosen one of them, and the question before a release.

use crossterm::event::KeyCode;
use leasehold_client::LockView;

use super::input::{Release, Target, moved};
use crate::show::text;

/// An open lock.
#[derive(Debug)]
pub(super) struct LockPage {
    pub(super) name: String,
    /// The lock as it was shown last, or why it could not be.
    pub(super) view: Option<Result<LockView, String>>,
    /// The chosen holder or waiter: holders come first.
    chosen: usize,
    /// The release that waits for the user's answer.
    pub(super) question: Option<Release>,
    /// Whether a look is under way.
    looking: bool,
}

/// The user's decision on a page.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Decision {
    Close,
    Release(Release),
}

impl LockPage {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            view: None,
            chosen: 0,
            question: None,
            looking: false,
        }
    }

    /// Returns whether a look is due: none is under way.
    pub(super) fn look(&mut self) -> bool {
        !std::mem::replace(&mut self.looking, true)
    }

    pub(super) fn looked(&mut self, view: Result<LockView, String>) {
        self.looking = false;
        self.view = Some(view);
        self.chosen = self.chosen.min(self.parties().saturating_sub(1));
    }

    fn lock(&self) -> Option<&LockView> {
        self.view.as_ref()?.as_ref().ok()
    }

    /// Returns the number of holders and waiters that are shown.
    fn parties(&self) -> usize {
        let lock = self.lock();
        lock.map_or(0, |lock| lock.holders.len() + lock.waiters.len())
    }

    /// Returns the place of the chosen holder, if a holder is chosen.
    pub(super) fn holder(&self) -> Option<usize> {
        let holders = self.lock()?.holders.len();
        (self.chosen < holders).then_some(self.chosen)
    }

    /// Returns the place of the chosen waiter, if a waiter is chosen.
    pub(super) fn waiter(&self) -> Option<usize> {
        let lock = self.lock()?;
        let place = self.chosen.checked_sub(lock.holders.len())?;
        (place < lock.waiters.len()).then_some(place)
    }

    /// Returns the release of the chosen hold or wait.
    fn release(&self) -> Option<Release> {
        let lock = self.lock()?;
        let (target, who) = if let Some(place) = self.holder() {
            let holder = &lock.holders[place];
            let target = holder.fencing_token.map_or(Target::All, Target::Holder);
            (target, text::holder(holder))
        } else {
            let waiter = &lock.waiters[self.waiter()?];
            (Target::Waiter(waiter.number?), text::waiter(waiter))
        };
        Some(Release {
            name: self.name.clone(),
            target,
            who,
        })
    }

    pub(super) fn press(&mut self, key: KeyCode) -> Option<Decision> {
        if let Some(release) = self.question.take() {
            let agrees = matches!(key, KeyCode::Char('y' | 'Y'));
            return agrees.then_some(Decision::Release(release));
        }
        match key {
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => return Some(Decision::Close),
            KeyCode::Char('x') => self.question = self.release(),
            key => {
                if let Some(chosen) = moved(key, self.chosen, self.parties()) {
                    self.chosen = chosen;
                }
            }
        }
        None
    }
}
