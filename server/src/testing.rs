//! A coordinator for the unit tests of programs that use one: the whole of it, in the test's process, with its locks in memory.

use std::{ffi::OsString, io, time::Duration};

use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Listeners,
    config::{Action, Config},
    run::{RunError, run},
};

/// A coordinator on a free port of loopback. It ends, with all its locks, when it is dropped or the runtime of the test ends.
///
/// It keeps every rule: exclusion, order, rising tokens, deadlines. An operator's call takes a lock from its holder, so that
/// a test can see what the program does then.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold_proto::v1::{
///     AcquireOutcome, AcquireRequest, lock_service_client::LockServiceClient,
/// };
/// use leasehold_server::testing::Coordinator;
///
/// let coordinator = Coordinator::start().await?;
/// let mut locks = LockServiceClient::connect(coordinator.endpoint().to_owned()).await?;
/// let request = AcquireRequest { name: "a".into(), ..Default::default() };
/// assert_eq!(locks.acquire(request).await?.into_inner().outcome(), AcquireOutcome::Granted);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Coordinator {
    endpoint: String,
    _shutdown: DropGuard,
    _task: JoinHandle<Result<(), RunError>>,
}

impl Coordinator {
    /// Starts one. Must be called within a Tokio runtime, which then runs it.
    ///
    /// # Errors
    ///
    /// If it can't listen.
    pub async fn start() -> io::Result<Self> {
        let arguments = ["leasehold-server", "--store", "memory:"].map(OsString::from);
        let Ok(Action::Serve(mut config)) = Config::from_args(arguments, |_| None) else {
            return Err(io::Error::other("the default configuration does not serve"));
        };
        // Nobody is to be waited for when it is dropped.
        config.drain_timeout = Duration::from_millis(1);
        let listeners = Listeners {
            grpc: TcpListener::bind(("127.0.0.1", 0)).await?,
            admin: TcpListener::bind(("127.0.0.1", 0)).await?,
        };
        let endpoint = format!("http://{}", listeners.grpc.local_addr()?);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(*config, listeners, shutdown.clone()));
        Ok(Self {
            endpoint,
            _shutdown: shutdown.drop_guard(),
            _task: task,
        })
    }

    /// Returns the URL to connect to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
