//! Task that keeps the policy in force true to the configuration and to the files that it names.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Access, AccessError,
    policy::{Given, Policy},
};
use crate::{Liveness, config::Config, files::FileWatch, reload::Reload, tls::Tls};

/// Time that a file being written gets to be complete.
const SETTLES_IN: Duration = Duration::from_millis(50);

impl Access {
    /// Loads the policy, and follows the configuration and the files that it names until `stop`, in a task that `liveness`
    /// keeps. If a later load fails, the task logs the error, and the policy in force stays.
    ///
    /// # Errors
    ///
    /// If a file can't be read or is malformed.
    pub fn start(
        reload: Reload,
        tls: Option<&Tls>,
        liveness: &Liveness,
        stop: CancellationToken,
    ) -> Result<Self, AccessError> {
        let config = reload.current();
        // The watch begins before the files are read, so that it misses no change.
        let files = FileWatch::new(Policy::files(&config));
        let given = Given {
            trust: tls.map(Tls::clients),
            tokens_from_afar: config.insecure || tls.is_some(),
        };
        let policy = Policy::load(&config, &given, 1)?;
        let (publish, policies) = watch::channel(Arc::new(policy));
        let kept = keep(reload, (config, given), files, publish);
        let kept = stop.clone().run_until_cancelled_owned(kept);
        tokio::spawn(liveness.keep("keeper of identities", &stop, kept));
        Ok(Self { policies })
    }
}

async fn keep(
    mut reload: Reload,
    (mut config, given): (Arc<Config>, Given),
    mut files: FileWatch,
    publish: watch::Sender<Arc<Policy>>,
) {
    let mut trust = given.trust.clone().unwrap_or_default();
    for number in 2.. {
        let mut revoked = false;
        tokio::select! {
            changed = reload.changed() => {
                config = changed;
                files = FileWatch::new(Policy::files(&config));
            }
            () = trust.changed() => revoked = true,
            () = files.changed() => tokio::time::sleep(SETTLES_IN).await,
        }
        match Policy::load(&config, &given, number) {
            Ok(policy) => {
                tracing::info!("reloaded identities and permissions");
                publish.send_replace(Arc::new(policy));
                files.used();
            }
            Err(error) => {
                // A file may become readable without a change that the watch sees.
                if files.failed(&error) {
                    tracing::error!(%error, "identities and permissions stay as they were; the files are looked at again each second");
                }
                // Certificates may have been revoked meanwhile.
                if revoked {
                    publish.send_modify(|policy| *policy = Arc::new(policy.renumbered(number)));
                }
            }
        }
    }
}
