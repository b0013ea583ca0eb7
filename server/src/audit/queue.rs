//! Queue of events for the writer. Putting one in takes a lock for a moment, and never waits for the writer.

use std::time::Duration;

use leasehold_core::time::StoreTime;
use parking_lot::{Condvar, Mutex};

use super::event::Event;

/// Time for which events gather before the writer takes them: under load, it wakes up that seldom.
const GATHER: Duration = Duration::from_millis(20);

/// Event with its time.
pub(super) type Stamped = (StoreTime, Event);

/// Events that were not written yet, the oldest first.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<Stamped>,
    /// Events that found no room since the writer took some.
    dropped: u64,
    is_closed: bool,
    /// Whether the writer waits for an event.
    is_writer_idle: bool,
}

/// Outcome of taking events out.
#[derive(Debug)]
pub(super) struct Taken {
    /// Events that were dropped after those.
    pub(super) dropped: u64,
    /// Whether nothing follows.
    pub(super) is_last: bool,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            capacity,
        }
    }

    /// Puts an event in. Returns false if there was no room.
    pub(super) fn put(&self, event: Stamped) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.events.len() >= self.capacity || waiting.is_closed {
            waiting.dropped += 1;
            return false;
        }
        waiting.events.push(event);
        if std::mem::take(&mut waiting.is_writer_idle) {
            drop(waiting);
            self.arrived.notify_one();
        }
        true
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for events, and takes all of them out. `events` must be empty; its memory is used for what comes next.
    pub(super) fn take(&self, events: &mut Vec<Stamped>) -> Taken {
        let mut waiting = self.waiting.lock();
        while waiting.events.is_empty() && waiting.dropped == 0 && !waiting.is_closed {
            waiting.is_writer_idle = true;
            self.arrived.wait(&mut waiting);
        }
        waiting.is_writer_idle = false;
        if !waiting.is_closed {
            self.arrived.wait_for(&mut waiting, GATHER);
        }
        std::mem::swap(&mut waiting.events, events);
        Taken {
            dropped: std::mem::take(&mut waiting.dropped),
            is_last: waiting.is_closed,
        }
    }
}
