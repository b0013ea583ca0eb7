//! Queue of commands that wait for the next call on their connection.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures_util::poll;

/// Most commands in one call.
const BATCH: usize = 256;
/// Number of commands for which an empty lane keeps memory.
const KEPT: usize = 4 * BATCH;

/// Commands that wait for one connection, and the tasks that send them.
#[derive(Debug)]
pub(crate) struct Lane<Item> {
    most_in_flight: usize,
    waiting: Mutex<Waiting<Item>>,
    /// Held while a batch is taken out and handed to the connection, so that batches of two tasks keep their order.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting<Item> {
    items: VecDeque<Item>,
    in_flight: usize,
}

impl<Item> Lane<Item> {
    /// Returns an empty lane with at most so many calls in flight.
    pub(crate) fn new(most_in_flight: usize) -> Self {
        Self {
            most_in_flight,
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                in_flight: 0,
            }),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a command. Returns whether the caller must start one more task that drives the lane.
    pub(crate) fn push(&self, item: Item) -> bool {
        let mut waiting = self.waiting();
        waiting.items.push_back(item);
        let starts = waiting.in_flight < self.most_in_flight;
        if starts {
            waiting.in_flight += 1;
        }
        starts
    }

    /// Sends batches, one after the other, until no command waits.
    pub(crate) async fn drive<F: Future<Output = ()>>(&self, call: impl Fn(Vec<Item>) -> F) {
        loop {
            let turn = self.turn.lock().await;
            let batch = self.waiting().take_batch();
            if batch.is_empty() {
                return;
            }
            let mut call = pin!(call(batch));
            // The first poll hands it to the connection, which has room for more calls than can be in flight.
            let polled = poll!(&mut call);
            drop(turn);
            if polled.is_pending() {
                call.await;
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<Item>> {
        // A panic elsewhere can't leave it torn: each use is a push, or a drain with its count.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Item> Waiting<Item> {
    /// Takes out the commands of one call, the oldest first. The rest is not moved. Without any, a task less is in flight.
    fn take_batch(&mut self) -> Vec<Item> {
        let size = self.items.len().min(BATCH);
        if size == 0 {
            self.in_flight -= 1;
        }
        let batch = self.items.drain(..size).collect();
        // Frees the memory of a burst.
        if self.items.is_empty() && self.items.capacity() > KEPT {
            self.items.shrink_to(BATCH);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_from_the_front_and_the_rest_is_neither_moved_nor_copied() {
        let lane = Lane::new(1);
        let numbers = || 0..100 * BATCH + 1;
        numbers().for_each(|number| {
            lane.push(number);
        });
        let mut lane = lane.waiting();
        let mut taken = Vec::new();
        loop {
            let next = lane.items.get(BATCH).map(std::ptr::from_ref);
            let batch = lane.take_batch();
            assert!(batch.len() <= BATCH && batch.capacity() <= 2 * BATCH);
            if next.is_some() {
                assert_eq!(lane.items.front().map(std::ptr::from_ref), next);
            } else {
                assert!(lane.items.capacity() <= KEPT, "the burst is over");
            }
            if batch.is_empty() {
                break;
            }
            taken.extend(batch);
        }
        assert!(taken.into_iter().eq(numbers()));
    }
}
