//! Wiring: configuration to store, coordinator, services and listeners; and the way back down.

use std::{io, net::SocketAddr, time::Duration};

use leasehold_core::{id::CoordinatorId, name::TtlBounds};
use leasehold_proto::v1::{
    DESCRIPTORS, admin_service_server::AdminServiceServer,
    election_service_server::ElectionServiceServer, lock_service_server::LockServiceServer,
};
use leasehold_store::{Acknowledgement, LockStore, Status as StoreStatus, Store, StoreUrlError};
use thiserror::Error;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::{ServingStatus, server::HealthReporter};
use uuid::Uuid;

use crate::{
    admin_http::{self, AdminState, Readiness},
    config::Config,
    coordinator::{Coordinator, Parts},
    listener::{self, Connections, ListenerOptions, http2_server},
    services::{
        admin::Admin,
        election::Elections,
        lock::Locks,
        streams::{Limits, Streams},
    },
    session::{sessions::Sessions, task::Shutdown},
    suspension,
    telemetry::Metrics,
    watch::Watching,
};

/// Most bytes of one request. No valid one has more than a few KiB: what is somewhat too large is told which of its fields
/// is, and only what is beyond this ends its call or stream.
const MAX_REQUEST: usize = 2 * 1024 * 1024;
/// The services that follow the store's health, and all of them together.
const SERVED: [&str; 4] = [
    "",
    "leasehold.v1.AdminService",
    "leasehold.v1.ElectionService",
    "leasehold.v1.LockService",
];
/// Why a coordinator that goes away is not ready.
const DRAINING: &str = "draining";
/// How long the last answers of sessions that were ended may take to reach their clients.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long releases that are under way may take when everything else has ended, beside the store's time-out.
const LAST_RELEASES: Duration = Duration::from_millis(500);

/// The sockets that a coordinator serves.
#[derive(Debug)]
pub struct Listeners {
    /// For gRPC.
    pub grpc: TcpListener,
    /// For the admin HTTP port.
    pub admin: TcpListener,
}

/// Why a coordinator could not start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A port could not be had.
    #[error(
        "failed to listen on {address} ({setting}): {source}; choose another port with --{setting}, or 0 for any free one"
    )]
    Bind {
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The store's URL makes no sense.
    #[error("failed to open the store (--store): {0}")]
    Store(#[from] StoreUrlError),
    /// The store is out of reach, and is required.
    #[error(
        "the store was not reached within {within:?} (--require-store): {reason}; without --require-store the coordinator starts all the same, and goes on trying"
    )]
    StoreUnreachable {
        /// How long it was tried.
        within: Duration,
        /// Why it can't be reached.
        reason: String,
    },
    /// Reflection could not be built.
    #[error("failed to set up gRPC reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The gRPC server failed.
    #[error("failed to serve gRPC: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The admin port failed.
    #[error("failed to serve the admin port: {0}")]
    Admin(#[source] io::Error),
}

impl Listeners {
    /// Binds what the configuration says; port 0 picks a free one.
    pub async fn bind(config: &Config) -> Result<Self, RunError> {
        let bind = async |setting, address| {
            TcpListener::bind(address)
                .await
                .map_err(|source| RunError::Bind {
                    setting,
                    address,
                    source,
                })
        };
        Ok(Self {
            grpc: bind("listen", config.listen).await?,
            admin: bind("admin-listen", config.admin_listen).await?,
        })
    }
}

