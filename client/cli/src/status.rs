//! `status`: one row for each coordinator.

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::{CertificateView, CoordinatorStatus, LimitView, PermissionView, StoreState};

use crate::{
    connection::Connection,
    duration::duration,
    exit::{self, Exit, Outcome},
    show::{
        self,
        error::Error,
        json::{self, Json, Wide, document},
        table::Table,
        text,
    },
};

pub(crate) const HELP: &str = "\
Asks every coordinator of --endpoint, and each address of a host name, for its name, its version,
its uptime, whether it serves or why not, its store, and its numbers of sessions, held locks and
waiters. The reason of one that serves is what its store has refused in the last minute. Callers
without the permission `inspect` on every lock see neither the reason, nor the store, nor the
numbers.

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
    /// Time to wait for answers; a coordinator that has not answered by then counts as not serving
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
    let document = BTreeMap::from([("coordinators", Json(&rows))]);
    show::answer(as_json, document, || table(&rows))?;
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
        let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
        table.row(match &row.status {
            Ok(status) => {
                let url = status.store.as_deref().unwrap_or_default();
                let store = match status.store_state {
                    Some(StoreState::Up) => format!("{url} (up)"),
                    Some(StoreState::Down) => format!("{url} (down)"),
                    _ => "-".to_owned(),
                };
                let state = match status.serving {
                    true => "serving",
                    false => "not serving",
                };
                vec![
                    address,
                    text::escaped(&status.coordinator),
                    text::escaped(&status.version),
                    text::or_dash(status.uptime),
                    state.to_owned(),
                    text::escaped(&store),
                    count(status.session_count),
                    count(status.hold_count),
                    count(status.waiter_count),
                    text::escaped(status.reason.as_deref().unwrap_or_default()),
                ]
            }
            Err(failure) => {
                let reason = text::escaped(failure.to_string());
                let cells = ["-", "-", "-", "no answer", "-", "-", "-", "-", &reason];
                let cells = cells.map(str::to_owned);
                [address].into_iter().chain(cells).collect()
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
            true => Exit::SUCCESS,
            false => Exit::SOME_SERVE,
        };
    }
    exit::unanswered(rows).unwrap_or(Exit::UNAVAILABLE)
}

// If a coordinator did not answer, all is null but its endpoint, its address, `serving` and `error`.
document!(row: CoordinatorStatus {
    "endpoint": row.endpoint,
    // Null if the endpoint's name has none.
    "address": row.address,
    "coordinator": row.status.as_ref().ok().map(|status| &status.coordinator),
    "version": row.status.as_ref().ok().map(|status| &status.version),
    "uptime": row.status.as_ref().ok().and_then(|status| status.uptime).map(json::duration),
    "serving": row.is_serving(),
    "reason": row.status.as_ref().ok().and_then(|status| status.reason.as_ref()),
    "store": row.status.as_ref().ok().and_then(|status| status.store.as_ref()),
    "storeState": row.status.as_ref().ok().and_then(|status| status.store_state).and_then(store_state),
    "sessionCount": row.status.as_ref().ok().and_then(|status| status.session_count).map(Wide),
    "holdCount": row.status.as_ref().ok().and_then(|status| status.hold_count).map(Wide),
    "waiterCount": row.status.as_ref().ok().and_then(|status| status.waiter_count).map(Wide),
    "time": row.status.as_ref().ok().and_then(|status| status.time).map(json::time),
    "draining": row.status.as_ref().ok().map(|status| status.draining),
    "identity": row.status.as_ref().ok().and_then(|status| status.identity.as_ref()),
    "permissions": row.status.as_ref().ok().map(|status| Json(&status.permissions)),
    "minTtl": row.status.as_ref().ok().and_then(|status| status.min_ttl).map(json::duration),
    "defaultTtl": row.status.as_ref().ok().and_then(|status| status.default_ttl).map(json::duration),
    "maxTtl": row.status.as_ref().ok().and_then(|status| status.max_ttl).map(json::duration),
    "keyPrefix": row.status.as_ref().ok().and_then(|status| status.key_prefix.as_ref()),
    "minReplicas": row.status.as_ref().ok().and_then(|status| status.min_replicas),
    "limits": row.status.as_ref().ok().map(|status| Json(&status.limits)),
    "certificates": row.status.as_ref().ok().map(|status| Json(&status.certificates)),
    "error": row.status.as_ref().err().map(Error::from),
});

document!(permission: PermissionView {
    "permission": permission.permission,
    "locks": permission.locks,
    "elections": permission.elections,
});

document!(limit: LimitView {
    "name": limit.name,
    "used": Wide(limit.used),
    "limit": Wide(limit.limit),
});

document!(certificate: CertificateView {
    "purpose": certificate.purpose,
    "expires": certificate.expires.map(json::time),
});

fn store_state(state: StoreState) -> Option<&'static str> {
    match state {
        StoreState::Up => Some("STORE_STATE_UP"),
        StoreState::Down => Some("STORE_STATE_DOWN"),
        _ => None,
    }
}
