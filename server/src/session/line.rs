//! Queue of waiting entries, in the order in which they came. Any of them may leave early: by its number, or because
//! its wait is over.

use std::collections::{BTreeSet, VecDeque};

use leasehold_core::time::Moment;

/// For how many a line in which nobody waits keeps memory.
const KEPT: usize = 64;

/// Such a line.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// By their numbers. The first one is there.
    places: VecDeque<Place<T>>,
    /// How many of those have left.
    left: usize,
    /// The number of the next.
    next: u64,
    /// Until when they wait, of those that do not wait for ever.
    until: BTreeSet<(Moment, u64)>,
}

#[derive(Debug)]
struct Place<T> {
    number: u64,
    /// `None` once it has left.
    who: Option<T>,
    until: Option<Moment>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            left: 0,
            next: 0,
            until: BTreeSet::new(),
        }
    }
}

impl<T> Line<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Joins at its end; gives its number.
    pub(super) fn join(&mut self, who: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.places.push_back(Place {
            number,
            who: Some(who),
            until: None,
        });
        number
    }

    /// Who this is, as long as it waits.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.places[self.index(number)?].who.as_ref()
    }

    /// This one waits no longer than that.
    pub(super) fn wait_until(&mut self, number: u64, until: Moment) {
        if let Some(index) = self.index(number)
            && self.places[index].who.is_some()
        {
            self.places[index].until = Some(until);
            self.until.insert((until, number));
        }
    }

    /// Takes the first one out.
    pub(super) fn take_first(&mut self) -> Option<T> {
        let number = self.places.front()?.number;
        self.take(number)
    }

    /// Takes one out, if it still waits.
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let index = self.index(number)?;
        let place = &mut self.places[index];
        let who = place.who.take()?;
        if let Some(until) = place.until {
            self.until.remove(&(until, number));
        }
        self.left += 1;
        self.tidy();
        Some(who)
    }

    /// Takes one out that has waited for as long as it wanted to.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<T> {
        let (until, number) = *self.until.first()?;
        if now < until {
            return None;
        }
        self.take(number)
    }

    /// When the first of them has waited for as long as it wanted to.
    pub(super) fn due(&self) -> Option<Moment> {
        self.until.first().map(|(until, _)| *until)
    }

    /// All that wait, in their order; none does any more.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.left = 0;
        self.until.clear();
        let places = std::mem::take(&mut self.places);
        places.into_iter().filter_map(|place| place.who)
    }

    /// Forgets those that have left, as soon as they are first, or most: each costs little.
    fn tidy(&mut self) {
        while self.places.front().is_some_and(|place| place.who.is_none()) {
            self.places.pop_front();
            self.left -= 1;
        }
        if self.left > self.places.len() / 2 {
            self.places.retain(|place| place.who.is_some());
            self.left = 0;
        }
        // What a burst needed goes again.
        if self.places.is_empty() && self.places.capacity() > KEPT {
            self.places = VecDeque::new();
        }
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.places
            .binary_search_by_key(&number, |place| place.number)
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1000)
    }

    #[test]
    fn those_who_leave_are_passed_over_and_the_others_keep_their_order() {
        let mut line = Line::default();
        let numbers: Vec<u64> = (0..10).map(|who| line.join(who)).collect();
        for gone in [0, 5, 4, 9] {
            assert_eq!(line.take(numbers[gone]), Some(gone));
            assert_eq!(line.take(numbers[gone]), None);
            assert_eq!(line.get(numbers[gone]), None);
        }
        assert_eq!(line.get(numbers[6]), Some(&6));
        assert_eq!(line.take_first(), Some(1));
        assert_eq!(line.join(10), 10);
        assert_eq!(line.take_all().collect::<Vec<_>>(), [2, 3, 6, 7, 8, 10]);
        assert!(line.is_empty());
        assert_eq!(line.take_first(), None);
    }

    #[test]
    fn those_who_wait_no_longer_are_found_by_their_time_wherever_they_are() {
        let mut line = Line::default();
        let numbers: Vec<u64> = (0..5).map(|who| line.join(who)).collect();
        assert_eq!(line.due(), None);
        for (who, until) in [(1, 30), (3, 10), (4, 20), (2, 10)] {
            line.wait_until(numbers[who], at(until));
        }
        assert_eq!((line.due(), line.take_due(at(9))), (Some(at(10)), None));
        assert_eq!(line.take_due(at(10)), Some(2));
        assert_eq!(line.take(numbers[3]), Some(3));
        // Who has left is not waited for.
        line.wait_until(numbers[3], at(1));
        assert_eq!((line.due(), line.take_due(at(19))), (Some(at(20)), None));
        assert_eq!(line.take_first(), Some(0));
        assert_eq!(line.take_due(at(99)), Some(4));
        assert_eq!(line.take_all().collect::<Vec<_>>(), [1]);
        assert_eq!(line.due(), None);
    }

    #[test]
    fn those_who_have_left_are_never_most_of_what_is_kept() {
        let mut line = Line::default();
        line.join(0);
        for round in 1..10_000 {
            let number = line.join(round);
            assert_eq!(line.take(number), Some(round));
            assert!(line.places.len() <= 2);
        }
        let numbers: Vec<u64> = (0..10_000).map(|who| line.join(who)).collect();
        for number in &numbers[1..] {
            line.take(*number);
        }
        assert!(line.places.len() <= 4, "{}", line.places.len());
        assert_eq!(line.take_all().collect::<Vec<_>>(), [0, 0]);
        assert!(line.places.capacity() <= KEPT);
    }
}
