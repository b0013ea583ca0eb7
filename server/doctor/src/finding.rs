//! Finding, and its severity.

use std::fmt;

use crate::check::Check;

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Locks work, but a foreseeable event would stop them or lose some.
    Warning,
    /// Locks are refused or can be lost now.
    Error,
}

impl Severity {
    /// Returns its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that an operator should know or mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the finding.
    pub check: Check,
    /// Its weight.
    pub severity: Severity,
    /// The coordinator, server or setting concerned.
    pub subject: String,
    /// What was observed: a sentence without its full stop.
    pub what: String,
}

impl fmt::Display for Finding {
    /// Writes it on one line, with what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            check,
            severity,
            subject,
            what,
        } = self;
        let (remedy, link) = (check.remedy(), check.link());
        write!(f, "{severity}: {subject}: {what}. {remedy} ({link})")
    }
}

/// Findings in the making.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn add(
        &mut self,
        severity: Severity,
        check: Check,
        subject: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.0.push(Finding {
            check,
            severity,
            subject: subject.into(),
            what: what.into(),
        });
    }

    /// Returns whether there is a finding of this kind.
    pub(crate) fn has(&self, check: Check) -> bool {
        self.0.iter().any(|finding| finding.check == check)
    }

    /// Returns whether there is an error of this kind and subject.
    pub(crate) fn has_error(&self, check: Check, subject: &str) -> bool {
        let mut all = self.0.iter();
        all.any(|it| it.check == check && it.subject == subject && it.severity == Severity::Error)
    }
}
