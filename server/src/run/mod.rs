//! Wiring: configuration to store, coordinator, services and listeners; and the way back down.

mod drain;
mod health;
mod listeners;

use std::{fmt::Display, io, sync::Arc, time::Duration};

use leasehold_core::{id::CoordinatorId, name::TtlBounds};
use leasehold_proto::v1::{
    admin_service_server::AdminServiceServer, election_service_server::ElectionServiceServer,
    lock_service_server::LockServiceServer,
};
use leasehold_store::{Acknowledgement, Status as StoreStatus, Store, clock};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::codegen::http::header::AUTHORIZATION;
use uuid::Uuid;

pub use self::listeners::{Listeners, RunError};
use self::{
    drain::drain,
    health::{Followed, follow_health, said_to_be_leaving},
};
use crate::{
    Liveness,
    access::{Access, AccessLayer},
    admin_http::{self, AdminState, Readiness},
    audit::{Audit, Counters, Unwritten},
    config::Config,
    connect::ConnectLayer,
    coordinator::{Coordinator, Parts},
    follow::Reload,
    limits::{LARGEST_OF_OTHERS, LimitLayer, Limits},
    listener::{self, Connections, ListenerOptions, http2_server},
    methods::Method,
    page::{Page, has_certain_host},
    service_manager,
    services::{
        DESCRIPTORS, admin::Admin, descriptors, election::Elections, listing::Listings,
        lock::Locks, status::StatusSources, streams::Streams,
    },
    session::signals::Shutdown,
    sessions::Sessions,
    suspension,
    telemetry::{Metrics, RequestLayer, Traces},
    tls::{Tls, follow_expiry},
    watch::Watching,
};

/// Time for the last answers of ended sessions to reach their clients. A client that misses its own takes the end for a
/// broken connection, and its locks for lost.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is cancelled and all sessions have ended, which takes little more than the drain time-out. A
/// [`Config`] alone is fixed; a [`Reload`] is followed. If the environment names a service manager, the coordinator notifies it
/// when it serves, and when it drains.
///
/// # Errors
///
/// If a file or a setting is not valid, if a required store can't be reached, or if the server fails.
pub async fn run(
    config: impl Into<Reload>,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    run_and_announce(config, listeners, shutdown, || Ok(())).await
}