/// Serves until `shutdown` is cancelled and what was open has ended, which takes at most the drain time-out and a little.
pub async fn run(
    config: Config,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let connections = Connections::new();
    let metrics = Metrics::new(connections.clone());
    let background = CancellationToken::new();
    // However this ends, so does what it started.
    let _background = background.clone().drop_guard();
    let coordinator = start_coordinator(&config, metrics.clone(), &background)?;
    let sessions = Sessions::default();
    let tasks = TaskTracker::new();
    let stages = Shutdown {
        suspended: suspension::watch_for(background.clone()),
        draining: CancellationToken::new(),
        drain_timeout: config.drain_timeout,
        stopping: CancellationToken::new(),
    };
    let (readiness, ready) = watch::channel(Readiness::not_ready("starting"));
    let leaving = CancellationToken::new();
    let (reporter, health) = tonic_health::server::health_reporter();
    tokio::spawn(follow_health(
        coordinator.store().clone(),
        reporter,
        readiness,
        leaving.clone(),
        background.clone(),
    ));
    let streams = Streams {
        coordinator: coordinator.clone(),
        sessions: sessions.clone(),
        tasks: tasks.clone(),
        shutdown: stages.clone(),
        limits: Limits {
            sessions: config.max_sessions,
            locks_per_session: config.max_locks_per_session,
            outbound_queue: config.outbound_queue,
            reading_timeout: config.keepalive_timeout,
            open_timeout: config.handshake_timeout,
        },
    };
    let locks = Locks {
        streams: streams.clone(),
    };
    let watching = Watching::start(coordinator.clone(), background.clone());
    let elections = Elections {
        streams,
        watching: watching.clone(),
    };
    let admin = Admin {
        coordinator: coordinator.clone(),
        sessions,
        watching,
        draining: stages.draining.clone(),
    };
    let descriptors = [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure();
        descriptors.iter().fold(builder, |builder, set| {
            builder.register_encoded_file_descriptor_set(set)
        })
    };
    let router = http2_server(&config)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(LockServiceServer::new(locks).max_decoding_message_size(MAX_REQUEST))
        .add_service(ElectionServiceServer::new(elections).max_decoding_message_size(MAX_REQUEST))
        .add_service(AdminServiceServer::new(admin).max_decoding_message_size(MAX_REQUEST));
    let closing = CancellationToken::new();
    let incoming = listener::accept(
        listeners.grpc,
        ListenerOptions::from(&config),
        connections.clone(),
        closing.clone(),
    );
    // Connections wait in the backlog meanwhile: a store that is there should not fail the first requests.
    wait_for_store(&config, coordinator.store()).await?;
    let grpc = router.serve_with_incoming_shutdown(incoming, closing.clone().cancelled_owned());
    let admin_state = AdminState {
        metrics,
        readiness: ready.clone(),
    };
    let admin = admin_http::serve(listeners.admin, admin_state, background.clone());
    let stop = async {
        shutdown.cancelled().await;
        leaving.cancel();
        said_to_be_leaving(ready).await;
        drain(&stages, &tasks, &coordinator).await;
        closing.cancel();
        tokio::time::sleep(LAST_WORDS).await;
        // Streams that are still open, those of clients that do not read among them.
        connections.kill_all();
        std::future::pending::<()>().await;
    };
    tokio::pin!(grpc, admin);
    tokio::select! {
        served = &mut grpc => served?,
        // The admin port only ends when it fails.
        served = &mut admin => served.map_err(RunError::Admin)?,
        () = stop => {}
    }
    Ok(())
}

fn start_coordinator(
    config: &Config,
    metrics: Metrics,
    background: &CancellationToken,
) -> Result<Coordinator, RunError> {
    let run = Uuid::new_v4().simple().to_string();
    let id = CoordinatorId::new(&format!("{}-{}", config.name, &run[..8]));
    let options = leasehold_store::Options {
        url: config.store.expose().to_owned(),
        ca: config.store_ca.clone(),
        key_prefix: config.key_prefix.clone(),
        timeout: config.store_timeout,
        connections: config.store_connections,
        acknowledgement: (config.min_replicas > 0).then_some(Acknowledgement {
            replicas: config.min_replicas,
            timeout: config.replica_timeout,
        }),
        coordinator: id.clone(),
        // The longest lock-delay is the longest TTL.
        max_hold: config.max_ttl * 2,
        quorum_bootstrap: config.quorum_bootstrap,
    };
    let (store, wake_ups) = leasehold_store::open(options)?;
    let parts = Parts {
        id,
        store,
        wake_ups,
        bounds: TtlBounds {
            min: config.min_ttl,
            default: config.default_ttl,
            max: config.max_ttl,
        },
        max_wait: config.max_wait,
        store_timeout: config.store_timeout,
        acknowledged: config.min_replicas > 0,
        deadlock_detection: config.deadlock_detection,
        metrics,
    };
    Ok(Coordinator::start(parts, background))
}

