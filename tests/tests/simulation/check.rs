//! Check of the guards after each step.

use crate::{
    weather::Weather,
    world::{NAMES, World},
};

impl World {
    /// Fails if a guard says that it is held and the store says otherwise, or if it would go on to say so when the store lets it
    /// expire: another one may have the lock at that moment.
    pub(crate) fn check(&mut self) {
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
                let forced = self.forced.get(&(name, guard.token().get()));
                if forced.is_none_or(|at| at + client.ttl + client.ttl / 100 <= now) {
                    live.push((number, name, guard.token().get(), until));
                }
            }
        }
        for (number, name, token, until) in live {
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
            let is_exclusive = hold.is_exclusive;
            assert!(
                until <= hold.ends_at,
                "at {now}, {client} believes until {until} that it holds {text}; the store lets that expire before: {hold:?}"
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
}
