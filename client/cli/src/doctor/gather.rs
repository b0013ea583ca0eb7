//! Observations of coordinators, by the calls that any client can make.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_client::{Admin, CoordinatorStatus, CoordinatorView, Failure, FailureKind};
use leasehold_doctor::{
    certificates,
    facts::Clock,
    observed::{
        Certificate, CertificateFile, Coordinator, FileEnds, Limit, NoAnswer, Permission, Settings,
        Status, Waiter,
    },
};
use tokio::time::timeout;

use crate::show::text::escaped;

/// Most locks whose waiters are looked at.
const LOCKS: usize = 100;

/// Returns what a coordinator answered.
pub(super) fn coordinator(row: &CoordinatorStatus) -> Coordinator {
    Coordinator {
        address: address(row),
        answer: match &row.status {
            Ok(view) => Ok(status(view, row.asked)),
            Err(failure) => Err(NoAnswer {
                reason: escaped(failure.to_string()),
                is_refusal: is_refusal(failure),
            }),
        },
    }
}

/// Returns a coordinator's name in findings.
pub(super) fn address(row: &CoordinatorStatus) -> String {
    match row.address {
        Some(address) => address.to_string(),
        None => row.endpoint.clone(),
    }
}

fn is_refusal(failure: &Failure) -> bool {
    let refuses = [FailureKind::Unauthenticated, FailureKind::PermissionDenied];
    refuses.contains(&failure.kind()) || failure.is_tls()
}

fn status(view: &CoordinatorView, (asked, answered): (SystemTime, SystemTime)) -> Status {
    let clock = view.time.and_then(|time| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        let shown = i64::try_from(since.as_micros()).ok()?;
        Some(Clock::read(shown, asked, answered))
    });
    let permissions = view.permissions.iter().map(|it| Permission {
        name: escaped(&it.permission),
        locks: it.locks.clone(),
        elections: it.elections.clone(),
    });
    let limits = view.limits.iter().map(|it| Limit {
        name: escaped(&it.name),
        used: it.used,
        limit: it.limit,
    });
    let certificates = view.certificates.iter().filter_map(|it| {
        Some(Certificate {
            purpose: escaped(&it.purpose),
            expires: it.expires?,
        })
    });
    Status {
        id: view.coordinator.clone(),
        version: escaped(&view.version),
        is_serving: view.serving,
        reason: view.reason.as_ref().map(escaped),
        is_draining: view.draining,
        clock,
        identity: view.identity.as_ref().map(escaped),
        permissions: permissions.collect(),
        sees_all: view.store.is_some(),
        limits: limits.collect(),
        certificates: certificates.collect(),
    }
}

/// Returns the settings that a coordinator shares with others, if the caller may see them.
pub(super) fn settings(row: &CoordinatorStatus) -> Option<Settings> {
    let view = row.status.as_ref().ok()?;
    Some(Settings {
        of: address(row),
        store: escaped(view.store.as_ref()?),
        key_prefix: view.key_prefix.clone()?,
        ttl: [view.min_ttl?, view.default_ttl?, view.max_ttl?],
        min_replicas: view.min_replicas?,
    })
}

/// Returns when a certificate file, which an option names, is of no more use. Returns `None` if it can't be read: what needs it
/// says so.
pub(super) fn file(
    (option, path, has_authorities): (&str, Option<&Path>, bool),
) -> Option<CertificateFile> {
    let path = path?;
    let found = certificates::in_file(path)?;
    let ends = match has_authorities {
        true => FileEnds::Authorities(certificates::latest(&found)?),
        false => FileEnds::Chain(certificates::earliest(&found)?),
    };
    let name = format!("{} ({option})", path.display());
    Some(CertificateFile { name, ends })
}

/// Returns the waiters of some locks; none if the coordinator that is asked can't list them in time.
pub(super) async fn waiters(admin: &Admin, patience: Duration) -> Vec<Waiter> {
    let mut waiters = Vec::new();
    let listed = async {
        let locks = admin.list_locks("").await.unwrap_or_default();
        let awaited = locks.into_iter().filter(|lock| lock.waiter_count > 0);
        for lock in awaited.take(LOCKS) {
            let Ok(lock) = admin.get_lock(&lock.name).await else {
                return;
            };
            waiters.extend(lock.waiters.into_iter().map(|waiter| Waiter {
                lock: lock.name.clone(),
                coordinator: waiter.coordinator,
            }));
        }
    };
    // What was found by then is enough.
    let _ = timeout(patience, listed).await;
    waiters
}
