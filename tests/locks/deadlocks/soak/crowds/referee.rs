//! Referee that knows holders and waiters from the clients' messages, and so the moment when a deadlock closes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// Sees everything that the clients of exclusive locks do, which each tell it before they ask and release, and after they
/// were answered.
///
/// So who holds a name by this book has been granted it, and has not sent its release; who waits by it is not known to have
/// been answered. A circle of these is a deadlock, whatever is under way. It always closes by somebody's asking.
#[derive(Default)]
pub(super) struct Referee {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// The holder of each name.
    holders: HashMap<usize, usize>,
    /// The name that each member waits for.
    waits: HashMap<usize, usize>,
    /// The members in a deadlock, each with the time since which it is in one.
    stuck: HashMap<usize, Instant>,
    deadlocks: u64,
}

impl Referee {
    /// Notes that a member is about to ask for a name.
    pub(super) fn asks(&self, who: usize, name: usize) {
        let mut book = self.book();
        assert_eq!(book.waits.insert(who, name), None);
        if let Some(circle) = book.circle(who) {
            let now = Instant::now();
            book.deadlocks += 1;
            book.stuck.extend(circle.into_iter().map(|who| (who, now)));
        }
    }

    /// Notes that a member was granted a name.
    pub(super) fn granted(&self, who: usize, name: usize) {
        let mut book = self.book();
        assert_eq!(book.waits.remove(&who), Some(name));
        let holder = book.holders.insert(name, who);
        assert_eq!(holder, None, "granted to {who} as well");
        let stuck = book.stuck.get(&who);
        assert_eq!(stuck, None, "granted to {who} in spite of a deadlock");
    }

    /// Notes that a member was refused because of a deadlock; returns the deadlock's duration.
    pub(super) fn accused(&self, who: usize) -> Duration {
        let mut book = self.book();
        let circle = book.circle(who);
        let circle = circle.unwrap_or_else(|| panic!("{who} was accused of no deadlock"));
        let since: Vec<_> = circle.iter().map(|who| book.stuck.remove(who)).collect();
        book.waits.remove(&who);
        since[0].expect("a deadlock has closed").elapsed()
    }

    /// Notes that a member is about to release a name.
    pub(super) fn releases(&self, who: usize, name: usize) {
        assert_eq!(self.book().holders.remove(&name), Some(who));
    }

    /// Returns the number of deadlocks. Asserts that none is left.
    pub(super) fn deadlocks(&self) -> u64 {
        let book = self.book();
        assert!(book.stuck.is_empty(), "{:?}", book.stuck);
        book.deadlocks
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }
}

impl Book {
    /// Returns the circle of a member, beginning with it.
    fn circle(&self, who: usize) -> Option<Vec<usize>> {
        let mut circle = vec![who];
        loop {
            let last = circle.last()?;
            let next = *self.holders.get(self.waits.get(last)?)?;
            if next == who {
                return Some(circle);
            }
            // Some other circle, which it only waits for.
            if circle.contains(&next) {
                return None;
            }
            circle.push(next);
        }
    }
}

#[test]
fn the_referee_sees_a_deadlock_from_its_last_wait_on() {
    let referee = Referee::default();
    for who in 0..3 {
        referee.asks(who, who);
        referee.granted(who, who);
    }
    referee.asks(0, 1);
    referee.asks(1, 2);
    assert_eq!(referee.deadlocks(), 0);
    referee.asks(2, 0);
    assert_eq!(referee.book().stuck.len(), 3);
    referee.accused(1);
    assert_eq!(referee.deadlocks(), 1);
    // Nobody else may be accused of it.
    let again = std::panic::catch_unwind(|| referee.accused(0));
    assert!(again.is_err());
}
