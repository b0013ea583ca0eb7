//! A coordinator inside this process.

use std::{ffi::OsString, net::SocketAddr, thread, time::Duration};

use leasehold_server::{
    Listeners,
    config::{Action, Config},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{CoordinatorOptions, Metrics, metrics};
use crate::{raw::PROMPT, wait};

/// A coordinator in a thread of this process. It ends when it is dropped.
#[derive(Debug)]
pub struct Coordinator {
    endpoint: String,
    admin_endpoint: String,
    shutdown: CancellationToken,
    suspensions: mpsc::UnboundedSender<Suspension>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A suspension for so long, and where to say that it is over.
type Suspension = (Duration, oneshot::Sender<()>);

impl Coordinator {
    /// Starts a coordinator on free ports, with its locks in memory. It has a thread and a runtime of its own, so that it
    /// can be used from any other, or from none.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub fn in_process() -> Self {
        Self::in_process_with([] as [&str; 0])
    }

    /// Does the same with flags as for `leasehold-server`: `["--store", "redis://…"]`. It may not be ready yet.
    ///
    /// # Panics
    ///
    /// If it can't listen, or the flags make no sense.
    pub fn in_process_with(flags: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let mut config = configuration(flags);
        // Nobody is to be waited for when it is dropped.
        config.drain_timeout = Duration::from_millis(1);
        let scheme = if config.tls_cert.is_some() {
            "https"
        } else {
            "http"
        };
        let (grpc, grpc_address) = listen();
        let (admin, admin_address) = listen();
        let shutdown = CancellationToken::new();
        let stopped = shutdown.clone();
        let (suspensions, suspend) = mpsc::unbounded_channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be made");
            runtime.spawn(suspend_when_asked(suspend));
            let ended = runtime.block_on(async {
                let listeners = Listeners {
                    grpc: TcpListener::from_std(grpc).expect("a listener can be handed over"),
                    admin: TcpListener::from_std(admin).expect("a listener can be handed over"),
                };
                leasehold_server::run(config, listeners, stopped).await
            });
            ended.expect("the coordinator runs until it is stopped");
        });
        Self {
            endpoint: format!("{scheme}://{grpc_address}"),
            admin_endpoint: format!("http://{admin_address}"),
            shutdown,
            suspensions,
            thread: Some(thread),
        }
    }

    /// Suspends the coordinator as if its machine slept: for that long it does nothing and its timers stand still, while the
    /// clock of its deadlines goes on. Returns when it runs again.
    ///
    /// # Panics
    ///
    /// If the coordinator has ended.
    pub async fn suspend(&self, duration: Duration) {
        let (over, is_over) = oneshot::channel();
        let sent = self.suspensions.send((duration, over));
        sent.expect("the coordinator runs");
        is_over.await.expect("the coordinator runs");
    }

    /// Begins a coordinator that is to run as a process of its own.
    pub fn process() -> CoordinatorOptions {
        CoordinatorOptions::new()
    }

    /// Returns the URL of its gRPC port: `http://…`, or `https://…` if it has a certificate.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Returns the URL of its admin port, for metrics and probes: `http://…`.
    pub fn admin_endpoint(&self) -> String {
        self.admin_endpoint.clone()
    }

    /// Waits until it serves locks.
    ///
    /// # Panics
    ///
    /// If it does not within five seconds.
    pub async fn ready(&self) {
        wait::until("the coordinator to be ready", PROMPT, || {
            metrics::get(self.admin_address(), "/readyz")
        })
        .await;
    }

    /// Its metrics now.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub async fn metrics(&self) -> Metrics {
        Metrics::fetch(self.admin_address()).await
    }

    fn admin_address(&self) -> &str {
        self.admin_endpoint.trim_start_matches("http://")
    }
}

/// Carries suspensions out. The runtime must have no other thread.
async fn suspend_when_asked(mut suspensions: mpsc::UnboundedReceiver<Suspension>) {
    while let Some((duration, over)) = suspensions.recv().await {
        tokio::time::pause();
        thread::sleep(duration);
        tokio::time::resume();
        // The test may not wait for it any more.
        let _ = over.send(());
    }
}

fn configuration(flags: impl IntoIterator<Item = impl Into<OsString>>) -> Config {
    let program = OsString::from("leasehold-server");
    let arguments = std::iter::once(program).chain(flags.into_iter().map(Into::into));
    match Config::from_args(arguments, |_| None) {
        Ok(Action::Serve(config)) => *config,
        other => panic!("these flags start no coordinator: {other:?}"),
    }
}

/// Returns a listener on a free port, bound before there is a runtime, so that clients can connect at once.
fn listen() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let ready = listener.set_nonblocking(true);
    ready.expect("a listener can be made non-blocking");
    let address = listener.local_addr().expect("a listener has an address");
    (listener, address)
}

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
