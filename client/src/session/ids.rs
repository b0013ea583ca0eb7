//! The owner ids of one hold, or the tickets of one place in a queue, over the streams that it is resumed on.

/// Number of ids of unanswered attempts that are remembered: as many as a coordinator takes. After that many the
/// oldest go, as what they stood for is long over.
pub(super) const MOST_TRIED: usize = 64;

/// Owner ids by which a coordinator may know a hold or a waiter. Secret: no `Debug`.
#[derive(Clone)]
pub(super) struct Ids {
    /// Id under which it was last confirmed.
    confirmed: Vec<u8>,
    /// Ids of later attempts to resume it that may have been carried out; the oldest first.
    tried: Vec<Vec<u8>>,
    /// Id of the attempt in progress.
    next: Option<Vec<u8>>,
}

impl Ids {
    pub(super) fn new(confirmed: Vec<u8>) -> Self {
        Self {
            confirmed,
            tried: Vec::new(),
            next: None,
        }
    }

    pub(super) fn confirmed(&self) -> &[u8] {
        &self.confirmed
    }

    pub(super) fn tried(&self) -> &[Vec<u8>] {
        &self.tried
    }

    /// Begins an attempt to resume it under `next`.
    pub(super) fn attempt(&mut self, next: Vec<u8>) {
        self.next = Some(next);
    }

    /// Returns whether an attempt is in progress.
    pub(super) fn is_attempted(&self) -> bool {
        self.next.is_some()
    }

    /// Ends an attempt without an answer: the coordinator may have carried it out.
    pub(super) fn unanswered(&mut self) {
        self.tried.extend(self.next.take());
        let surplus = self.tried.len().saturating_sub(MOST_TRIED);
        self.tried.drain(..surplus);
    }

    /// Ends an attempt that the coordinator declined.
    pub(super) fn declined(&mut self) {
        self.next = None;
    }

    /// Ends an attempt that the coordinator carried out.
    pub(super) fn resumed(&mut self) {
        if let Some(next) = self.next.take() {
            *self = Self::new(next);
        }
    }

    /// Returns whether the coordinator may know it by another id than the confirmed one.
    pub(super) fn in_doubt(&self) -> bool {
        self.next.is_some() || !self.tried.is_empty()
    }

    /// Returns every id, in the order of the attempts.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        let in_order = std::iter::once(&self.confirmed)
            .chain(&self.tried)
            .chain(&self.next);
        in_order.map(Vec::as_slice)
    }

    /// Returns the id at this place in the order of the attempts. A hold that is under one of them was never under a later one
    /// before.
    pub(super) fn nth(&self, index: usize) -> Option<&[u8]> {
        self.all().nth(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ids: &Ids) -> Vec<u8> {
        (0..)
            .map_while(|index| ids.nth(index))
            .map(|id| id[0])
            .collect()
    }

    #[test]
    fn ids_are_kept_in_the_order_in_which_they_may_have_been_taken() {
        let mut ids = Ids::new(vec![1]);
        assert!(!ids.in_doubt());
        ids.attempt(vec![2]);
        assert_eq!(all(&ids), [1, 2]);
        ids.declined();
        assert!(!ids.in_doubt());
        ids.attempt(vec![3]);
        ids.unanswered();
        ids.attempt(vec![4]);
        assert_eq!(all(&ids), [1, 3, 4]);
        ids.resumed();
        assert_eq!(all(&ids), [4]);
        assert!(!ids.in_doubt());
    }

    #[test]
    fn the_oldest_attempts_are_forgotten_and_the_confirmed_one_never() {
        let mut ids = Ids::new(vec![0]);
        for n in 1..=MOST_TRIED as u8 + 2 {
            ids.attempt(vec![n]);
            ids.unanswered();
        }
        assert_eq!(ids.tried().len(), MOST_TRIED);
        assert_eq!(all(&ids)[..2], [0, 3]);
    }
}
