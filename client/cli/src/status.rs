//! `status`: one row for each coordinator.

use std::{io, time::Duration};

use leasehold_client::{CoordinatorStatus, StoreState};

use crate::{
    args::duration,
    connection::Connection,
    exit::{self, Exit, Outcome},
    show::{json, table::Table, text},
};

pub(crate) const HELP: &str = "\
Asks every coordinator of --endpoint, and each address of a host name, for its name, its version,
its uptime, whether it serves or why not, its store, and its numbers of sessions, held locks and
waiters. Callers without the permission `inspect` on every lock see neither the reason, nor the
store, nor the numbers.

Examples:
  leasehold status
  leasehold --endpoint a.example,b.example,c.example status --timeout 2s

Exit codes:
  0    all coordinators serve
  3    some serve, and some do not or are unreachable
  64   invalid command line
  69   none serves
  77   all refuse the caller's identity or permissions, or a TLS certificate was not accepted";

/// Options of `status`.
#[derive(clap::Args, Debug)]
pub(crate) struct StatusOptions {
    /// How long to wait for answers; a coordinator that has not answered by then counts as not serving
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    timeout: Duration,
}

/// Shows every coordinator.
pub(crate) async fn status(
    connection: &Connection,
    options: &StatusOptions,
    as_json: bool,
) -> Outcome {
    let rows = connection.admin()?.status(options.timeout).await;
    if as_json {
        let coordinators = rows.iter().map(json::Coordinator::from).collect();
        json::print(&json::Coordinators { coordinators })?;
    } else {
        table(&rows).print(&mut io::stdout().lock())?;
    }
    Ok(verdict(&rows))
}

fn table(rows: &[CoordinatorStatus]) -> Table {
    let mut table = Table::new(&[
        "ADDRESS", "NAME", "VERSION", "UPTIME", "STATE", "STORE", "SESSIONS", "LOCKS", "WAITERS",
        "REASON",
    ]);
    for row in rows {
        let address = match row.address {
            Some(address) => address.to_string(),
            None => row.endpoint.clone(),
        };
        let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        table.row(match &row.status {
            Ok(status) => {
                let url = status.store.as_deref().unwrap_or_default();
                let store = match status.store_state {
                    Some(StoreState::Up) => format!("{url} (up)"),
                    Some(StoreState::Down) => format!("{url} (down)"),
                    _ => "-".to_owned(),
                };
                vec![
                    address,
                    text::escaped(status.coordinator.as_bytes()),
                    text::escaped(status.version.as_bytes()),
                    text::or_dash(status.uptime),
                    if status.serving {
                        "serving"
                    } else {
                        "not serving"
                    }
                    .to_owned(),
                    text::escaped(store.as_bytes()),
                    count(status.session_count),
                    count(status.hold_count),
                    count(status.waiter_count),
                    text::escaped(status.reason.as_deref().unwrap_or_default().as_bytes()),
                ]
            }
            Err(failure) => {
                let mut cells = vec![address];
                cells.extend(["-"; 3].map(str::to_owned));
                cells.push("no answer".to_owned());
                cells.extend(["-"; 4].map(str::to_owned));
                cells.push(text::escaped(failure.to_string().as_bytes()));
                cells
            }
        });
    }
    table.without_empty_columns()
}

/// Returns the exit code: whether all, some or none serve. If none answers, and all for the same reason, that reason's own.
fn verdict(rows: &[CoordinatorStatus]) -> Exit {
    let serving = rows.iter().filter(|row| row.is_serving()).count();
    if serving > 0 {
        return match serving == rows.len() {
            true => Exit::Success,
            false => Exit::SomeServe,
        };
    }
    let mut codes = rows.iter().map(|row| match &row.status {
        Ok(_) => Exit::Unavailable,
        Err(failure) => exit::failure(failure),
    });
    match codes.next() {
        Some(first) if codes.all(|code| code == first) => first,
        _ => Exit::Unavailable,
    }
}
