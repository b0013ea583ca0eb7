//! Findings about a deployment: coordinators, and the Redis servers of their store.
//!
//! - [`observed`]: what was observed, as plain data. Whoever calls gathers it: the command `leasehold doctor` from coordinators,
//!   and [`examine`] from the store.
//! - [`diagnose`]: the rules, a pure function from observations to findings.
//! - [`Check`]: each kind of finding, with its reason and remedy. `docs/doctor.md` has a section for each.

mod check;
mod duration;
mod finding;
pub mod observed;
mod rules;

pub use check::Check;
pub use finding::{Finding, Severity};
pub use leasehold_store::{
    StoreUrlError, TlsFiles, certificates, check_url,
    examine::{Place, examine, facts},
};
pub use rules::diagnose;
