//! Queue of commands that wait for the next call on their connection.

use std::collections::VecDeque;

/// Most commands in one call.
const BATCH: usize = 256;
/// Number of commands for which an empty lane keeps memory.
const KEPT: usize = 4 * BATCH;

/// Commands that wait for one connection, and the number of its calls in flight.
#[derive(Debug)]
pub(crate) struct Lane<Item> {
    waiting: VecDeque<Item>,
    pub(crate) in_flight: usize,
}

impl<Item> Default for Lane<Item> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            in_flight: 0,
        }
    }
}

impl<Item> Lane<Item> {
    pub(crate) fn push(&mut self, item: Item) {
        self.waiting.push_back(item);
    }

    /// Takes out the commands of one call, the oldest first. The rest is not moved.
    pub(crate) fn take_batch(&mut self) -> Vec<Item> {
        let size = self.waiting.len().min(BATCH);
        let batch = self.waiting.drain(..size).collect();
        // Frees the memory of a burst.
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
            self.waiting.shrink_to(BATCH);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_from_the_front_and_the_rest_is_neither_moved_nor_copied() {
        let mut lane = Lane::default();
        let numbers = || 0..100 * BATCH + 1;
        numbers().for_each(|number| lane.push(number));
        let mut taken = Vec::new();
        loop {
            let next = lane.waiting.get(BATCH).map(std::ptr::from_ref);
            let batch = lane.take_batch();
            assert!(batch.len() <= BATCH && batch.capacity() <= 2 * BATCH);
            if next.is_some() {
                assert_eq!(lane.waiting.front().map(std::ptr::from_ref), next);
            } else {
                assert!(lane.waiting.capacity() <= KEPT, "the burst is over");
            }
            if batch.is_empty() {
                break;
            }
            taken.extend(batch);
        }
        assert!(taken.into_iter().eq(numbers()));
    }
}
