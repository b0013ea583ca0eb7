//! What is asked without a session: single calls, and streams that tell what happens.

use std::{sync::Arc, time::Duration};

use tonic::{Request, transport::Channel};

use crate::{error::ConnectError, settings::Settings};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The channels for it, which connect when they are first used, and again when needed. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    single: Channel,
    watching: Channel,
}

impl Calls {
    /// Must be called within a Tokio runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, ConnectError> {
        Ok(Self(Arc::new(Inner {
            single: settings.endpoint()?.connect_lazy(),
            watching: settings.watch_endpoint()?.connect_lazy(),
            settings: Arc::new(settings),
        })))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0.settings
    }

    /// For single calls.
    pub(crate) fn channel(&self) -> Channel {
        self.0.single.clone()
    }

    /// For streams that tell what happens. One that is not read never holds up another, nor a single call.
    pub(crate) fn watching(&self) -> Channel {
        self.0.watching.clone()
    }
}

/// A single call, which is given up after a while.
pub(crate) fn limited<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
