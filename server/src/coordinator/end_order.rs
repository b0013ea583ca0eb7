//! Order of an operator to end a session, and whether it may.

use leasehold_core::{ended::Mark, id::SessionId, name::LockName};

use crate::access::rules::{Granted, Permission, Place};

/// An operator's order to end a session.
#[derive(Debug)]
pub struct EndOrder {
    /// The mark of it.
    pub mark: Mark,
    /// What the operator may do, by this coordinator's rules.
    pub granted: Granted,
}

impl EndOrder {
    /// Decides on a session that is the marked one, or has resumed something from it, by the names of all that it has.
    pub fn decide<'a>(
        &self,
        session: SessionId,
        names: impl IntoIterator<Item = &'a LockName>,
    ) -> Decision {
        if self.granted.administers_all() {
            return Decision::Ends;
        }
        let permits = |name: &LockName| {
            let name = name.as_str();
            self.granted
                .permits(Permission::Administer, Place::Either, name)
        };
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() {
            // A session that has nothing is for those who may administer everything.
            return match session == self.mark.session {
                true => Decision::Denied,
                false => Decision::GoesOn,
            };
        }
        match names.all(permits) {
            true => Decision::Ends,
            false => Decision::Denied,
        }
    }
}

/// What an order comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The session ends.
    Ends,
    /// It has lost all that it had resumed, and the rest is not for this operator.
    GoesOn,
    /// The operator may not administer all that it has.
    Denied,
}

#[cfg(test)]
mod tests {
    use leasehold_core::id::SessionId;

    use super::*;
    use crate::access::rules::{Pattern, Prefixes, Rule, Rules};

    #[test]
    fn an_operator_ends_sessions_all_of_whose_locks_it_may_administer() {
        let rules = Rules::new(&[Rule {
            identities: vec![Pattern::parse("token:operator").unwrap()],
            allow: vec![Permission::Administer],
            locks: Prefixes::new(["a/"]),
            elections: Prefixes::new(["leader/"]),
            max_hold: None,
        }]);
        let order = |granted| EndOrder {
            mark: Mark {
                session: SessionId::from_bytes([1; 16]),
                by: "token:operator".into(),
            },
            granted,
        };
        let names = |list: &[&str]| -> Vec<LockName> {
            list.iter()
                .map(|name| LockName::parse(name).unwrap())
                .collect()
        };
        let some = order(rules.of("token:operator"));
        let every = order(Granted::Everything);
        let [marked, successor] = [1, 2].map(|number| SessionId::from_bytes([number; 16]));
        for (order, session, has, decision) in [
            (&some, marked, &["a/1", "leader/x"][..], Decision::Ends),
            (&some, successor, &["a/1"], Decision::Ends),
            (&some, marked, &["a/1", "b/1"], Decision::Denied),
            (&some, successor, &["b/1"], Decision::Denied),
            (&some, marked, &[], Decision::Denied),
            (&some, successor, &[], Decision::GoesOn),
            (&every, marked, &[], Decision::Ends),
            // The end of the marked session may have taken all from it before it heard of the order.
            (&every, successor, &[], Decision::Ends),
        ] {
            let decided = order.decide(session, &names(has));
            assert_eq!(decided, decision, "{session} {has:?}");
        }
    }
}
