//! `doctor`: what is wrong with a deployment, and what to do.
//!
//! - `gather`: observations of coordinators, and of certificate files. Those of the store, and all rules, are in the crate `leasehold-doctor`.
//! - `report`: findings as text and as JSON.

mod gather;
mod options;
mod report;

use std::time::SystemTime;

use leasehold_client::CoordinatorStatus;
use leasehold_doctor::{
    Finding, Severity, diagnose, examine,
    observed::{Observations, Store},
};

pub(crate) use self::options::{DoctorOptions, HELP};
use self::report::Report;
use crate::{
    connection::Connection,
    exit::{self, Exit, Mistake, Outcome},
    show,
};

/// Observes the deployment, and shows what is wrong with it.
pub(crate) async fn doctor(
    connection: &Connection,
    options: &DoctorOptions,
    as_json: bool,
) -> Outcome {
    let url = options.store()?;
    let admin = connection.admin()?;
    let rows = admin.status(options.timeout).await;
    let mut observed = Observations::new(SystemTime::now(), env!("CARGO_PKG_VERSION"));
    observed.coordinators = rows.iter().map(gather::coordinator).collect();
    observed.settings = rows.iter().filter_map(gather::settings).collect();
    let files = connection.certificate_files().into_iter();
    let files = files.chain(options.certificate_files());
    observed.files = files.filter_map(gather::file).collect();
    if rows.iter().any(CoordinatorStatus::is_serving) {
        observed.waiters = gather::waiters(&admin, options.timeout).await;
    }
    if let Some(url) = url {
        let told = observed.settings.first();
        let acknowledged = observed.settings.iter().any(|it| it.min_replicas > 0);
        let prefix = told.map(|settings| settings.key_prefix.as_str());
        let place = options.place(url, prefix, acknowledged);
        let facts = examine(&place).await;
        // A file of certificates can't be used; the URL itself is checked.
        let facts = facts.map_err(|error| Mistake(error.to_string()))?;
        let url = place.url;
        observed.store = Some(Store { url, facts });
    }
    let findings = diagnose(&observed);
    let code = verdict(&rows, &findings);
    let report = Report {
        rows,
        observed,
        findings,
    };
    show::answer(as_json, report.document(), || &report)?;
    Ok(code)
}

/// Returns the exit code. If no coordinator answers, and all for the same reason, that reason's own.
fn verdict(rows: &[CoordinatorStatus], findings: &[Finding]) -> Exit {
    if let Some(code) = exit::unanswered(rows) {
        return code;
    }
    match findings.first() {
        Some(worst) if worst.severity > Severity::Note => Exit::FINDINGS,
        _ => Exit::SUCCESS,
    }
}
