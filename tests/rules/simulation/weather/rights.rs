//! Rights of the clients, which change while sessions are open.

use std::{sync::Arc, time::Duration};

use leasehold_core::name::LockName;
use leasehold_server::access::rules::{Granted, Permission, Prefixes, Rule};

use crate::world::{NAMES, World};

/// Longest time for which rights let a lock be held: no program asks for this one.
pub(crate) const IMPOSED: Duration = Duration::from_millis(900);

/// Rights of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everything.
    #[default]
    All,
    /// The last name may not be held.
    Fewer,
    /// The names may be held for a while only.
    Bounded,
}

impl Rights {
    /// Returns what rules give them.
    pub(crate) fn granted(self) -> Granted {
        let (names, max_hold) = match self {
            Self::All => return Granted::Everything,
            Self::Fewer => (&NAMES[..NAMES.len() - 1], None),
            Self::Bounded => (&NAMES[..], Some(IMPOSED)),
        };
        Granted::Only(vec![Arc::new(Rule {
            allow: vec![Permission::Acquire],
            locks: Prefixes::new(names),
            elections: Prefixes::new(names),
            max_hold,
            ..Rule::default()
        })])
    }
}

impl World {
    /// Rights change, at all coordinators and for all sessions.
    pub(super) fn change_rights(&mut self) {
        let all = [Rights::All, Rights::Fewer, Rights::Bounded];
        self.rights = self.dice.pick(&all);
        self.put_rights_in_force();
    }

    pub(super) fn put_rights_in_force(&mut self) {
        let (rights, granted) = (self.rights, self.rights.granted());
        self.tell(|| format!("clients have {rights:?} rights"));
        for number in 0..self.coordinators.len() {
            let sessions = &mut self.coordinators[number].sessions;
            for served in sessions.values_mut() {
                if let Some(surroundings) = &mut served.surroundings {
                    surroundings.granted = granted.clone();
                }
            }
            let streams = sessions
                .iter()
                .map(|(stream, served)| (*stream, served.kind));
            let streams: Vec<_> = streams.collect();
            for (stream, kind) in streams {
                self.serve(number, stream, "rights", |session, context| {
                    let may_hold = |name: &LockName, mode| {
                        granted.permits(Permission::Acquire, kind.place(mode), name.as_str())
                    };
                    session.revise(&may_hold, context);
                });
            }
        }
    }
}