/// Does what [`run`] does, and calls `announce` once nothing can keep the coordinator from serving: all files are read, and the
/// store is reached if it is required.
///
/// # Errors
///
/// As [`run`], or if `announce` fails.
pub async fn run_and_announce(
    config: impl Into<Reload>,
    listeners: Listeners,
    shutdown: CancellationToken,
    announce: impl FnOnce() -> io::Result<()>,
) -> Result<(), RunError> {
    let reload = config.into();
    let config = reload.current();
    let connections = Connections::new();
    let metrics = Metrics::new(connections.clone(), config.metrics);
    let background = CancellationToken::new();
    // The tasks started here end with this function, however it ends.
    let _background = background.clone().drop_guard();
    let liveness = Liveness::default();
    tokio::spawn(
        background
            .clone()
            .run_until_cancelled_owned(liveness.clone().ask()),
    );
    tokio::spawn(service_manager::watchdog(liveness.clone()));
    let tls = Tls::start(&reload, &liveness, &background).map_err(RunError::Configuration)?;
    let expiry = follow_expiry(tls.as_ref(), &config, metrics.certificates.clone());
    tokio::spawn(background.clone().run_until_cancelled_owned(expiry));
    let limits = Limits::new(reload.clone());
    let access = Access::start(reload.clone(), tls.as_ref(), &liveness, background.clone())
        .map_err(RunError::Configuration)?;
    let run = Uuid::new_v4().simple().to_string();
    let id = CoordinatorId::new(&config.shown_name(&run[..8]));
    let (audit, unwritten) = open_audit_log(&config, &id, &metrics)?;
    let access = access.told(audit.clone());
    let shared = (
        metrics.clone(),
        limits.clone(),
        liveness.clone(),
        audit.clone(),
        access.clone(),
    );
    let coordinator = start_coordinator(&config, id, shared, &background)?;
    let traces = Traces::start(&config, coordinator.id().as_str()).map_err(|error| {
        RunError::Configuration(format!(
            "failed to set up traces (--otlp-endpoint): {error}"
        ))
    })?;
    tokio::spawn(traces.clone().follow(reload.clone()));
    let sessions = Sessions::default();
    let tasks = TaskTracker::new();
    let stages = Shutdown {
        suspended: suspension::watch_for(&liveness, &background),
        draining: CancellationToken::new(),
        stopping: CancellationToken::new(),
    };
    let (readiness, ready) = watch::channel(Readiness::not_ready("starting"));
    let leaving = CancellationToken::new();
    let (reporter, health) = tonic_health::server::health_reporter();
    let followed = Followed {
        store: coordinator.store().clone(),
        store_timeout: config.store_timeout,
        sessions: sessions.clone(),
        metrics: metrics.clone(),
        leaving: leaving.clone(),
    };
    let health_followed = follow_health(followed, reporter, readiness, background.clone());
    tokio::spawn(liveness.keep("health", &background, health_followed));
    let streams = Streams {
        coordinator: coordinator.clone(),
        sessions,
        tasks: tasks.clone(),
        shutdown: stages.clone(),
        access: access.clone(),
        config: Arc::clone(&config),
        traces: traces.clone(),
    };
    let watching = Watching::start(coordinator.clone(), &liveness, &background);
    let locks = Locks {
        streams: streams.clone(),
    };
    let elections = Elections {
        streams: streams.clone(),
        watching: watching.clone(),
    };
    let status = StatusSources {
        streams: streams.clone(),
        started: clock::now(),
        ready: ready.clone(),
        connections: connections.clone(),
    };
    let admin = Admin {
        streams,
        listings: Listings::default(),
        watching,
        status,
    };
    let reflected = [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure();
        reflected.iter().fold(builder, |builder, set| {
            builder.register_encoded_file_descriptor_set(set)
        })
    };
    let largest = config.max_message_size;
    let small = largest.min(LARGEST_OF_OTHERS);
    let pool = descriptors().map_err(failed("read the descriptors of the services"))?;
    let page = page(&config, &listeners).map_err(failed("read the addresses of the ports"))?;
    let (origins, own) = (reload.clone(), page.clone());
    let connect = ConnectLayer::new(pool, largest).allow_origins(move |origin, head| {
        let config = origins.current();
        let allowed = config.cors_origins.as_ref();
        allowed.is_some_and(|allowed| allowed.include(origin.as_bytes()))
            || own
                .as_ref()
                .is_some_and(|page| page.is_origin(origin, head))
    });
    let connect = connect
        .serve_websockets(config.keepalive_interval)
        .limit_others(|path| !Method::at(path).is_ours(), small);
    let has_tls = config.tls_cert.is_some();
    // No page knows a token; but an open coordinator takes any.
    let asking = access.clone();
    let connect = connect.refuse_gets(move |head| {
        let shows_token = !asking.is_open() && head.headers.contains_key(AUTHORIZATION);
        !has_tls && !shows_token && !has_certain_host(head)
    });
    let router = http2_server(&config)
        // The outermost: what follows sees gRPC alone.
        .layer(connect)
        .layer(metrics.rpc_layer())
        .layer(AccessLayer::new(access.clone(), limits.clone()))
        .layer(RequestLayer::new(traces.clone()))
        .layer(LimitLayer::new(limits.clone()))
        .add_service(health.max_decoding_message_size(small))
        .add_service(
            reflection()
                .build_v1()
                .map_err(failed("set up gRPC reflection"))?
                .max_decoding_message_size(small),
        )
        .add_service(
            reflection()
                .build_v1alpha()
                .map_err(failed("set up gRPC reflection"))?
                .max_decoding_message_size(small),
        )
        .add_service(LockServiceServer::new(locks).max_decoding_message_size(largest))
        .add_service(ElectionServiceServer::new(elections).max_decoding_message_size(largest))
        .add_service(AdminServiceServer::new(admin).max_decoding_message_size(largest));
    // Connections wait in the backlog meanwhile, so that the first requests do not fail if the store is reachable.
    wait_for_store(&config, coordinator.store()).await?;
    announce().map_err(failed("print where the coordinator listens"))?;
    // Standard output has the announcement first.
    let writing = unwritten.map(Unwritten::begin).transpose();
    let writing = writing.map_err(failed("start the thread that writes the audit log"))?;
    tokio::spawn(
        background
            .clone()
            .run_until_cancelled_owned(follow_moves(audit, reload.clone())),
    );
    // The accept loop counts as ended if it is dropped before `closing`, so nothing may fail from here on.
    let closing = CancellationToken::new();
    let incoming = listener::accept(
        listeners.grpc,
        ListenerOptions {
            tls: tls.clone(),
            ..ListenerOptions::from(&*config)
        },
        connections.clone(),
        closing.clone(),
    );
    let incoming = liveness.keep("accept loop", &closing, incoming);
    // Follows the configuration from here on: the connections begin with the limits of the initial one.
    let following = limits.follow(connections.clone(), metrics.clone(), background.clone());
    tokio::spawn(following);
    service_manager::ready();
    let grpc = router.serve_with_incoming_shutdown(incoming, closing.clone().cancelled_owned());
    let admin = admin_http::serve(
        listeners.admin,
        tls.filter(|_| config.admin_tls),
        config.handshake_timeout,
        AdminState {
            metrics,
            readiness: ready.clone(),
            liveness,
            reload,
        },
        page,
        background.clone(),
    );
    let stop = async {
        shutdown.cancelled().await;
        service_manager::stopping();
        leaving.cancel();
        said_to_be_leaving(ready).await;
        drain(&stages, &tasks, &coordinator).await;
        closing.cancel();
        tokio::time::sleep(LAST_WORDS).await;
        // Ends the remaining streams, including those of clients that do not read.
        connections.kill_all();
        std::future::pending::<()>().await;
    };
    tokio::pin!(grpc, admin);
    tokio::select! {
        served = &mut grpc => {
            served.map_err(failed("serve gRPC"))?;
            // It does not know of connections that have become WebSockets.
            let _ = tokio::time::timeout(LAST_WORDS, connections.drained()).await;
        }
        () = &mut admin => {}
        () = stop => {}
    }
    traces.shutdown().await;
    if let Some(writing) = writing {
        writing.end().await;
    }
    Ok(())
}

