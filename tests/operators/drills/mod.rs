//! Outage drill: real Redis servers in each state that `docs/operations.md` lists, and what the log, `/readyz`, the status, the doctor, the
//! metrics and the audit log say of it, compared with the page. They wait for locks to run out: `make drills` runs them, and `make test` leaves them out.
#![expect(clippy::print_stdout, reason = "a drill shows what was said")]

mod page;
mod site;
mod states;
