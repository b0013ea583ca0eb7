//! The coordinator's binary. Checks the configuration, then serves.

use std::{
    env,
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
    time::SystemTime,
};

use anyhow::Context;
use leasehold_doctor::{
    Check, Finding, Place, Severity, diagnose, examine,
    observed::{Observations, Settings, Store},
};
use leasehold_server::{
    Config, Listeners,
    config::{Action, ClientAuth, doubts, unknown_variables},
    limits::allow_many_files,
    probe::probe,
    reload::{Reloader, check_files},
    run::{RunError, run_and_announce},
    service_manager,
    telemetry::init_logging,
    tls::check_expiry,
};
use leasehold_store::quorum::bootstrap::{self as quorum, Bootstrapped, MasterSet};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// Exit code for a command line or configuration that makes no sense.
const USAGE: u8 = 64;
/// Exit code if something is wrong with the store.
const FINDINGS: u8 = 6;
/// Exit code if a server of the store can't be reached.
const UNAVAILABLE: u8 = 69;

/// Variable that names the fault to plant.
#[cfg(feature = "planted")]
const PLANTED: &str = "LEASEHOLD_PLANTED";

/// Number of tasks after which a thread looks for new events. On a busy machine, every new event waits for that.
const LOOK_AROUND: u32 = 16;

