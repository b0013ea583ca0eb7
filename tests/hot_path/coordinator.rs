//! Coordinators and their clients: allocations in one thread, and the system calls of processes.

use std::collections::BTreeMap;

use leasehold_server::{Config, Listeners, config::Action};
use leasehold_tests::{Coordinator, RedisServer, SystemCalls};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use crate::{
    baseline::Cost,
    cycles::Clients,
    pieces::{CYCLES, cost_of},
};

/// The number of measurements, of which the cheapest counts: timers run beside the cycles.
const TIMES: usize = 6;
/// Clients of a contended name.
const CONTENDERS: usize = 4;

/// Measures a client and a coordinator that keeps its locks in memory, on one thread.
pub(crate) fn in_memory() -> Cost {
    allocations("memory:", 1)
}

/// Measures the same with Redis.
pub(crate) fn on_redis() -> Cost {
    allocations(&RedisServer::start().url(), 1)
}

/// Measures clients that wait for one name.
pub(crate) fn contended() -> Cost {
    allocations(&RedisServer::start().url(), CONTENDERS)
}

fn allocations(store: &str, clients: usize) -> Cost {
    let runtime = runtime();
    let stop = CancellationToken::new();
    let endpoint = runtime.block_on(serve(store, stop.clone()));
    let mut clients = runtime.block_on(Clients::open(&[endpoint], clients));
    let cost = cheapest(|| cost_of(CYCLES, |_| runtime.block_on(clients.cycle())));
    stop.cancel();
    cost
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn cheapest(measure: impl FnMut() -> Cost) -> Cost {
    let costs = std::iter::repeat_with(measure).take(TIMES);
    costs
        .min_by(|one, other| one.sum().total_cmp(&other.sum()))
        .unwrap()
}

/// Starts a coordinator on this thread's runtime; gives where it serves.
async fn serve(store: &str, stop: CancellationToken) -> String {
    let flags = [
        "leasehold-server",
        "--drain-timeout",
        "1ms",
        "--log",
        "off",
        "--store",
        store,
    ];
    let config = match Config::from_args(flags.map(Into::into), |_| None).unwrap() {
        Action::Serve(config) => config,
        other => unreachable!("the flags start no coordinator: {other:?}"),
    };
    let listen = || TcpListener::bind("127.0.0.1:0");
    let listeners = Listeners {
        grpc: listen().await.unwrap(),
        admin: listen().await.unwrap(),
    };
    let endpoint = format!("http://{}", listeners.grpc.local_addr().unwrap());
    tokio::spawn(leasehold_server::run(*config, listeners, stop));
    endpoint
}

/// Measures the calls to the kernel and to Redis of a coordinator with one client.
pub(crate) fn process() -> Cost {
    system_calls(1, 1)
}

/// Measures those of a coordinator whose clients wait for one name.
pub(crate) fn contended_process() -> Cost {
    system_calls(1, CONTENDERS)
}

/// Measures those of two coordinators between which each hand-off crosses.
pub(crate) fn contended_processes() -> Cost {
    system_calls(2, CONTENDERS)
}

fn system_calls(coordinators: usize, clients: usize) -> Cost {
    let runtime = runtime();
    let redis = RedisServer::start();
    let calls = SystemCalls::make();
    let coordinators: Vec<_> = (0..coordinators)
        .map(|_| {
            let options = Coordinator::process().store(redis.url());
            // More threads wake one another, or not.
            calls
                .of(options.arguments(["--worker-threads", "1"]))
                .start()
        })
        .collect();
    let endpoints: Vec<_> = coordinators
        .iter()
        .map(leasehold_tests::CoordinatorProcess::endpoint)
        .collect();
    let mut clients = runtime.block_on(Clients::open(&endpoints, clients));
    let mut connection = redis.connection();
    let mut scripts = || {
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut connection)
            .unwrap();
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let calls = line.and_then(|rest| rest.split(',').next());
        calls.map_or(0.0, |calls| calls.parse::<f64>().unwrap())
    };
    cheapest(|| {
        runtime.block_on(clients.cycle());
        let (calls_before, scripts_before) = (calls.counted(), scripts());
        runtime.block_on(async {
            for _ in 0..CYCLES {
                clients.cycle().await;
            }
        });
        let counted: BTreeMap<_, _> = calls.counted();
        let counts = counted.into_iter().map(|(name, count)| {
            let before = calls_before.get(name).copied().unwrap_or_default();
            (name, (count - before) as f64)
        });
        Cost::new(counts)
            .and(Cost::new([("script calls", scripts() - scripts_before)]))
            .each_of(f64::from(CYCLES))
    })
}
