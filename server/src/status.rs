//! Refusals: requests that could not be served, and why. `convert` makes gRPC statuses and messages of them.

use std::time::Duration;

use leasehold_core::{mode::Limit, name::LockName};
pub use leasehold_proto::Reason;
use leasehold_store::StoreError;

use crate::access::rules::Granted;

/// A request that could not be served.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// What callers read in place of a message that names the store, unless they may inspect everything.
    pub(crate) brief: Option<&'static str>,
    /// Fields that are out of bounds, and what is wrong with each.
    pub(crate) violations: Vec<(String, String)>,
    pub(crate) metadata: Vec<(&'static str, String)>,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns a refusal. The message names the event, its object and the remedy.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            brief: None,
            violations: Vec::new(),
            metadata: Vec::new(),
            retry_after: None,
        }
    }

    /// Returns the refusal of a request beyond a limit, which names the limit's setting. `retry_after` is `None` if another
    /// attempt would fail too.
    pub fn over(
        reason: Reason,
        (setting, limit): (&'static str, impl ToString),
        retry_after: Option<Duration>,
        message: impl Into<String>,
    ) -> Self {
        let refusal = Self::new(reason, message)
            .with("limit", limit)
            .with("setting", setting);
        Self {
            retry_after,
            ..refusal
        }
    }

    /// Sets the time after which the request may be tried again.
    #[must_use]
    pub const fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// Returns the reason.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the refusal as a caller with these permissions may read it. What it may not read is for the log alone.
    #[must_use]
    pub fn shown_to(mut self, granted: &Granted) -> Self {
        if granted.sees_all() {
            self.brief = None;
        } else if self.brief.is_some() {
            tracing::debug!(reason = %self.message, "told a caller only how the store failed");
        }
        self
    }

    /// Adds a detail of the reason, as `docs/errors.md` lists it.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// Returns the refusal of an acquire of a semaphore with another limit than the one in force.
    pub fn other_limit(name: &LockName, limit: Limit) -> Self {
        let Limit { number, revision } = limit;
        let message = format!(
            "the semaphore {name:?} has a limit of {number}, of revision {revision}; ask for no more permits and with that limit, \
             or change it with a greater `limit_revision`",
            name = name.as_str(),
        );
        Self::new(Reason::LimitMismatch, message)
            .with("limit", number)
            .with("limit_revision", revision)
    }

    /// Returns the refusal of a field that is out of bounds; `what` completes the sentence "the field …".
    pub fn field(field: &str, what: impl ToString) -> Self {
        let what = what.to_string();
        Self {
            reason: Reason::InvalidField,
            message: format!("{field} {what}"),
            brief: None,
            violations: vec![(field.to_owned(), what)],
            metadata: Vec::new(),
            retry_after: None,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let (reason, brief) = match &error {
            StoreError::Unavailable { .. } => (
                Reason::StoreUnavailable,
                Some("the store is out of reach; try again"),
            ),
            StoreError::Indeterminate { .. } => (
                Reason::StoreIndeterminate,
                Some(
                    "the store did not answer, so it is not known whether the command was carried out",
                ),
            ),
            StoreError::NotReplicated { .. } => (
                Reason::NotReplicated,
                Some(
                    "the store carried it out, but too few replicas acknowledged it in time: it does not count and is taken back",
                ),
            ),
            StoreError::WrongType { .. } => (Reason::KeyNotALock, None),
            StoreError::Refused { .. } => {
                let brief = "the store refused the command; the coordinator's log says why";
                (Reason::StoreRefused, Some(brief))
            }
            StoreError::NotOffered { .. } => (Reason::NotOffered, None),
            StoreError::Garbled { .. } => (
                Reason::StoreGarbled,
                Some("the store's answer could not be understood"),
            ),
        };
        let message = error.to_string();
        Self {
            brief,
            ..Self::new(reason, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    /// Returns the cells of the table of reasons.
    fn documented() -> Vec<Vec<&'static str>> {
        include_str!("../../docs/errors.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| {
                line.trim_matches('|')
                    .split('|')
                    .map(|cell| cell.trim().trim_matches('`'))
                    .collect::<Vec<_>>()
            })
            // Other tables of the page begin with words of a user's own.
            .filter(|cells| {
                let is_of_a_reason = |letter: char| letter.is_ascii_uppercase() || letter == '_';
                cells[0].chars().all(is_of_a_reason)
            })
            .collect()
    }

    #[test]
    fn the_documentation_lists_every_reason_and_no_other() {
        let documented = documented();
        for reason in Reason::ALL {
            let row = documented.iter().find(|row| row[0] == reason.as_str());
            assert!(row.is_some(), "{} is not documented", reason.as_str());
            let Some(row) = row else { continue };
            let code = format!("{:?}", reason.code());
            assert_eq!(
                row[1].replace('_', "").to_lowercase(),
                code.to_lowercase(),
                "{row:?}"
            );
            assert_eq!(row[2], reason.retry().as_str(), "{row:?}");
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
        assert_eq!(documented.len(), Reason::ALL.len(), "{documented:?}");
    }
}