fn main() -> ExitCode {
    #[cfg(feature = "planted")]
    if let Err(name) = plant() {
        complain(&format!(
            "leasehold-server: there is no fault {name} to plant"
        ));
        return ExitCode::from(USAGE);
    }
    let config = match from_command_line() {
        Ok(Action::Serve(config)) => *config,
        Ok(Action::Probe(config)) => return answer(probe(&config)),
        Ok(Action::Check { config, connect }) => return check(&config, connect),
        Ok(Action::QuorumBootstrap(config)) => return answer(bootstrap(&config)),
        Ok(Action::Print(text)) => return print(&text),
        Err(errors) => {
            complain(&errors.join("\n"));
            for warning in warnings() {
                complain(&format!("warning: {warning}"));
            }
            return ExitCode::from(USAGE);
        }
    };
    match runtime(&config).and_then(|runtime| runtime.block_on(serve(config))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.to_string().lines() {
                complain(&format!("leasehold-server: {line}"));
            }
            // A file may have changed since it was checked.
            match error.downcast_ref::<RunError>() {
                Some(RunError::Configuration(_)) => ExitCode::from(USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Warns of what is odd about a right configuration. With `connect`, checks the store, too.
fn check(config: &Config, connect: bool) -> ExitCode {
    let (doubts, expiring) = (doubts(config), check_expiry(config));
    for warning in warnings().iter().chain(&doubts).chain(&expiring) {
        complain(&format!("warning: {warning}"));
    }
    let findings = match connect.then(|| examine_store(config)).transpose() {
        Ok(findings) => findings.unwrap_or_default(),
        Err(error) => {
            complain(&format!("leasehold-server: {error}"));
            return ExitCode::from(USAGE);
        }
    };
    for finding in &findings {
        complain(&format!("{finding}"));
    }
    let mut errors = findings.iter().filter(|it| it.severity == Severity::Error);
    match errors.clone().next() {
        None => print("ok\n"),
        Some(_) if errors.any(|it| it.check == Check::StoreUnreachable) => {
            ExitCode::from(UNAVAILABLE)
        }
        Some(_) => ExitCode::from(FINDINGS),
    }
}

/// Examines the servers of the configured store.
fn examine_store(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let place = Place {
        url: config.store.expose().to_owned(),
        tls: config.store_tls(),
        key_prefix: config.key_prefix.clone(),
        acknowledged: config.min_replicas > 0,
        timeout: config.store_timeout,
    };
    let facts = runtime.block_on(examine(&place))?;
    let mut observed = Observations::new(SystemTime::now(), env!("CARGO_PKG_VERSION"));
    observed.settings = vec![Settings {
        of: "this configuration".to_owned(),
        store: config.store.to_string(),
        key_prefix: place.key_prefix,
        ttl: [config.min_ttl, config.default_ttl, config.max_ttl],
        min_replicas: config.min_replicas,
    }];
    let url = place.url;
    observed.store = Some(Store { url, facts });
    Ok(diagnose(&observed))
}

/// Plants the fault that the environment names, if it names one. Returns its name as the error if there is no such fault.
#[cfg(feature = "planted")]
fn plant() -> Result<(), String> {
    use leasehold_core::planted;
    let Ok(name) = env::var(PLANTED) else {
        return Ok(());
    };
    let fault = planted::Fault::named(&name).ok_or(name)?;
    planted::plant(Some(fault));
    Ok(())
}

/// Declares the masters of the store to be started for the first time, and returns what to tell the operator.
fn bootstrap(config: &Config) -> anyhow::Result<String> {
    let set = MasterSet {
        url: config.store.expose().to_owned(),
        tls: config.store_tls(),
        key_prefix: config.key_prefix.clone(),
        timeout: config.store_timeout,
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(match runtime.block_on(quorum::bootstrap(set))? {
        Bootstrapped::Marked(number) => {
            format!("marked {number} masters: they vote as soon as a coordinator reaches them")
        }
        Bootstrapped::Already => "all masters are marked already".to_owned(),
    })
}

/// Reads the command line, and anew at each call the files that it names. Where it asks to serve, or to check, everything that
/// the settings name is read, too.
fn from_command_line() -> Result<Action, Vec<String>> {
    Config::from_args_and_files(env::args_os(), |name| env::var_os(name), check_files)
}

/// Returns what an operator should know of the environment although nothing is wrong.
fn warnings() -> Vec<String> {
    let names = env::vars_os().map(|(name, _)| name);
    #[cfg(feature = "planted")]
    let names = names.filter(|name| name != PLANTED);
    let warnings = unknown_variables(names);
    #[cfg(feature = "planted")]
    let warnings = match env::var(PLANTED) {
        Ok(fault) => [vec![format!("the fault {fault} is PLANTED: this coordinator breaks its promises, for tests alone")], warnings].concat(),
        Err(_) => warnings,
    };
    warnings
}

/// Returns the runtime of the coordinator's tasks.
fn runtime(config: &Config) -> anyhow::Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(config.worker_threads)
        .event_interval(LOOK_AROUND)
        .enable_all()
        .build();
    runtime.context("failed to start the threads that serve clients")
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // First of all: this signal would end the process.
    let hangup = signal(SignalKind::hangup())?;
    let log_level = init_logging(&config)?;
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listeners = Listeners::bind(&config).await?;
    let grpc = listeners.grpc.local_addr()?;
    let admin = listeners.admin.local_addr()?;
    let (grpc, admin) = (grpc.to_string(), admin.to_string());
    log_start(&config, &grpc, &admin);
    allow_many_files(config.max_connections);
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    let announced = config.clone();
    let (reloader, reload) = Reloader::start(config);
    tokio::spawn(log_level.follow(reload.clone()));
    tokio::spawn(reload_at(hangup, reloader));
    let announce = || announce(&announced, &grpc, &admin);
    run_and_announce(reload, listeners, shutdown, announce).await?;
    Ok(())
}

/// Logs what starts here, and what is odd about its environment. It is the first thing that is logged.
fn log_start(config: &Config, grpc: &str, admin: &str) {
    let tls = match (&config.tls_cert, config.client_auth()) {
        (None, _) => "off",
        (Some(_), ClientAuth::None) => "on",
        (Some(_), ClientAuth::Optional) => "on, client certificates optional",
        (Some(_), ClientAuth::Required) => "on, client certificates required",
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        name = config.name,
        store = %config.store,
        grpc,
        admin,
        tls,
        admin_tls = if config.admin_tls { "on" } else { "off" },
        "starting"
    );
    for warning in warnings() {
        tracing::warn!("{warning}");
    }
}

/// Reads the configuration anew at each signal.
async fn reload_at(mut hangup: Signal, mut reloader: Reloader) {
    while hangup.recv().await.is_some() {
        service_manager::reloading();
        let read = match from_command_line() {
            Ok(Action::Serve(config)) => Ok(*config),
            // The flags are those that it serves with.
            Ok(_) => continue,
            Err(errors) => Err(errors),
        };
        reloader.apply(read);
        service_manager::ready();
    }
}

/// Says where the coordinator serves, on one line that programs can read, and what to try.
fn announce(config: &Config, grpc: &str, admin: &str) -> io::Result<()> {
    let (trust, curl_trust) = match (&config.tls_cert, config.client_auth()) {
        (None, _) => ("-plaintext", ""),
        (Some(_), ClientAuth::None) => ("-cacert CA.pem", "--cacert CA.pem "),
        (Some(_), _) => (
            "-cacert CA.pem -cert CLIENT.pem -key CLIENT.key",
            "--cacert CA.pem --cert CLIENT.pem --key CLIENT.key ",
        ),
    };
    let scheme = |encrypted| if encrypted { "https" } else { "http" };
    let admin_scheme = scheme(config.admin_tls);
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "leasehold-server{build} listening on grpc={grpc} admin={admin} store={}\n\
         try: leasehold --endpoint {api}://{grpc} run my-lock -- echo got it\n     \
         curl {curl_trust}-H 'content-type: application/json' -d '{{\"name\": \"my-lock\"}}' {api}://{grpc}/leasehold.v1.LockService/Acquire\n     \
         grpcurl {trust} -d '{{\"name\": \"my-lock\"}}' {grpc} leasehold.v1.LockService/Acquire\n     \
         curl {admin_scheme}://{admin}/metrics",
        config.store,
        build = if cfg!(debug_assertions) {
            " (built quickly, not optimized)"
        } else {
            ""
        },
        api = scheme(config.tls_cert.is_some()),
    )?;
    if config.page {
        writeln!(
            out,
            "see: {admin_scheme}://{admin}/page/ in a browser shows locks, queues and events live"
        )?;
    }
    if config.listen.ip().to_canonical().is_loopback() {
        writeln!(
            out,
            "note: only programs on this host, or in this container, reach it; to serve others, set --listen 0.0.0.0:7420 with \
             --tls-cert and --tls-key, or with --insecure if the network is trusted"
        )?;
    }
    out.flush()
}

/// Prints the outcome of a command.
fn answer(outcome: Result<String, impl Display>) -> ExitCode {
    match outcome {
        Ok(said) => print(&format!("{said}\n")),
        Err(error) => {
            complain(&format!("leasehold-server: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the requested text on stdout.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Says what went wrong, on stderr.
fn complain(message: &str) {
    // Nobody is left to be told if stderr is gone.
    let _ = writeln!(io::stderr(), "{}", message.trim_end());
}
