//! Task that keeps the policy in force in step with the configuration and the files that it names.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Access,
    policy::{Given, Policy},
};
use crate::{
    Liveness,
    audit::Audit,
    follow::{Reload, Sources},
    tls::Tls,
};

impl Access {
    /// Reads the policy of the configuration, and follows the configuration and its files until `stop` is cancelled, in a task
    /// that `liveness` keeps. Files that can't be used are logged, and leave the policy in force as it is.
    ///
    /// # Errors
    ///
    /// Fails if a file can't be read or used.
    pub fn start(
        reload: Reload,
        tls: Option<&Tls>,
        liveness: &Liveness,
        stop: CancellationToken,
    ) -> Result<Self, String> {
        // The watch begins before the files are read, so that no change in between is missed.
        let sources = Sources::new(reload, Policy::files);
        let given = Given {
            trust: tls.map(Tls::clients),
            tokens_from_afar: sources.config.insecure || tls.is_some(),
        };
        let policy = Policy::load(&sources.config, &given, 1)?;
        let (publish, policies) = watch::channel(Arc::new(policy));
        let kept = keep(sources, given, publish);
        let kept = stop.clone().run_until_cancelled_owned(kept);
        tokio::spawn(liveness.keep("keeper of identities", &stop, kept));
        let audit = Audit::default();
        Ok(Self { policies, audit })
    }
}

async fn keep(mut sources: Sources, given: Given, publish: watch::Sender<Arc<Policy>>) {
    let mut trust = given.trust.clone().unwrap_or_default();
    for number in 2.. {
        let revoked = tokio::select! {
            () = sources.changed() => false,
            () = trust.changed() => true,
        };
        match Policy::load(&sources.config, &given, number) {
            Ok(policy) => {
                tracing::info!("reloaded identities and permissions");
                publish.send_replace(Arc::new(policy));
                sources.watch.files.used();
            }
            Err(error) => {
                if sources.watch.files.failed(&error) {
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
