//! Findings as text for people, and as JSON for programs.

use std::fmt::{self, Display};

use leasehold_client::CoordinatorStatus;
use leasehold_doctor::{
    Finding, Severity,
    facts::{Facts, Topology},
    observed::{Observations, Permission, Status},
};
use serde::Serialize;

use crate::show::{
    json::{Json, document},
    text::escaped,
};

/// Everything that `doctor` tells.
pub(super) struct Report {
    pub(super) rows: Vec<CoordinatorStatus>,
    pub(super) observed: Observations,
    pub(super) findings: Vec<Finding>,
}

/// The document of a report.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    findings: Json<'a, Vec<Finding>>,
    coordinators: Json<'a, Vec<CoordinatorStatus>>,
}

document!(finding: Finding {
    "check": finding.check.name(),
    "severity": finding.severity.as_str(),
    "subject": finding.subject,
    "what": finding.what,
    "why": finding.check.why(),
    "remedy": finding.check.remedy(),
    "link": finding.check.link(),
});

impl Report {
    pub(super) fn document(&self) -> Document<'_> {
        Document {
            findings: Json(&self.findings),
            coordinators: Json(&self.rows),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let (subject, what) = (escaped(&finding.subject), escaped(&finding.what));
            writeln!(f, "{}: {subject}: {what}", finding.severity)?;
            writeln!(f, "  why:  {}.", finding.check.why())?;
            writeln!(f, "  do:   {}.", finding.check.remedy())?;
            writeln!(f, "  more: {}", finding.check.link())?;
        }
        for coordinator in &self.observed.coordinators {
            if let Ok(status) = &coordinator.answer {
                writeln!(f, "{}: {}", coordinator.address, caller(status))?;
            }
        }
        let asked = self.observed.coordinators.len();
        write!(f, "asked {}", count(asked, "coordinator"))?;
        match &self.observed.store {
            Some(store) => write!(f, " and {}", servers(&store.facts))?,
            None => write!(
                f,
                "; give --store or --store-file to check the store as well"
            )?,
        }
        write!(f, ": ")?;
        let of = |severity| {
            let of_this = self.findings.iter();
            of_this
                .filter(|finding| finding.severity == severity)
                .count()
        };
        let counts = [Severity::Error, Severity::Warning, Severity::Note];
        let counts = counts.map(|severity| (severity, of(severity)));
        if self.findings.is_empty() {
            return writeln!(f, "healthy");
        }
        let counts = counts.into_iter().filter(|(_, number)| *number > 0);
        let counts = counts.map(|(severity, number)| count(number, severity.as_str()));
        writeln!(f, "{}", counts.collect::<Vec<_>>().join(", "))
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

fn servers(facts: &Facts) -> String {
    let servers = count(facts.servers.len(), "Redis server");
    match facts.topology {
        Topology::Memory => "its memory".to_owned(),
        Topology::Sentinel => {
            let sentinels = count(facts.sentinels.len(), "sentinel");
            format!("{servers} and {sentinels}")
        }
        _ => servers,
    }
}

/// Returns what the caller may do at a coordinator.
fn caller(status: &Status) -> String {
    let Some(identity) = &status.identity else {
        return "asks for no identity, so that everybody may do everything".to_owned();
    };
    let list = |names: &[String]| match names.iter().any(String::is_empty) {
        true => "all".to_owned(),
        false => names
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let one = |permission: &Permission| {
        let names = [
            ("locks", &permission.locks),
            ("elections", &permission.elections),
        ];
        let names = names.into_iter().filter(|(_, names)| !names.is_empty());
        let names = names.map(|(kind, names)| format!("{kind} {}", list(names)));
        let names = names.collect::<Vec<_>>().join(", ");
        format!("{} ({names})", permission.name)
    };
    let permissions: Vec<_> = status.permissions.iter().map(one).collect();
    match permissions.is_empty() {
        true => format!("knows this caller as {identity}, which may do nothing"),
        false => format!(
            "knows this caller as {identity}, which may {}",
            permissions.join("; ")
        ),
    }
}