/// Gives the store a moment to be reached. Without it the coordinator serves all the same, and says that it is not ready,
/// unless it is required.
async fn wait_for_store(config: &Config, store: &Store) -> Result<(), RunError> {
    let patience = config.store_timeout * if config.require_store { 10 } else { 1 };
    let mut status = store.status();
    let up = status.wait_for(|status| matches!(status, StoreStatus::Up { .. }));
    if tokio::time::timeout(patience, up).await.is_ok() {
        return Ok(());
    }
    match &*status.borrow() {
        StoreStatus::Down { reason, .. } if config.require_store => {
            Err(RunError::StoreUnreachable {
                within: patience,
                reason: reason.to_string(),
            })
        }
        _ => {
            tracing::warn!("the store is not reached yet: serving without it, and trying on");
            Ok(())
        }
    }
}

/// Waits until whoever asks is told that this coordinator goes away: before its sessions are, so that none of their clients
/// is sent back here.
async fn said_to_be_leaving(mut ready: watch::Receiver<Readiness>) {
    // Whoever says so ends with the process, and then there is nothing to wait for.
    let _ = ready.wait_for(|state| state.reason == DRAINING).await;
}

/// Has the sessions finish, then ends them, and waits for the releases that follow.
async fn drain(stages: &Shutdown, tasks: &TaskTracker, coordinator: &Coordinator) {
    tracing::info!(patience = ?stages.drain_timeout, "draining: sessions are told to finish");
    stages.draining.cancel();
    tasks.close();
    let finished = tokio::time::timeout(stages.drain_timeout, tasks.wait()).await;
    if finished.is_err() {
        tracing::info!(
            sessions = tasks.len(),
            "ending the sessions that are left; their locks are left to expire"
        );
    }
    stages.stopping.cancel();
    // A session that is just closing waits for the store twice at most.
    let patience = coordinator.store_timeout() * 2 + LAST_RELEASES;
    if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
        tracing::warn!(
            sessions = tasks.len(),
            "stopping although sessions have not ended"
        );
    }
    let patience = coordinator.store_timeout() + LAST_RELEASES;
    let cleaned = async {
        while coordinator.metrics().inflight_cleanups.value() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(patience, cleaned).await.is_err() {
        tracing::warn!(
            "stopping although the store has not answered every release; what it keeps will expire"
        );
    }
}

/// Keeps gRPC health and readiness in step with the store, and with draining.
async fn follow_health(
    store: Store,
    reporter: HealthReporter,
    readiness: watch::Sender<Readiness>,
    leaving: CancellationToken,
    background: CancellationToken,
) {
    let mut status = store.status();
    loop {
        let current = status.borrow_and_update().clone();
        let state = match (&current, leaving.is_cancelled()) {
            (_, true) => Readiness::not_ready(DRAINING),
            (StoreStatus::Up { .. }, false) => Readiness::ready(),
            (StoreStatus::Down { reason, .. }, false) => Readiness::not_ready(reason.to_string()),
        };
        let serving = if state.ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in SERVED {
            reporter.set_service_status(service, serving).await;
        }
        readiness.send_replace(state);
        tokio::select! {
            () = background.cancelled() => return,
            () = leaving.cancelled(), if !leaving.is_cancelled() => {}
            Ok(()) = status.changed() => {}
        }
    }
}
