//! TLS settings in force, and the task that follows their files.

use std::{sync::Arc, time::SystemTime};

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    ClientTrust, TlsError,
    load::{Loaded, files, load},
};
use crate::{Liveness, Reload, config::Config, files::FileWatch};

/// TLS settings in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls {
    loaded: watch::Receiver<Arc<Loaded>>,
}

impl Tls {
    /// Reads the certificate files, and follows them and the configuration until `background` is cancelled, in a task that
    /// `liveness` monitors. Each new connection uses the settings in force. If a later load fails, the task logs the error, and
    /// the settings in force stay. Returns `None` if the configuration names no certificate; a change of that needs a restart.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// If the files are not valid.
    pub fn start(
        reload: &Reload,
        liveness: &Liveness,
        background: &CancellationToken,
    ) -> Result<Option<Self>, TlsError> {
        let config = reload.current();
        // The watch begins before the files are read, so that it misses no change.
        let watch = FileWatch::new(files(&config));
        let Some(loaded) = load(&config)? else {
            return Ok(None);
        };
        let (sender, receiver) = watch::channel(Arc::new(loaded));
        let following = follow(reload.clone(), config, watch, sender);
        let following = background.clone().run_until_cancelled_owned(following);
        tokio::spawn(liveness.keep("keeper of certificates", background, following));
        Ok(Some(Self { loaded: receiver }))
    }

    /// Returns the trust in clients' certificates.
    #[must_use]
    pub fn clients(&self) -> ClientTrust {
        ClientTrust::new(self.loaded.clone())
    }

    /// Returns when the first certificate of the served chain expires, if known.
    pub(super) fn expires(&mut self) -> Option<SystemTime> {
        self.loaded.borrow_and_update().expires
    }

    /// Waits until the settings differ from those that [`expires`](Self::expires) read last. May be dropped at any point.
    pub(super) async fn changed(&mut self) {
        if self.loaded.changed().await.is_err() {
            // The task has ended: the coordinator stops.
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

async fn follow(
    mut reload: Reload,
    mut config: Arc<Config>,
    mut watch: FileWatch,
    sender: watch::Sender<Arc<Loaded>>,
) {
    loop {
        tokio::select! {
            changed = reload.changed() => {
                config = changed;
                watch = FileWatch::new(files(&config));
            }
            () = watch.changed() => {}
        }
        match load(&config) {
            Ok(Some(loaded)) => {
                watch.used();
                sender.send_replace(Arc::new(loaded));
                tracing::info!("took the certificates over: new connections are served with them");
            }
            Ok(None) => tracing::warn!(
                "tls-cert is not set any more, which needs a restart: new connections are served as before"
            ),
            Err(error) => {
                // A file may become readable without a change that the watch sees.
                if watch.failed(&error) {
                    tracing::error!(
                        %error,
                        "failed to take changed certificates over: new connections are served as before; the files are looked at again each second"
                    );
                }
            }
        }
    }
}
