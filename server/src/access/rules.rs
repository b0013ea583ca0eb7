//! Rules: permissions of each identity on names. Pure: no clock, no files.

use std::{fmt, sync::Arc, time::Duration};

/// Permission that a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// To acquire, renew and release.
    Acquire,
    /// To list and watch.
    Inspect,
    /// To force-release.
    Administer,
}

/// Kind of name that a permission is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A lock: rules give it by `locks`.
    Lock,
    /// An election, as its own service speaks of it: rules give it by `elections`.
    Election,
    /// A name for which a rule of either kind suffices.
    Either,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Inspect, Self::Administer];

    /// Returns its name in rules and refusals.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Inspect => "inspect",
            Self::Administer => "administer",
        }
    }

    /// Returns the permission with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// Gives permissions to identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The identities that it gives permissions to.
    pub identities: Vec<Pattern>,
    /// The permissions.
    pub allow: Vec<Permission>,
    /// The locks that they are for.
    pub locks: Prefixes,
    /// The elections that they are for.
    pub elections: Prefixes,
    /// Longest time for which a lock that it permits may be held.
    pub max_hold: Option<Duration>,
}

impl Rule {
    fn permits(&self, permission: Permission, place: Place, name: &str) -> bool {
        self.allow.contains(&permission)
            && match place {
                Place::Lock => self.locks.cover(name),
                Place::Election => self.elections.cover(name),
                Place::Either => self.locks.cover(name) || self.elections.cover(name),
            }
    }
}

/// Identities by name, or by the beginning of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    is_prefix: bool,
}

impl Pattern {
    /// Parses a kind of identity and a name, such as `token:ci`; a `*` at the end stands for any rest.
    ///
    /// # Errors
    ///
    /// If it names no kind, or has a `*` elsewhere. The error says what was expected.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let kinds = ["cert:", "token:", "jwt:"];
        let (text, is_prefix) = match pattern.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (pattern, false),
        };
        let named = kinds.iter().find_map(|kind| text.strip_prefix(kind));
        match named {
            Some(name) if !name.contains('*') && (is_prefix || !name.is_empty()) => Ok(Self {
                text: text.into(),
                is_prefix,
            }),
            _ => Err(format!(
                "expected \"cert:\", \"token:\" or \"jwt:\" and a name, perhaps with a `*` at its end for any rest; found {pattern:?}"
            )),
        }
    }

    fn matches(&self, identity: &str) -> bool {
        if self.is_prefix {
            identity.starts_with(&*self.text)
        } else {
            identity == &*self.text
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.is_prefix { "*" } else { "" };
        write!(f, "{}{rest}", self.text)
    }
}

/// Prefixes of names, none of which is a prefix of another: sorted, so that one look finds the prefix of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(Vec<Box<str>>);

impl Prefixes {
    /// Returns the prefixes of a list; the empty one covers every name.
    pub fn new<T: AsRef<str>>(list: impl IntoIterator<Item = T>) -> Self {
        let list = list.into_iter().map(|prefix| prefix.as_ref().into());
        let mut list: Vec<Box<str>> = list.collect();
        list.sort();
        // A prefix that begins with another one comes right behind it, or behind one that also does.
        list.dedup_by(|later, kept| later.starts_with(&**kept));
        Self(list)
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each prefix.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }

    /// Returns whether a name, or all names that begin with it, begin with one of these.
    fn cover(&self, name: &str) -> bool {
        let behind = self.0.partition_point(|prefix| **prefix <= *name);
        behind
            .checked_sub(1)
            .is_some_and(|at| name.starts_with(&*self.0[at]))
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Arc<Rule>>);

impl Rules {
    /// Returns a set of these rules. They deny everything that no rule permits.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        Self(rules.iter().cloned().map(Arc::new).collect())
    }

    /// Returns the permissions of an identity.
    #[must_use]
    pub fn of(&self, identity: &str) -> Granted {
        let rules = self.0.iter();
        let rules = rules.filter(|rule| rule.identities.iter().any(|who| who.matches(identity)));
        Granted::Only(rules.cloned().collect())
    }
}

/// Permissions of a caller.
#[derive(Clone, Debug)]
pub enum Granted {
    /// Everything: no identity is required.
    Everything,
    /// The permissions of these rules.
    Only(Vec<Arc<Rule>>),
}

