//! Check of the guards after each step.

use leasehold_client::simulation::Guard;
use leasehold_core::mode::Mode;
use leasehold_proto::v1::LockMode;

use crate::{
    weather::Weather,
    world::{NAMES, World},
};

/// A hold in which a client believes until then.
#[derive(Debug)]
pub(crate) struct Belief {
    pub(crate) client: String,
    pub(crate) name: usize,
    pub(crate) token: i64,
    pub(crate) until: u64,
}

impl World {
    /// Fails if a guard says that it is held and the store says otherwise, or if it would go on to say so when the store lets it
    /// expire: another one may have the lock at that moment. Fails too if it says that it has another number of permits, unless it
    /// gave some back.
    pub(crate) fn check(&mut self) {
        self.check_told();
        self.check_leaders();
        let now = self.now;
        let mut live = Vec::new();
        for client in &self.clients {
            assert!(
                self.weather != Weather::Rolling || client.live(now).count() == client.guards.len(),
                "a guard of {} was lost: {:?}",
                client.name,
                client.guards
            );
            for (guard, until) in client.live(now) {
                let name = NAMES.iter().position(|name| *name == guard.name());
                let belief = Belief {
                    client: client.name.clone(),
                    name: name.expect("it is one of them"),
                    token: guard.token().get(),
                    until,
                };
                if !self.may_be_wrong(&belief, client.ttl) {
                    live.push((guard.clone(), belief));
                }
            }
        }
        for (guard, belief) in live {
            let mode = self.check_belief(&belief);
            let permits = guard.permits().unwrap_or(0);
            let has_kept = || {
                let hold = (guard.name().to_owned(), guard.token());
                self.kept.contains(&hold) || self.may_be_made_twice(belief.name, belief.token)
            };
            assert!(
                mode.permits() == permits || has_kept(),
                "at {now}, {belief:?} believes in {permits} permits: {mode:?}"
            );
        }
    }

    /// Returns whether a client of this TTL may still believe in a hold that has ended: one that an operator took or a disaster
    /// lost. It learns of that within its TTL, on a clock that may be slow.
    pub(crate) fn may_be_wrong(&self, belief: &Belief, ttl: u64) -> bool {
        let (name, token) = (belief.name, belief.token);
        let forced = self.forced.get(&(name, token));
        let is_forced = forced.is_some_and(|at| self.now < at + ttl + ttl / 100);
        is_forced || self.may_be_lost(name, token, ttl)
    }

    /// Fails if the store has no such hold, or lets it expire before, or if it excludes others and there was a newer grant. Returns
    /// its mode.
    pub(crate) fn check_belief(&mut self, belief: &Belief) -> Mode {
        self.look_up(belief.name);
        let (now, held) = (self.now, self.store.held(belief.name));
        let hold = held.iter().find(|hold| {
            hold.token == belief.token && hold.client == belief.client && now < hold.ends_at
        });
        let Some(hold) = hold else {
            panic!("at {now}, {belief:?} is not held; these are: {held:?}");
        };
        assert!(
            belief.until <= hold.ends_at && hold.bound.is_none_or(|bound| belief.until <= bound),
            "at {now}, {belief:?} goes on beyond the end of the hold: {hold:?}"
        );
        // Others go on beside newer ones.
        let newest = &mut self.newest[belief.name];
        assert!(
            hold.mode != Mode::Exclusive || *newest <= belief.token,
            "at {now}, {belief:?} excludes others after the grant of {newest}"
        );
        *newest = belief.token.max(*newest);
        hold.mode
    }

    /// Fails if a lock that was granted is held in another mode than that which its acquire has for its name. It may be lost
    /// already.
    pub(crate) fn check_modes(&mut self, client: usize, guards: &[Guard], modes: &[LockMode]) {
        self.seen.grants_in_modes_each += u64::from(modes.iter().any(|mode| *mode != modes[0]));
        for (guard, asked) in guards.iter().zip(modes) {
            let name = NAMES.iter().position(|name| *name == guard.name());
            let name = name.expect("it is one of them");
            self.look_up(name);
            let (client, token) = (&self.clients[client].name, guard.token().get());
            let mut held = self.store.held(name).iter();
            let hold = held.find(|hold| hold.token == token && hold.client == *client);
            let is_asked = |mode| match mode {
                Mode::Exclusive => *asked == LockMode::Exclusive,
                Mode::Shared => *asked == LockMode::Shared,
                Mode::Semaphore(_) => *asked == LockMode::Semaphore,
            };
            assert!(
                hold.is_none_or(|hold| is_asked(hold.mode)) || self.may_be_made_twice(name, token),
                "{client} asked for {guard:?} in {asked:?}: {hold:?}"
            );
        }
    }
}
