//! State of `top`, as a machine: what happens and the time go in, what is to be done comes out. It knows neither the terminal
//! nor the network.

use std::{collections::VecDeque, sync::Arc};

use crossterm::event::KeyCode;
use leasehold_client::{CoordinatorStatus, ForceReleased, LockWatchEvent};

use super::{
    input::{Input, Now, Output, Release, Target, moved},
    lock_page::{Decision, LockPage},
    locks::{Locks, Sort, Totals},
};
use crate::show::{event, text};

/// Most events that are kept.
const EVENTS: usize = 200;
/// Longest filter, in characters.
const LONGEST_FILTER: usize = 100;
/// Ticks between two questions to the coordinators.
const ROUND: u32 = 2;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) locks: Locks,
    pub(super) coordinators: Option<Vec<CoordinatorStatus>>,
    /// Events, as lines of `watch` have them, the newest first.
    pub(super) events: VecDeque<[String; 5]>,
    /// Whether the snapshot is complete.
    pub(super) ready: bool,
    /// Failure for which nothing is heard at present.
    pub(super) interruption: Option<String>,
    /// The result of the last release.
    pub(super) notice: Option<String>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) typing: bool,
    pub(super) help: bool,
    /// The open lock.
    pub(super) page: Option<LockPage>,
    /// Names in the order of the list, as it was arranged last.
    pub(super) rows: Vec<Arc<str>>,
    pub(super) totals: Totals,
    /// The chosen row. If the user has not moved, it is the first one, whichever that is.
    pub(super) at: usize,
    chosen: Option<Arc<str>>,
    ticks: u32,
    asking: bool,
}

impl Model {
    pub(super) fn new(sort: Sort) -> Self {
        Self {
            locks: Locks::default(),
            coordinators: None,
            events: VecDeque::with_capacity(EVENTS),
            ready: false,
            interruption: None,
            notice: None,
            sort,
            filter: String::new(),
            typing: false,
            help: false,
            page: None,
            rows: Vec::new(),
            totals: Totals::default(),
            at: 0,
            chosen: None,
            ticks: 0,
            asking: false,
        }
    }

    /// Takes in what happened, and returns what is to be done.
    pub(super) fn update(&mut self, now: Now, input: Input) -> Vec<Output> {
        match input {
            Input::Key(key) => return self.press(key),
            Input::Watched(news) => self.watched(now, &news),
            Input::Interrupted(why) => self.interruption = why,
            Input::Coordinators(rows) => {
                self.asking = false;
                self.coordinators = Some(rows);
            }
            Input::Looked(name, view) => {
                if let Some(page) = self.page.as_mut().filter(|page| page.name == name) {
                    page.looked(view);
                }
            }
            Input::Released(release, result) => {
                self.notice = Some(told(&release, result));
                return self.look().into_iter().collect();
            }
            Input::Tick => return self.tick(now),
        }
        Vec::new()
    }

    fn tick(&mut self, now: Now) -> Vec<Output> {
        self.locks.tidy(now.instant);
        let due = self.ticks.is_multiple_of(ROUND) && !self.asking;
        self.ticks = self.ticks.wrapping_add(1);
        let ask = due.then(|| {
            self.asking = true;
            Output::AskCoordinators
        });
        ask.into_iter().chain(self.look()).collect()
    }

    /// Returns the look at the open lock, unless one is under way.
    fn look(&mut self) -> Option<Output> {
        let page = self.page.as_mut()?;
        page.look().then(|| Output::Look(page.name.clone()))
    }

    fn watched(&mut self, now: Now, news: &LockWatchEvent) {
        match news {
            LockWatchEvent::Lock(view) => return self.locks.show(view, now.instant),
            LockWatchEvent::Ready => {
                self.ready = true;
                self.locks.tidy(now.instant);
                return;
            }
            LockWatchEvent::Event(event) => self.locks.change(event, now.instant),
            LockWatchEvent::Gap(_) => {
                self.ready = false;
                self.locks.doubt();
            }
            _ => return,
        }
        self.events.truncate(EVENTS - 1);
        self.events.push_front(event::cells(news, 0));
    }

    fn press(&mut self, key: KeyCode) -> Vec<Output> {
        self.notice = None;
        if self.help {
            self.help = false;
            return Vec::new();
        }
        if self.typing {
            self.type_filter(key);
            return Vec::new();
        }
        let asked = self.page.as_ref().is_some_and(|it| it.question.is_some());
        match key {
            KeyCode::Char('q') if !asked => return vec![Output::Quit],
            KeyCode::Char('?') if !asked => {
                self.help = true;
                return Vec::new();
            }
            _ => {}
        }
        if let Some(page) = &mut self.page {
            match page.press(key) {
                Some(Decision::Close) => self.page = None,
                Some(Decision::Release(release)) => return vec![Output::Release(release)],
                None => {}
            }
            return Vec::new();
        }
        match key {
            KeyCode::Enter | KeyCode::Right => {
                let name = self.rows.get(self.at).map(ToString::to_string);
                self.page = name.map(LockPage::new);
                return self.look().into_iter().collect();
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            // Follows the first row, whichever that is.
            KeyCode::Home => (self.at, self.chosen) = (0, None),
            key => {
                if let Some(at) = moved(key, self.at, self.rows.len()) {
                    self.choose(at);
                }
            }
        }
        Vec::new()
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(letter);
            }
            _ => {}
        }
    }

    fn choose(&mut self, at: usize) {
        self.at = at.min(self.rows.len().saturating_sub(1));
        self.chosen = self.rows.get(self.at).cloned();
    }

    /// Arranges the list anew, before it is drawn. The chosen lock stays chosen wherever its row goes.
    pub(super) fn arrange(&mut self, now: Now) {
        self.rows = self.locks.arranged(self.sort, &self.filter, now);
        self.totals = self.locks.totals(now.instant);
        let Some(chosen) = &self.chosen else {
            self.at = 0;
            return;
        };
        match self.rows.iter().position(|name| name == chosen) {
            Some(at) => self.at = at,
            None => self.choose(self.at),
        }
    }
}

/// Returns what there is to say about a release.
fn told(release: &Release, result: Result<ForceReleased, String>) -> String {
    let Release { name, who, .. } = release;
    let name = text::escaped(name);
    let done = match result {
        Err(failure) => return format!("failed to release {name}: {failure}"),
        Ok(answer) => answer.released,
    };
    match (release.target, done) {
        (Target::Waiter(_), true) => format!("the wait of {who} for {name} was ended"),
        (Target::Waiter(_), false) => format!("{who} no longer waits for {name}"),
        (_, true) => format!("{name} was taken from {who}"),
        (_, false) => format!("{who} no longer holds {name}; nothing was released"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
mod tests;