/// Opens the audit log, if there is one.
fn open_audit_log(
    config: &Config,
    id: &CoordinatorId,
    metrics: &Metrics,
) -> Result<(Audit, Option<Unwritten>), RunError> {
    let Some(path) = &config.audit_log else {
        return Ok((Audit::default(), None));
    };
    let counters = Counters {
        written: metrics.audit_lines.clone(),
        dropped: metrics.audit_dropped.clone(),
    };
    let opened = Audit::open(path, id, counters).map_err(|error| {
        let path = path.display();
        RunError::Configuration(format!("failed to open {path} (audit-log): {error}"))
    });
    opened.map(|(audit, unwritten)| (audit, Some(unwritten)))
}

/// Has the audit log opened anew at each reload, if it was moved.
async fn follow_moves(audit: Audit, mut reload: Reload) {
    loop {
        reload.changed().await;
        audit.reopen();
    }
}

/// Returns the live page of a coordinator with these sockets, unless it is off.
fn page(config: &Config, listeners: &Listeners) -> io::Result<Option<Page>> {
    let (grpc, admin) = (&listeners.grpc, &listeners.admin);
    Ok(Page::of(config, grpc.local_addr()?, admin.local_addr()?))
}

fn start_coordinator(
    config: &Config,
    id: CoordinatorId,
    (metrics, limits, liveness, audit, access): (Metrics, Limits, Liveness, Audit, Access),
    background: &CancellationToken,
) -> Result<Coordinator, RunError> {
    let options = leasehold_store::Options {
        url: config.store.expose().to_owned(),
        tls: config.store_tls(),
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
        meter: metrics.meter.clone(),
    };
    let (store, wake_ups) = leasehold_store::open(options).map_err(|error| {
        RunError::Configuration(format!("failed to open the store (--store): {error}"))
    })?;
    let parts = Parts {
        id,
        store,
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
        limits,
        audit,
        access,
        liveness,
    };
    Ok(Coordinator::start(parts, wake_ups, background))
}

/// Returns the error of something that failed while the coordinator started or served.
fn failed<E: Display>(what: &'static str) -> impl Fn(E) -> RunError {
    move |error| RunError::Failed(format!("failed to {what}: {error}"))
}

/// Waits a moment for the store. If it can't be reached, the coordinator still serves, and reports that it is not ready,
/// unless the store is required.
async fn wait_for_store(config: &Config, store: &Store) -> Result<(), RunError> {
    let patience = config.store_timeout * if config.require_store { 10 } else { 1 };
    let mut status = store.status();
    let up = status.wait_for(StoreStatus::is_up);
    if tokio::time::timeout(patience, up).await.is_ok() {
        return Ok(());
    }
    match &*status.borrow() {
        StoreStatus::Down { reason, .. } if config.require_store => Err(RunError::Failed(format!(
            "the store was not reached within {patience:?} (--require-store): {reason}; without --require-store the \
                 coordinator starts without it, and goes on trying"
        ))),
        _ => {
            tracing::warn!("failed to reach the store so far: serving without it, and retrying");
            Ok(())
        }
    }
}
