//! A coordinator inside this process.

use std::{thread, time::Duration};

use leasehold_server::{Listeners, config::Config};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::CoordinatorOptions;

/// A coordinator in a thread of this process, with its locks in memory. It ends when it is dropped.
#[derive(Debug)]
pub struct Coordinator {
    endpoint: String,
    admin_endpoint: String,
    shutdown: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
}

impl Coordinator {
    /// Starts a coordinator on free ports. It has a thread and a runtime of its own, so that it can be used from any
    /// other, or from none.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub fn in_process() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let (grpc, admin) = runtime
            .block_on(async { tokio::try_join!(TcpListener::bind(ANY), TcpListener::bind(ANY)) })
            .expect("loopback has free ports");
        let endpoint = |listener: &TcpListener| {
            let address = listener.local_addr().expect("a listener has an address");
            format!("http://{address}")
        };
        let (endpoint, admin_endpoint) = (endpoint(&grpc), endpoint(&admin));
        let shutdown = CancellationToken::new();
        let stopped = shutdown.clone();
        let thread = thread::spawn(move || {
            let mut config = Config::default();
            // Nobody is to be waited for when it is dropped.
            config.drain_timeout = Duration::from_millis(1);
            let listeners = Listeners { grpc, admin };
            let ended = runtime.block_on(leasehold_server::run(config, listeners, stopped));
            ended.expect("the coordinator runs until it is stopped");
        });
        Self {
            endpoint,
            admin_endpoint,
            shutdown,
            thread: Some(thread),
        }
    }

    /// Begins a coordinator that is to run as a process of its own.
    pub fn process() -> CoordinatorOptions {
        CoordinatorOptions::new()
    }

    /// Where it serves gRPC: `http://…`.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Where it serves metrics and probes: `http://…`.
    pub fn admin_endpoint(&self) -> String {
        self.admin_endpoint.clone()
    }
}

const ANY: &str = "127.0.0.1:0";

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let ended = self.thread.take().map(thread::JoinHandle::join);
        if let Some(Err(_)) = ended
            && !thread::panicking()
        {
            panic!("the coordinator panicked");
        }
    }
}
