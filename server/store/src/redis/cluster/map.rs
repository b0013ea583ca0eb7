//! Slot map: the master of each slot, as far as this coordinator knows.

use super::{
    super::{address::Address, keys::SLOTS},
    view::{Master, View},
};

/// Slot map.
#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    /// The master with the newest claim of each slot.
    claims: Vec<Option<Claim>>,
}

/// Right of a master to a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    address: Address,
    epoch: u64,
    /// Whether a redirection has corrected it since; the epoch is then that of the previous claim.
    is_corrected: bool,
}

impl SlotMap {
    /// Returns an empty map.
    pub(super) fn new() -> Self {
        Self {
            claims: vec![None; usize::from(SLOTS)],
        }
    }

    /// Returns the master of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        let claim = self.claims.get(usize::from(slot))?;
        claim.as_ref().map(|claim| &claim.address)
    }

    /// Returns all masters that serve a slot, in order.
    pub(super) fn masters(&self) -> Vec<Address> {
        let claims = self.claims.chunk_by(|one, other| one == other);
        let owners = claims.filter_map(|alike| Some(&alike.first()?.as_ref()?.address));
        let mut masters: Vec<_> = owners.cloned().collect();
        masters.sort_unstable();
        masters.dedup();
        masters
    }

    /// Updates the map from nodes' views, and returns the slots that changed their master. For each slot the newest right
    /// counts. A right that is older than the known one counts only with `is_majority`: a node that has been stopped or cut
    /// off for a while believes for a moment that nothing has changed, and would execute commands.
    pub(super) fn learn(&mut self, views: &[View], is_majority: bool) -> Vec<u16> {
        let mut newest: Vec<Option<&Master>> = vec![None; self.claims.len()];
        for view in views {
            for &(first, last, master) in &view.ranges {
                let Some(master) = view.masters.get(master) else {
                    continue;
                };
                for best in &mut newest[usize::from(first)..=usize::from(last)] {
                    if best.is_none_or(|best| best.epoch < master.epoch) {
                        *best = Some(master);
                    }
                }
            }
        }
        let mut changed = Vec::new();
        for ((slot, claim), master) in (0..).zip(&mut self.claims).zip(newest) {
            let known = claim.as_ref().map_or(0, |claim| claim.epoch);
            // The corrected claim does not undo its correction.
            let is_corrected = claim.as_ref().is_some_and(|claim| claim.is_corrected);
            let is_older =
                |master: &Master| master.epoch < known || is_corrected && master.epoch == known;
            if !is_majority && master.is_none_or(is_older) {
                continue;
            }
            let owner = claim.as_ref().map(|claim| &claim.address);
            if owner != master.map(|master| &master.address) {
                changed.push(slot);
            }
            *claim = master.map(|Master { address, epoch, .. }| Claim {
                address: address.clone(),
                epoch: *epoch,
                is_corrected: false,
            });
        }
        changed
    }

    /// Notes that a node redirects a slot to another. Returns whether that is new.
    pub(super) fn moved(&mut self, slot: u16, to: &Address) -> bool {
        let Some(claim) = self.claims.get_mut(usize::from(slot)) else {
            return false;
        };
        match claim {
            Some(claim) if claim.address == *to => false,
            Some(claim) => {
                claim.address = to.clone();
                claim.is_corrected = true;
                true
            }
            None => {
                *claim = Some(Claim {
                    address: to.clone(),
                    epoch: 0,
                    is_corrected: true,
                });
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::new("h", port)
    }

    /// Returns a view in which masters, given by port and epoch, serve ranges.
    fn view(ranges: &[(u16, u16, u16, u64)]) -> View {
        let masters = ranges.iter().map(|&(_, _, port, epoch)| Master {
            id: port.to_string(),
            address: address(port),
            epoch,
        });
        let masters = masters.collect();
        let ranges = ranges.iter().enumerate();
        View {
            of: "x".into(),
            masters,
            ranges: ranges
                .map(|(index, &(first, last, ..))| (first, last, index))
                .collect(),
            replicas: Vec::new(),
        }
    }

    #[test]
    fn the_newest_right_to_a_slot_counts() {
        let mut map = SlotMap::new();
        let stale = view(&[(0, 9, 1, 1), (10, 19, 2, 2)]);
        let new = view(&[(0, 4, 1, 1), (5, 9, 3, 7), (10, 19, 2, 2)]);
        assert_eq!(map.learn(&[stale.clone(), new], true).len(), 20);
        assert_eq!(map.owner(4), Some(&address(1)));
        assert_eq!(map.owner(5), Some(&address(3)));
        assert_eq!(map.owner(19), Some(&address(2)));
        assert_eq!(map.owner(20), None);
        assert_eq!(map.masters(), [address(1), address(2), address(3)]);
        // Alone, somebody who has missed it changes nothing.
        assert_eq!(map.learn(std::slice::from_ref(&stale), false), [0u16; 0]);
        assert_eq!(map.owner(5), Some(&address(3)));
        // Most of them are right even where the rights are older.
        assert_eq!(map.learn(&[stale], true), [5, 6, 7, 8, 9]);
        assert_eq!(map.owner(5), Some(&address(1)));
    }

    #[test]
    fn slots_of_nobody_are_forgotten_by_a_majority() {
        let mut map = SlotMap::new();
        map.learn(&[view(&[(0, 1, 1, 1)])], true);
        assert_eq!(map.learn(&[view(&[(0, 0, 1, 1)])], false), [0u16; 0]);
        assert_eq!(map.learn(&[view(&[(0, 0, 1, 1)])], true), [1]);
        assert_eq!(map.owner(1), None);
    }

    #[test]
    fn a_redirection_counts_until_something_newer_is_heard() {
        let mut map = SlotMap::new();
        map.learn(&[view(&[(0, 9, 1, 3)])], true);
        assert!(map.moved(5, &address(2)));
        assert!(!map.moved(5, &address(2)));
        assert_eq!(map.owner(5), Some(&address(2)));
        for epoch in [2, 3] {
            assert_eq!(map.learn(&[view(&[(0, 9, 1, epoch)])], false), [0u16; 0]);
        }
        assert_eq!(
            map.learn(&[view(&[(0, 4, 1, 3), (5, 5, 2, 4)])], true),
            [6, 7, 8, 9]
        );
        assert!(map.moved(16_000, &address(2)));
        assert!(!map.moved(u16::MAX, &address(2)));
    }
}
