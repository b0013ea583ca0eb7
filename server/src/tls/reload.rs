//! TLS settings in force, and the task that keeps them in step with the certificate files.

use std::{sync::Arc, time::SystemTime};

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    ClientTrust,
    load::{Loaded, files, load},
};
use crate::{
    Liveness,
    follow::{Reload, Sources},
};

/// TLS settings in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls {
    loaded: watch::Receiver<Arc<Loaded>>,
}

impl Tls {
    /// Reads the certificate files, and follows them and the configuration until `background` is cancelled, in a task that
    /// `liveness` keeps. Each new connection uses what is in force when it begins. Files that can't be used are logged, and leave
    /// what is in force as it is. Returns `None` if the configuration names no certificate; a change of that needs a restart.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the files can't be used.
    pub fn start(
        reload: &Reload,
        liveness: &Liveness,
        background: &CancellationToken,
    ) -> Result<Option<Self>, String> {
        // The watch begins before the files are read, so that no change in between is missed.
        let sources = Sources::new(reload.clone(), files);
        let Some(loaded) = load(&sources.config)? else {
            return Ok(None);
        };
        let (sender, receiver) = watch::channel(Arc::new(loaded));
        let following = follow(sources, sender);
        let following = background.clone().run_until_cancelled_owned(following);
        tokio::spawn(liveness.keep("keeper of certificates", background, following));
        Ok(Some(Self { loaded: receiver }))
    }

    /// Returns the judge of clients' certificates.
    #[must_use]
    pub fn clients(&self) -> ClientTrust {
        ClientTrust::new(self.loaded.clone())
    }

    /// Returns when the first certificate of the chain in force expires, if the coordinator can tell.
    pub(super) fn expires(&mut self) -> Option<SystemTime> {
        self.loaded.borrow_and_update().expires
    }

    /// Waits until another chain is in force than the one of the last [`expires`](Self::expires).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.loaded.changed().await.is_err() {
            // The following task has ended, because the coordinator ends.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the settings for a new connection of the gRPC port.
    pub(crate) fn grpc(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.borrow().grpc)
    }

    /// Returns the settings for a new connection of the admin port.
    pub(crate) fn admin(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.borrow().admin)
    }
}

async fn follow(mut sources: Sources, sender: watch::Sender<Arc<Loaded>>) {
    loop {
        sources.changed().await;
        match load(&sources.config) {
            Ok(Some(loaded)) => {
                sources.watch.files.used();
                sender.send_replace(Arc::new(loaded));
                tracing::info!("took the certificates over: new connections are served with them");
            }
            Ok(None) => tracing::warn!(
                "tls-cert is not set any more, which needs a restart: new connections are served as before"
            ),
            Err(error) => {
                if sources.watch.files.failed(&error) {
                    tracing::error!(
                        %error,
                        "failed to take changed certificates over: new connections are served as before; the files are looked at again each second"
                    );
                }
            }
        }
    }
}
