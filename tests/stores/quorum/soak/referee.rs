//! Referee over exclusion and rising tokens, from the holders' messages and one clock.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Instant,
};

/// Record of the grants of each name.
#[derive(Debug, Default)]
pub(crate) struct Referee {
    names: Mutex<HashMap<String, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    token: i64,
    grants: u64,
    /// The certain holder of the name: its token, and the end of its hold.
    holder: Option<(i64, Instant)>,
}

impl Referee {
    fn names(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.names.lock().unwrap()
    }

    /// Notes a grant that its holder may believe in until this moment. A grant that came too late to be believed in proves
    /// nothing: others may have been granted since.
    pub(crate) fn granted(&self, name: &str, token: i64, good_until: Instant) {
        let mut names = self.names();
        let now = Instant::now();
        if good_until <= now {
            return;
        }
        let known = names.entry(name.to_owned()).or_default();
        if let Some((other, until)) = known.holder {
            assert!(
                until <= now,
                "{name}: {token} was granted while {other} held it"
            );
        }
        assert!(
            token > known.token,
            "{name}: {token} came after {}",
            known.token
        );
        known.token = token;
        known.grants += 1;
        known.holder = Some((token, good_until));
    }

    /// Its holder may believe in it for longer.
    pub(crate) fn extended(&self, name: &str, token: i64, good_until: Instant) {
        let mut names = self.names();
        let known = names.entry(name.to_owned()).or_default();
        match &mut known.holder {
            Some((holder, until)) if *holder == token => *until = good_until.max(*until),
            other => {
                let now = Instant::now();
                assert!(
                    good_until <= now,
                    "{name}: {token} was extended, and is held by {other:?}"
                );
            }
        }
    }

    /// Its holder is about to give it back, or believes in it no more.
    pub(crate) fn ended(&self, name: &str, token: i64) {
        let mut names = self.names();
        let known = names.entry(name.to_owned()).or_default();
        if known.holder.is_some_and(|(holder, _)| holder == token) {
            known.holder = None;
        }
    }

    /// Returns the number of grants.
    pub(crate) fn grants(&self) -> u64 {
        self.names().values().map(|known| known.grants).sum()
    }
}
