//! The configuration in force, and word of another one.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Config;

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::watch;

    use super::Reload;
    use crate::config::Config;

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
