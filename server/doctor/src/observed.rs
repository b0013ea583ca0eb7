//! Observations of a deployment: plain data, gathered elsewhere.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use leasehold_store::examine::facts::{Clock, Facts};

/// All observations.
#[derive(Clone, Debug)]
pub struct Observations {
    /// Time of this machine.
    pub now: SystemTime,
    /// Version of the program that asks.
    pub version: String,
    /// The coordinators, in the order in which they were named.
    pub coordinators: Vec<Coordinator>,
    /// Settings that coordinators of one store share: those of each coordinator that reported them, or of a configuration.
    pub settings: Vec<Settings>,
    /// Certificate files of the program that asks.
    pub files: Vec<CertificateFile>,
    /// Waiters, as coordinators listed them.
    pub waiters: Vec<Waiter>,
    /// The store, if its URL was given.
    pub store: Option<Store>,
}

/// Store that was examined.
#[derive(Clone)]
pub struct Store {
    /// Its URL. It may contain a password, and no finding repeats it.
    pub url: String,
    /// What its servers reported.
    pub facts: Facts,
}

impl fmt::Debug for Store {
    /// Leaves the URL out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// One coordinator.
#[derive(Clone, Debug)]
pub struct Coordinator {
    /// Its name in findings: an address or an endpoint.
    pub address: String,
    /// Its status, or why there is none.
    pub answer: Result<Status, NoAnswer>,
}

/// Reason why a coordinator did not tell its status.
#[derive(Clone, Debug)]
pub struct NoAnswer {
    /// The reason, for people.
    pub reason: String,
    /// Whether it, or this side, refused: an identity or a certificate was not accepted.
    pub is_refusal: bool,
}

/// Status of a coordinator. What it does not tell this caller is `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Its id, as listings show it.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Whether it serves.
    pub is_serving: bool,
    /// Why it does not serve; if it serves, what its store refuses.
    pub reason: Option<String>,
    /// Whether it drains.
    pub is_draining: bool,
    /// Reading of its clock.
    pub clock: Option<Clock>,
    /// The caller's identity there; `None` if it asks for none.
    pub identity: Option<String>,
    /// What the caller may do there.
    pub permissions: Vec<Permission>,
    /// Whether the caller sees settings, limits and certificates.
    pub sees_all: bool,
    /// Its limits.
    pub limits: Vec<Limit>,
    /// Its certificates.
    pub certificates: Vec<Certificate>,
}

/// Permission of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// `acquire`, `inspect` or `administer`.
    pub name: String,
    /// Prefixes of the locks that it is for.
    pub locks: Vec<String>,
    /// Prefixes of the elections that it is for.
    pub elections: Vec<String>,
}

/// Limit of a coordinator, and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The setting, or another name.
    pub name: String,
    /// How much of it is in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// Certificate of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// What it is for: `server`, `admin` or `store`.
    pub purpose: String,
    /// Time at which the first of its chain expires.
    pub expires: SystemTime,
}

/// Certificate file of the program that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFile {
    /// Its name in findings: the path, and the option that names it.
    pub name: String,
    /// Time at which it is of no more use, and why.
    pub ends: FileEnds,
}

/// Time at which a certificate file is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnds {
    /// The first certificate of a chain, which is shown to others, expires.
    Chain(SystemTime),
    /// The last of the authorities, which are trusted, expires.
    Authorities(SystemTime),
}

/// Settings that coordinators of one store share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Their coordinator, or configuration.
    pub of: String,
    /// The URL of the store, without passwords.
    pub store: String,
    /// The prefix of Redis keys.
    pub key_prefix: String,
    /// The smallest, the default and the largest TTL.
    pub ttl: [Duration; 3],
    /// Number of replicas that must acknowledge a grant.
    pub min_replicas: u32,
}

/// Waiter of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The lock's name.
    pub lock: String,
    /// The id of its coordinator.
    pub coordinator: String,
}

impl Observations {
    /// Returns nothing observed yet.
    #[must_use]
    pub fn new(now: SystemTime, version: impl Into<String>) -> Self {
        Self {
            now,
            version: version.into(),
            coordinators: Vec::new(),
            settings: Vec::new(),
            files: Vec::new(),
            waiters: Vec::new(),
            store: None,
        }
    }

    /// Returns the coordinators that answered, with their status.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&str, &Status)> {
        self.coordinators.iter().filter_map(|coordinator| {
            let status = coordinator.answer.as_ref().ok()?;
            Some((coordinator.address.as_str(), status))
        })
    }

    /// Returns the largest number of replicas that a coordinator waits for.
    pub(crate) fn min_replicas(&self) -> u32 {
        let settings = self.settings.iter().map(|settings| settings.min_replicas);
        settings.max().unwrap_or(0)
    }
}
