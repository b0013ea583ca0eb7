//! Check of the guards after each step.

use leasehold_client::simulation::Guard;
use leasehold_core::mode::Mode;
use leasehold_proto::v1::LockMode;

use crate::{
    weather::Weather,
    world::{NAMES, World},
};

impl World {
    /// Fails if a guard says that it is held and the store says otherwise, or if it would go on to say so when the store lets it
    /// expire: another one may have the lock at that moment. Fails too if it says that it has another number of permits, unless it
    /// gave some back.
    pub(crate) fn check(&mut self) {
        self.check_told();
        self.check_leaders();
        let now = self.now;
        let mut live = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            assert!(
                self.weather != Weather::Rolling || client.live(now).count() == client.guards.len(),
                "a guard of {} was lost: {:?}",
                client.name,
                client.guards
            );
            for (guard, until) in client.live(now) {
                let name = NAMES.iter().position(|name| *name == guard.name());
                let name = name.expect("it is one of them");
                // An operator took it: its guard learns of that within its TTL, on a clock that may be slow.
                let token = guard.token().get();
                if self.may_be_lost(name, token, client.ttl) {
                    continue;
                }
                let forced = self.forced.get(&(name, token));
                if forced.is_none_or(|at| at + client.ttl + client.ttl / 100 <= now) {
                    live.push((number, name, guard.clone(), until));
                }
            }
        }
        for (number, name, guard, until) in live {
            let token = guard.token().get();
            self.look_up(name);
            let text = NAMES[name];
            let (client, held) = (&self.clients[number].name, self.store.held(name));
            let hold = held
                .iter()
                .find(|hold| hold.token == token && hold.client == *client && now < hold.ends_at);
            let Some(hold) = hold else {
                panic!(
                    "at {now}, {client} believes that it holds {text} with token {token}; it is held by {held:?}"
                );
            };
            assert!(
                hold.bound.is_none_or(|bound| until <= bound),
                "at {now}, {client} believes until {until} that it holds {text}, beyond its bound: {hold:?}"
            );
            let is_exclusive = hold.mode == Mode::Exclusive;
            assert!(
                until <= hold.ends_at,
                "at {now}, {client} believes until {until} that it holds {text}; the store lets that expire before: {hold:?}"
            );
            let permits = guard.permits().unwrap_or(0);
            let has_kept = || self.kept.contains(&(text.to_owned(), guard.token()));
            assert!(
                hold.mode.permits() == permits || has_kept() || self.may_be_made_twice(name, token),
                "at {now}, {client} believes that it holds {permits} permits of {text}: {hold:?}"
            );
            // Others go on beside newer ones.
            let newest = &mut self.newest[name];
            assert!(
                !is_exclusive || *newest <= token,
                "at {now}, {client} holds {text} alone with token {token}, after the grant of {newest}"
            );
            *newest = token.max(*newest);
        }
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
