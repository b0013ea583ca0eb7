//! Status of the coordinator, for operators and for `leasehold doctor`. It comes from memory, so that it is there while the store is
//! away.

use std::time::SystemTime;

use leasehold_core::time::Moment;
use leasehold_proto::v1::{
    CertificateView, GetStatusResponse, LimitView, PermissionView, StoreState,
};
use leasehold_store::{Status as StoreStatus, clock};
use tokio::sync::watch;

use super::streams::Streams;
use crate::{
    access::{
        Rights,
        rules::{Granted, Permission, Prefixes},
    },
    admin_http::Readiness,
    convert,
    limits::most_connections,
    listener::Connections,
    telemetry::open_files,
};

/// Sources of the coordinator's status.
#[derive(Clone, Debug)]
pub struct StatusSources {
    /// The parts that the services share.
    pub streams: Streams,
    /// Time of the coordinator's start.
    pub started: Moment,
    /// Whether the coordinator serves.
    pub ready: watch::Receiver<Readiness>,
    /// The connections of clients.
    pub connections: Connections,
}

impl StatusSources {
    /// Returns what this caller may see.
    pub(super) fn status(&self, rights: &Rights) -> GetStatusResponse {
        let coordinator = &self.streams.coordinator;
        let ready = self.ready.borrow().clone();
        let shown = GetStatusResponse {
            coordinator: coordinator.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: Some(convert::wire_duration(self.started.until(clock::now()))),
            serving: ready.ready,
            time: Some(SystemTime::now().into()),
            draining: self.streams.shutdown.draining.is_cancelled(),
            identity: rights.caller().identity().unwrap_or_default().to_owned(),
            permissions: permissions(rights.granted()),
            ..GetStatusResponse::default()
        };
        // Others see neither the load, nor the store, nor why the coordinator does not serve, nor settings.
        if !rights.granted().sees_all() {
            return shown;
        }
        let store_state = match *coordinator.store().status().borrow() {
            StoreStatus::Up { .. } => StoreState::Up,
            StoreStatus::Down { .. } => StoreState::Down,
        };
        let load = self.streams.sessions.load();
        let config = &self.streams.config;
        let bounds = coordinator.bounds();
        let [min_ttl, default_ttl, max_ttl] =
            [bounds.min, bounds.default, bounds.max].map(|ttl| Some(convert::wire_duration(ttl)));
        GetStatusResponse {
            reason: ready.reason,
            store: config.store.to_string(),
            store_state: store_state.into(),
            session_count: Some(load.sessions),
            hold_count: Some(load.holds),
            waiter_count: Some(load.waiters),
            min_ttl,
            default_ttl,
            max_ttl,
            key_prefix: Some(config.key_prefix.clone()),
            min_replicas: Some(config.min_replicas),
            limits: self.limits(),
            certificates: self.certificates(),
            ..shown
        }
    }

    fn limits(&self) -> Vec<LimitView> {
        let limits = self.streams.coordinator.limits();
        let connections = self.connections.len();
        let bound = most_connections(limits.config().max_connections);
        let counts = limits.in_use().into_iter();
        let counts = counts.chain([("max-connections", connections, bound)]);
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let mut views: Vec<_> = counts
            .map(|(name, used, limit)| view(name, number(used), number(limit)))
            .collect();
        let files = open_files().map(|(used, limit)| view("open-files", used, limit));
        views.extend(files);
        views
    }

    fn certificates(&self) -> Vec<CertificateView> {
        let certificates = &self.streams.coordinator.metrics().certificates;
        let views = certificates.noted().into_iter();
        let views = views.map(|(purpose, expires)| CertificateView {
            purpose: purpose.to_owned(),
            expires: Some(expires.into()),
        });
        views.collect()
    }
}

fn view(name: &str, used: u64, limit: u64) -> LimitView {
    LimitView {
        name: name.to_owned(),
        used,
        limit,
    }
}

fn permissions(granted: &Granted) -> Vec<PermissionView> {
    let list = |prefixes: &Prefixes| prefixes.iter().map(str::to_owned).collect();
    let views = Permission::ALL.into_iter().map(|permission| {
        let [locks, elections] = granted.names(permission);
        PermissionView {
            permission: permission.as_str().to_owned(),
            locks: list(&locks),
            elections: list(&elections),
        }
    });
    views
        .filter(|view| !view.locks.is_empty() || !view.elections.is_empty())
        .collect()
}
