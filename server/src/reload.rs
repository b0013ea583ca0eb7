//! The configuration in force, and word of another one.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    config::{Changes, Config},
    files,
};

/// The configuration as it is now. Clones follow the same one.
///
/// Each part of the coordinator that can take a change over follows it for itself, and takes what it can; what needs a restart
/// keeps the value that it was started with. A change is told even where the configuration reads as before: what it names, a
/// certificate or a file of tokens, may be another one.
#[derive(Clone, Debug)]
pub struct Reload(watch::Receiver<Arc<Config>>);

impl Reload {
    /// Follows what is sent.
    #[must_use]
    pub const fn new(configs: watch::Receiver<Arc<Config>>) -> Self {
        Self(configs)
    }

    /// The configuration now.
    #[must_use]
    pub fn current(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Waits for another one; for ever if there will be none. What was told before this handle looked last is not told again,
    /// and of several changes only the last. May be dropped at any point.
    pub async fn changed(&mut self) -> Arc<Config> {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.0.borrow_and_update())
    }
}

impl From<Config> for Reload {
    /// A configuration that stays as it is.
    fn from(config: Config) -> Self {
        Self(watch::channel(Arc::new(config)).1)
    }
}

/// Puts another configuration in force.
#[derive(Debug)]
pub struct Reloader {
    /// What the parts that follow nothing go by.
    started_with: Arc<Config>,
    now: watch::Sender<Arc<Config>>,
}

impl Reloader {
    /// Begins with `config`, which the other half tells of.
    #[must_use]
    pub fn start(config: Config) -> (Self, Reload) {
        let started_with = Arc::new(config);
        let (now, reload) = watch::channel(Arc::clone(&started_with));
        (Self { started_with, now }, Reload::new(reload))
    }

    /// Puts what was read in force, and logs what changes by that. If anything is wrong with it, or with the files that it names,
    /// it is refused as a whole, with an error in the log for each thing that is wrong.
    ///
    /// Returns whether it is in force.
    pub fn apply(&mut self, read: Result<Config, Vec<String>>) -> bool {
        let checked = read.and_then(|config| {
            let wrong = files::check(&config);
            if wrong.is_empty() {
                Ok(config)
            } else {
                Err(wrong)
            }
        });
        let config = match checked {
            Ok(config) => config,
            Err(wrong) => {
                for error in wrong {
                    tracing::error!(
                        %error,
                        "the configuration was not reloaded: the one before stays in force"
                    );
                }
                return false;
            }
        };
        let changed = Changes::between(&self.now.borrow(), &config).followed;
        tracing::info!(
            changed = changed.join(", "),
            "the configuration was reloaded"
        );
        let waiting = Changes::between(&self.started_with, &config).at_next_start;
        if !waiting.is_empty() {
            tracing::warn!(
                settings = waiting.join(", "),
                "settings differ that only take effect when the coordinator is restarted"
            );
        }
        self.now.send_replace(Arc::new(config));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::watch;

    use super::{Reload, Reloader};
    use crate::config::Config;

    #[tokio::test]
    async fn what_is_wrong_is_refused_as_a_whole() {
        let (mut reloader, reload) = Reloader::start(Config::default());
        let other = Config {
            max_sessions: 3,
            ..Config::default()
        };
        assert!(!reloader.apply(Err(vec!["wrong".to_owned()])));
        let nowhere = Config {
            store_ca: Some("/nonexistent/ca.pem".into()),
            ..other.clone()
        };
        assert!(!reloader.apply(Ok(nowhere)));
        assert_eq!(*reload.current(), Config::default());
        assert!(reloader.apply(Ok(other.clone())));
        assert_eq!(*reload.current(), other);
    }

    #[tokio::test]
    async fn the_same_configuration_is_a_change_and_an_end_is_none() {
        let (sender, receiver) = watch::channel(Arc::new(Config::default()));
        let mut reload = Reload::new(receiver);
        assert!(reload.changed().now_or_never().is_none());
        sender.send_replace(Arc::new(Config::default()));
        assert!(reload.changed().now_or_never().is_some());
        let other = Config {
            max_sessions: 3,
            ..Config::default()
        };
        sender.send_replace(Arc::new(other));
        drop(sender);
        assert_eq!(reload.current().max_sessions, 3);
        let last = reload.changed().now_or_never();
        assert_eq!(last.map(|config| config.max_sessions), Some(3));
        assert!(reload.changed().now_or_never().is_none());
    }
}
