//! Random numbers, and pipes whose messages are late.

use std::collections::VecDeque;

/// One millisecond of the world's time.
pub(crate) const MS: u64 = 1_000;

/// Generator of random numbers: the same seed gives the same world.
#[derive(Default)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below this one.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Returns how long a message is on its way.
    pub(crate) fn delay(&mut self) -> u64 {
        match self.below(20) {
            0 => self.between(5 * MS, 60 * MS),
            _ => self.between(50, 3 * MS),
        }
    }
}

/// One direction of a stream. Messages arrive in their order; each is as late as the one before it or later.
pub(crate) struct Pipe<T> {
    messages: VecDeque<(u64, T)>,
    /// Nothing arrives before this.
    pub(crate) hole_until: u64,
}

impl<T> Pipe<T> {
    pub(crate) fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            hole_until: 0,
        }
    }

    pub(crate) fn push(&mut self, at: u64, message: T) {
        let last = self.messages.back().map_or(0, |(at, _)| *at);
        self.messages.push_back((last.max(at), message));
    }

    /// Returns when the next message arrives.
    pub(crate) fn due(&self) -> Option<u64> {
        let (at, _) = self.messages.front()?;
        Some((*at).max(self.hole_until))
    }

    pub(crate) fn pop(&mut self, now: u64) -> Option<T> {
        self.due().filter(|due| *due <= now)?;
        self.messages.pop_front().map(|(_, message)| message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Loses what is on its way.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
    }
}
