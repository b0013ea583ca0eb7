//! Reload of the configuration: the faults of a new one, and the changes that take effect.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    access, audit,
    config::{Changes, Config, unreadable},
    follow::Reload,
    tls,
};

/// The sender of configurations to all parts of the coordinator that follow them.
#[derive(Debug)]
pub struct Reloader {
    /// The configuration that settings without a follower keep.
    started_with: Arc<Config>,
    now: watch::Sender<Arc<Config>>,
}

impl Reloader {
    /// Puts the first configuration in force, and returns the handle with which the coordinator follows it.
    #[must_use]
    pub fn start(config: Config) -> (Self, Reload) {
        let started_with = Arc::new(config);
        let (now, reload) = watch::channel(Arc::clone(&started_with));
        (Self { started_with, now }, Reload::new(reload))
    }

    /// Puts a configuration in force, and logs what it changes. Refuses it as a whole, with an error in the log for each fault, if
    /// something is wrong with it or with the files that it names. Also refuses a configuration that would admit everybody who can
    /// reach this coordinator from another machine, as a file that was emptied or half written may say.
    ///
    /// Returns whether the configuration is in force.
    pub fn apply(&mut self, read: Result<Config, Vec<String>>) -> bool {
        let checked = read.and_then(|config| {
            let mut wrong = check_files(&config);
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

    /// Returns why a configuration must not take effect, if it no longer asks callers for an identity and other machines reach this
    /// coordinator. The address is the one on which the coordinator listens, whatever the configuration says of the next start.
    fn opens_to_all(&self, config: &Config) -> Option<String> {
        let listen = self.started_with.listen;
        let opens = self.now.borrow().asks_who_calls() && !config.asks_who_calls();
        (opens && !listen.ip().to_canonical().is_loopback()).then(|| {
            format!(
                "token-file, jwt-keys and tls-client-ca are all unset: without an identity, every caller that can reach {listen} could \
                 do everything; set one of them, or restart the coordinator to accept that"
            )
        })
    }
}

/// Reads every file that the configuration names in the way in which the coordinator reads it to serve, and keeps nothing of it.
/// Returns every fault, each with the setting that names the file. It is a fault too if the store uses TLS without `store-ca`, and
/// this machine has no trusted authorities.
#[must_use]
pub fn check_files(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    let store = config.store_tls();
    if !store.is_empty() || config.store.wants_tls() {
        let faults = store.check();
        wrong.extend(faults.iter().map(|error| {
            format!("failed to use the files of store-ca, store-cert and store-key: {error}")
        }));
    }
    wrong.extend(alone(config));
    wrong.extend(tls::check(config));
    wrong.extend(access::check(config));
    wrong.extend(audit::check(config));
    wrong
}

/// Returns the fault of a file of `store-cert` or `store-key` that can't be read, if the other setting is missing. The coordinator
/// uses the two only together.
fn alone(config: &Config) -> Option<String> {
    let (setting, path) = match (&config.store_cert, &config.store_key) {
        (Some(path), None) => ("store-cert", path),
        (None, Some(path)) => ("store-key", path),
        _ => return None,
    };
    let error = std::fs::read(path).err()?;
    Some(unreadable(setting, path, None, error))
}

#[cfg(test)]
mod tests {
    use super::Reloader;
    use crate::config::Config;

    #[tokio::test]
    async fn a_wrong_configuration_is_refused_as_a_whole() {
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
    async fn callers_stop_showing_identities_only_on_loopback() {
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
        // The address of the new configuration does not count until a restart.
        for listen in [[0, 0, 0, 0], [192, 0, 2, 1]] {
            for by in [tokens, authority] {
                let started = asks(listen, by);
                let (mut reloader, reload) = Reloader::start(started.clone());
                assert!(!reloader.apply(Ok(Config::default())));
                assert!(!reloader.apply(Ok(asks(listen, |_| {}))));
                assert_eq!(*reload.current(), started);
                // A configuration that asks for another proof is accepted.
                let other = asks(listen, tokens);
                assert!(reloader.apply(Ok(other.clone())));
                assert_eq!(*reload.current(), other);
                assert!(!reloader.apply(Ok(Config::default())));
            }
        }
        // A coordinator that never asked keeps accepting everybody.
        let (mut reloader, _) = Reloader::start(asks([0, 0, 0, 0], |_| {}));
        assert!(reloader.apply(Ok(Config::default())));
        let (mut reloader, _) = Reloader::start(asks([127, 0, 0, 1], tokens));
        assert!(reloader.apply(Ok(asks([0, 0, 0, 0], |_| {}))));
    }
}
