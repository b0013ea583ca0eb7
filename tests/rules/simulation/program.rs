//! Programs of the simulated clients: what they ask for, and when they give it back.

use std::time::Duration;

use leasehold_client::simulation::Acquire;
use leasehold_proto::v1::LockMode;

use crate::{
    weather::Weather,
    world::{NAMES, World},
};

/// Limit of every semaphore until somebody changes it.
const LIMIT: u32 = 3;
/// Modes of the locks.
const MODES: [LockMode; 4] = [
    LockMode::Exclusive,
    LockMode::Exclusive,
    LockMode::Shared,
    LockMode::Semaphore,
];
/// Most acquires of one client that wait.
const MOST_WAITING: usize = 8;

impl World {
    /// Returns an acquire in any mode, of one name or several, by no actor or by one of two, which keep to no order.
    fn spec(&mut self, knows_bounds: bool) -> Acquire {
        let longest = if self.is_patient { 6_000 } else { 1_500 };
        let keeps = self.weather == Weather::Rolling;
        let dice = &mut self.dice;
        let names: &[usize] = match dice.below(6) {
            0 => &[0, 1],
            1 => &[2, 0],
            2 | 3 => &[0],
            4 => &[1],
            _ => &[2],
        };
        let actor = dice.below(3);
        let reentrant = actor != 0 && dice.below(4) > 0;
        let mut mode = dice.pick(&MODES);
        let locks = names.iter().enumerate().map(|(at, name)| {
            // Of several, half of the time in modes of their own.
            if at > 0 && dice.below(2) == 0 {
                mode = dice.pick(&MODES);
            }
            (NAMES[*name].to_owned(), mode)
        });
        let locks = locks.collect();
        // The limit of a new version, up and down; nearly all name none.
        let (limit, limit_revision) = match dice.below(16) {
            0 => (
                2 + dice.pick(&[0, 1, 2]),
                1 + u32::try_from(self.now / 1_000_000).unwrap(),
            ),
            _ => (LIMIT, 0),
        };
        let permits = u32::try_from(dice.between(1, 3)).unwrap().min(limit);
        // Some ask for what is left, of all of them.
        let (permits, permits_at_least) = match dice.below(4) {
            0 => (limit, Some(u32::try_from(dice.between(1, 3)).unwrap())),
            _ => (permits, None),
        };
        Acquire {
            locks,
            permits,
            permits_at_least,
            limit,
            limit_revision,
            wait: match dice.below(4) {
                // What is held once more is held while the others are waited for, and the detector does not see who waits for
                // several names as nobody.
                0 if names.len() == 1 || !reentrant => None,
                1 => Some(Duration::ZERO),
                _ => Some(Duration::from_millis(dice.below(longest))),
            },
            lock_delay: Duration::from_millis(match dice.below(8) {
                0 => dice.below(200),
                _ => 0,
            }),
            max_hold: match dice.below(8) {
                // Where no guard may be lost, none has a bound.
                0 if !keeps && knows_bounds => {
                    Some(Duration::from_millis(dice.between(1_000, 4_000)))
                }
                _ => None,
            },
            actor,
            reentrant,
        }
    }

    /// Acts as the program around a session.
    pub(crate) fn act(&mut self, client: usize) {
        let clock = self.clients[client].clock(self.now);
        let asks = !self.is_calm || self.is_prompt && !self.is_closing;
        if asks && self.clients[client].waits.len() < MOST_WAITING && self.dice.below(3) > 0 {
            let spec = self.spec(self.clients[client].knows_bounds);
            let it = &mut self.clients[client];
            it.acquires += 1;
            let modes = spec.locks.iter().map(|(_, mode)| *mode);
            let modes = modes.filter(|_| !spec.reentrant).collect();
            it.waits.insert(it.acquires, modes);
            let id = it.acquires;
            it.turn("acquire", |it| it.acquire(clock, id, spec));
        }
        if asks && self.clients[client].waits.len() < MOST_WAITING {
            self.campaign_on_session(client);
        }
        // In calm weather, what waits is not cancelled: it has to come to an end.
        let cancels = asks && self.dice.once_in(6) || self.is_closing;
        let it = &mut self.clients[client];
        let waits = it.waits.keys().copied();
        if cancels && let Some(id) = waits.collect::<Vec<_>>().get(self.dice.index(8)).copied() {
            it.waits.remove(&id);
            it.campaigns.retain(|campaign| campaign.acquire != id);
            it.turn("cancel", |it| it.cancel(clock, id));
        }
        if it.guards.is_empty() {
            return;
        }
        let releases = match (asks, self.is_patient && !self.is_prompt) {
            (false, _) => 12,
            (true, false) => 7,
            (true, true) => 1,
        };
        let at = self.dice.index(it.guards.len());
        let leads = it
            .campaigns
            .iter()
            .any(|campaign| campaign.is(&it.guards[at]));
        match self.dice.below(13) {
            // Leaders keep their lock, and keep it alone.
            11 | 12 if leads => {}
            12 if asks => {
                let guard = &it.guards[at];
                self.kept.insert((guard.name().to_owned(), guard.token()));
                let guard = guard.clone();
                it.turn("change", |it| it.keep(clock, &guard, 1));
            }
            11 if asks => {
                let guard = it.guards[at].clone();
                it.turn("change", |it| it.downgrade(clock, &guard));
            }
            10 if asks => {
                let guard = it.guards[at].clone();
                it.turn("change", |it| it.set_value(clock, &guard, vec![1]));
            }
            number if number < releases => {
                let guard = it.guards.swap_remove(at);
                it.campaigns.retain(|campaign| !campaign.is(&guard));
                it.turn("release", |it| it.release(clock, &guard));
            }
            _ => {}
        }
    }
}
