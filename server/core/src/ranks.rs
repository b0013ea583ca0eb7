//! Order-statistic set of rising numbers: gives the rank of each, though any of them may be removed.

/// Set of numbers that are added in rising order. Adding, removing and ranking one takes amortized O(log n).
///
/// The numbers keep their slots until half of them are gone; a Fenwick tree counts how many slots before one are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranks {
    /// The numbers of all slots, rising, including removed ones.
    slots: Vec<u64>,
    taken: Vec<bool>,
    /// At `i`, counted from 1: the number of taken slots among the `i & -i` slots that end with slot `i`.
    tree: Vec<u32>,
    len: usize,
}

impl Ranks {
    /// Returns how many numbers the set has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a number greater than all added before.
    pub(crate) fn push(&mut self, number: u64) {
        debug_assert!(self.slots.last().is_none_or(|last| *last < number));
        self.slots.push(number);
        self.taken.push(true);
        let end = self.slots.len();
        let start = end - lowest_bit(end);
        let before = self.count_to(end - 1) - self.count_to(start);
        self.tree.push(before + 1);
        self.len += 1;
    }

    /// Removes a number; returns false if the set lacks it.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Some(slot) = self.slot(number) else {
            return false;
        };
        self.taken[slot] = false;
        self.len -= 1;
        let mut end = slot + 1;
        while end <= self.tree.len() {
            self.tree[end - 1] -= 1;
            end += lowest_bit(end);
        }
        if self.len * 2 < self.slots.len() {
            self.close_up();
        }
        true
    }

    /// Returns how many numbers of the set are at most this one: its rank, 1 for the least, if the set has it.
    pub(crate) fn rank(&self, number: u64) -> u64 {
        u64::from(self.count_to(self.slots.partition_point(|slot| *slot <= number)))
    }

    fn slot(&self, number: u64) -> Option<usize> {
        let slot = self.slots.binary_search(&number).ok()?;
        self.taken[slot].then_some(slot)
    }

    /// Returns how many of the first slots are taken.
    fn count_to(&self, mut end: usize) -> u32 {
        let mut count = 0;
        while end > 0 {
            count += self.tree[end - 1];
            end -= lowest_bit(end);
        }
        count
    }

    /// Drops the slots of removed numbers.
    fn close_up(&mut self) {
        let mut taken = std::mem::take(&mut self.taken).into_iter();
        self.slots.retain(|_| taken.next().unwrap_or(false));
        self.taken = vec![true; self.slots.len()];
        self.tree = (1..=self.slots.len())
            .map(|end| u32::try_from(lowest_bit(end)).unwrap_or(u32::MAX))
            .collect();
    }
}

fn lowest_bit(number: usize) -> usize {
    number & number.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Remove(usize),
        RemoveMissing(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..5_u64).prop_map(Step::Push),
            3 => any::<usize>().prop_map(Step::Remove),
            1 => any::<u64>().prop_map(Step::RemoveMissing),
        ]
    }

    proptest! {
        /// Ranks equal the result of counting one by one.
        #[test]
        fn ranks_are_counted_right(steps in prop::collection::vec(step(), 1..100)) {
            let (mut ranks, mut model) = (Ranks::default(), BTreeSet::new());
            let mut last = 0;
            for step in steps {
                match step {
                    Step::Push(gap) => {
                        last += gap;
                        ranks.push(last);
                        model.insert(last);
                    }
                    Step::Remove(index) if !model.is_empty() => {
                        let number = model.iter().nth(index % model.len()).copied();
                        let number = number.unwrap_or_default();
                        prop_assert!(ranks.remove(number));
                        model.remove(&number);
                    }
                    Step::Remove(_) => {}
                    Step::RemoveMissing(number) => {
                        prop_assert_eq!(ranks.remove(number), model.remove(&number));
                    }
                }
                prop_assert_eq!(ranks.len(), model.len());
                prop_assert!(ranks.slots.len() <= 2 * model.len() + 1);
                for number in 0..=last + 1 {
                    let up_to = model.range(..=number).count();
                    prop_assert_eq!(ranks.rank(number), up_to as u64);
                }
            }
        }
    }
}
