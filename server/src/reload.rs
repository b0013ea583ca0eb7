//! Configuration in force, and notices of its changes.

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
    /// it is refused as a whole, with an error in the log for each thing that is wrong. So is one that would let everybody in who
    /// can reach this coordinator from another machine: a file that was emptied, or written half, says that, too.
    ///
    /// Returns whether it is in force.
    pub fn apply(&mut self, read: Result<Config, Vec<String>>) -> bool {
        let checked = read.and_then(|config| {
            let mut wrong = files::check(&config);
            wrong.extend(self.opens_to_all(&config));
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

    /// Why a configuration must not take effect that asks nobody who they are any more. The address is the one that is listened
    /// on, whatever the configuration says of the next start.
    fn opens_to_all(&self, config: &Config) -> Option<String> {
        let listen = self.started_with.listen;
        let opens = self.now.borrow().asks_who_calls() && !config.asks_who_calls();
        (opens && !listen.ip().to_canonical().is_loopback()).then(|| {
            format!(
                "token-file, jwt-keys and tls-client-ca are all unset, so that everybody might do everything who can reach {listen}, \
                 and until now callers were asked who they are; set one of them, or restart the coordinator for that"
            )
        })
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
    async fn nobody_is_asked_any_more_who_they_are_on_loopback_alone() {
        let asks = |listen: [u8; 4], by: fn(&mut Config)| {
            let mut config = Config {
                listen: (listen, 7420).into(),
                ..Config::default()
            };
            by(&mut config);
            config
        };
        let tokens: fn(&mut Config) = |config| config.token_file = Some("/dev/null".into());
        let authority: fn(&mut Config) = |config| config.tls_client_ca = Some("ca.pem".into());
        // Beyond loopback, whatever the new configuration says of the address: it does not count until a restart.
        for listen in [[0, 0, 0, 0], [192, 0, 2, 1]] {
            for by in [tokens, authority] {
                let started = asks(listen, by);
                let (mut reloader, reload) = Reloader::start(started.clone());
                assert!(!reloader.apply(Ok(Config::default())));
                assert!(!reloader.apply(Ok(asks(listen, |_| {}))));
                assert_eq!(*reload.current(), started);
                // To ask for something else is no such thing.
                let other = asks(listen, tokens);
                assert!(reloader.apply(Ok(other.clone())));
                assert_eq!(*reload.current(), other);
                assert!(!reloader.apply(Ok(Config::default())));
            }
        }
        // Who never asked goes on so.
        let (mut reloader, _) = Reloader::start(asks([0, 0, 0, 0], |_| {}));
        assert!(reloader.apply(Ok(Config::default())));
        let (mut reloader, _) = Reloader::start(asks([127, 0, 0, 1], tokens));
        assert!(reloader.apply(Ok(asks([0, 0, 0, 0], |_| {}))));
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