impl Granted {
    /// Returns whether this is permitted on a name; for a prefix, on all names that begin with it. Allocates nothing.
    #[must_use]
    pub fn permits(&self, permission: Permission, place: Place, name: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(rules) => rules
                .iter()
                .any(|rule| rule.permits(permission, place, name)),
        }
    }

    /// Returns whether the caller may inspect everything.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.permits(Permission::Inspect, Place::Lock, "")
    }

    /// Returns whether the caller may administer everything.
    #[must_use]
    pub fn administers_all(&self) -> bool {
        self.permits(Permission::Administer, Place::Either, "")
    }

    /// Returns the names that a permission is for, by their prefixes: of locks, and of elections.
    #[must_use]
    pub fn names(&self, permission: Permission) -> [Prefixes; 2] {
        let Self::Only(rules) = self else {
            return [Prefixes::new([""]), Prefixes::new([""])];
        };
        let giving = || rules.iter().filter(|rule| rule.allow.contains(&permission));
        [
            Prefixes::new(giving().flat_map(|rule| rule.locks.iter())),
            Prefixes::new(giving().flat_map(|rule| rule.elections.iter())),
        ]
    }

    /// Returns the longest time for which a lock of this name may be held: `None` if one of the rules that permit it sets no
    /// bound, otherwise the longest of their bounds. Allocates nothing.
    #[must_use]
    pub fn max_hold(&self, place: Place, name: &str) -> Option<Duration> {
        let Self::Only(rules) = self else { return None };
        // Most deployments have no bounds.
        if rules.iter().all(|rule| rule.max_hold.is_none()) {
            return None;
        }
        let permitting = rules.iter();
        let mut permitting =
            permitting.filter(|rule| rule.permits(Permission::Acquire, place, name));
        let longest = |longest: Duration, rule: &Arc<Rule>| Some(longest.max(rule.max_hold?));
        let longest = permitting.try_fold(Duration::ZERO, longest)?;
        (!longest.is_zero()).then_some(longest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{Granted, Pattern, Permission, Place, Prefixes, Rule, Rules};

    fn rule(identities: &[&str], allow: &[Permission], locks: &[&str], elections: &[&str]) -> Rule {
        let identities = identities.iter().map(|who| Pattern::parse(who).unwrap());
        Rule {
            identities: identities.collect(),
            allow: allow.to_vec(),
            locks: Prefixes::new(locks),
            elections: Prefixes::new(elections),
            max_hold: None,
        }
    }

    #[test]
    fn a_bound_is_that_of_the_most_generous_rule_that_permits_the_name() {
        use Permission::{Acquire, Inspect};
        let bounded = |allow, locks: &[&str], seconds| Rule {
            max_hold: Some(Duration::from_secs(seconds)),
            ..rule(&["token:ci"], &[allow], locks, &[])
        };
        let rules = Rules::new(&[
            bounded(Acquire, &["build/"], 60),
            bounded(Acquire, &["build/long/"], 90),
            bounded(Inspect, &[""], 300),
            rule(&["token:ci"], &[Acquire], &["build/free/"], &["build/"]),
        ]);
        let ci = rules.of("token:ci");
        let bound = |place, name| ci.max_hold(place, name).map(|bound| bound.as_secs());
        assert_eq!(bound(Place::Lock, "build/1"), Some(60));
        assert_eq!(bound(Place::Lock, "build/long/1"), Some(90));
        assert_eq!(bound(Place::Lock, "build/free/1"), None);
        assert_eq!(bound(Place::Election, "build/1"), None);
        assert_eq!(bound(Place::Either, "build/1"), None);
        assert_eq!(bound(Place::Lock, "other"), None);
        assert_eq!(Granted::Everything.max_hold(Place::Lock, "build/1"), None);
    }

    #[test]
    fn nothing_is_permitted_that_no_rule_gives() {
        use Permission::{Acquire, Administer, Inspect};
        let rules = Rules::new(&[
            rule(&["token:ci"], &[Acquire], &["build/"], &["builder"]),
            rule(&["token:*", "jwt:a"], &[Inspect], &["build/x"], &[]),
        ]);
        let ci = rules.of("token:ci");
        assert!(ci.permits(Acquire, Place::Lock, "build/"));
        assert!(ci.permits(Acquire, Place::Lock, "build/1"));
        assert!(!ci.permits(Acquire, Place::Lock, "build"));
        assert!(!ci.permits(Acquire, Place::Lock, "Build/1"));
        assert!(!ci.permits(Acquire, Place::Election, "build/1"));
        assert!(ci.permits(Acquire, Place::Election, "builder"));
        assert!(ci.permits(Acquire, Place::Either, "builder-2"));
        assert!(!ci.permits(Acquire, Place::Lock, "builder"));
        // One rule's permission does not go with another's names.
        assert!(ci.permits(Inspect, Place::Lock, "build/xy"));
        assert!(!ci.permits(Inspect, Place::Lock, "build/y"));
        assert!(!ci.permits(Inspect, Place::Either, "builder"));
        assert!(!ci.permits(Administer, Place::Either, "build/x"));
        // Nor one identity's with another's.
        for stranger in ["token:", "token:c", "token:ci2", "jwt:ci", "jwt:ab", "ci"] {
            let permits = rules
                .of(stranger)
                .permits(Acquire, Place::Either, "build/1");
            assert!(!permits, "{stranger}");
        }
        assert!(rules.of("jwt:a").permits(Inspect, Place::Lock, "build/x"));
        assert!(Granted::Everything.permits(Administer, Place::Lock, "any"));
    }

    #[test]
    fn an_identity_is_named_with_its_kind() {
        let uri = "cert:spiffe://x/*";
        for right in ["cert:a", "token:a.b", "jwt:*", uri, "jwt:a@b c"] {
            assert!(Pattern::parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "*",
            "ci",
            "tok*",
            "token:",
            "jwt:a*b",
            "jwt:**",
            "Token:a",
            "anonymous",
        ] {
            let error = Pattern::parse(wrong).unwrap_err();
            assert!(error.contains("expected"), "{error}");
        }
    }

    proptest! {
        /// The one look finds what a look at each would.
        #[test]
        fn a_name_is_covered_if_it_begins_with_one(
            prefixes in prop::collection::vec("[ab/é]{0,4}", 0..8),
            name in "[ab/é]{0,6}",
        ) {
            let naive = prefixes.iter().any(|prefix| name.starts_with(prefix));
            prop_assert_eq!(Prefixes::new(&prefixes).cover(&name), naive);
        }
    }
}
