//! Followers of everything that may change while the coordinator runs: the configuration, and the files that it names.

use std::{path::PathBuf, sync::Arc, time::Duration};

use leasehold_store::WatchedFiles;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, sleep},
};

use crate::config::Config;

/// Time between two looks at files. A look costs one system call a file.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time for a writer to complete a file in which a look found a change.
const SETTLES_IN: Duration = Duration::from_millis(50);

/// The configuration in force. Clones follow the same one.
///
/// Each part of the coordinator follows it and applies the settings that it can change. A setting that needs a restart keeps its
/// first value. A configuration that equals the one before counts as a change too, because the files that it names, such as
/// certificates, may differ.
#[derive(Clone, Debug)]
pub struct Reload(watch::Receiver<Arc<Config>>);

impl Reload {
    /// Follows the configurations of a channel.
    #[must_use]
    pub const fn new(configs: watch::Receiver<Arc<Config>>) -> Self {
        Self(configs)
    }

    /// Returns the configuration in force.
    #[must_use]
    pub fn current(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Waits for another configuration than this handle returned last, and returns the newest. Never returns if the
    /// configuration stays as it is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> Arc<Config> {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.0.borrow_and_update())
    }
}

impl From<Config> for Reload {
    /// Makes a configuration that never changes.
    fn from(config: Config) -> Self {
        Self(watch::channel(Arc::new(config)).1)
    }
}

/// Files at which the coordinator looks each second.
#[derive(Debug)]
pub(crate) struct FileWatch {
    pub(crate) files: WatchedFiles,
    ticks: Interval,
}

impl FileWatch {
    /// Watches files from their present state on. Must be called within a Tokio runtime.
    pub(crate) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            files: WatchedFiles::new(paths),
            ticks,
        }
    }

    /// Waits until a file has changed since it was last looked at, or until the next look if the files could not be used.
    /// Never returns if there are no files.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.files.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.ticks.tick().await;
            if self.files.look() {
                // Keeps the change in case this future is dropped during the pause.
                self.files.look_again();
                sleep(SETTLES_IN).await;
                self.files.look();
                return;
            }
        }
    }
}

/// A part of the configuration, with the files that it names.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The configuration in force, as of the last change.
    pub(crate) config: Arc<Config>,
    /// The files that this configuration names.
    pub(crate) watch: FileWatch,
    reload: Reload,
    named: fn(&Config) -> Vec<PathBuf>,
}

impl Sources {
    /// Follows the configuration, and the files that `named` finds in it. A caller that reads the files afterwards misses no
    /// change. Must be called within a Tokio runtime.
    pub(crate) fn new(reload: Reload, named: fn(&Config) -> Vec<PathBuf>) -> Self {
        let config = reload.current();
        Self {
            watch: FileWatch::new(named(&config)),
            config,
            reload,
            named,
        }
    }

    /// Waits until another configuration is in force, or one of the files has changed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            config = self.reload.changed() => {
                self.watch = FileWatch::new((self.named)(&config));
                self.config = config;
            }
            () = self.watch.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use futures_util::FutureExt;
    use tokio::{
        sync::watch,
        time::{advance, timeout},
    };

    use super::{FileWatch, LOOK_EVERY, Reload, Sources};
    use crate::config::Config;

    #[tokio::test(start_paused = true)]
    async fn a_change_of_a_file_is_noticed_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut watch = FileWatch::new([file.clone()]);
        // The first look is at once.
        assert!(watch.changed().now_or_never().is_none());
        fs::write(&file, "1").unwrap();
        watch.changed().await;
        let unchanged = timeout(LOOK_EVERY * 3, watch.changed()).await;
        assert!(unchanged.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_survives_a_wait_that_is_dropped_before_the_file_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut watch = FileWatch::new([file.clone()]);
        fs::write(&file, "1").unwrap();
        assert!(watch.changed().now_or_never().is_none());
        advance(LOOK_EVERY).await;
        watch.changed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_could_not_be_used_are_looked_at_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = FileWatch::new([folder.path().join("file")]);
        assert!(watch.changed().now_or_never().is_none());
        watch.files.failed(&"unusable");
        // Not at once: a caller that reads again and again would do nothing else.
        assert!(watch.changed().now_or_never().is_none());
        let changed = timeout(LOOK_EVERY * 2, watch.changed()).await;
        assert!(changed.is_ok());
        let unchanged = timeout(LOOK_EVERY * 3, watch.changed()).await;
        assert!(unchanged.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_files_of_another_configuration_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let names = |path: &std::path::Path| {
            Arc::new(Config {
                token_file: Some(path.to_owned()),
                ..Config::default()
            })
        };
        let (sender, configs) = watch::channel(names(&one));
        let named = |config: &Config| config.token_file.clone().into_iter().collect();
        let mut sources = Sources::new(Reload::new(configs), named);
        fs::write(&one, "1").unwrap();
        sources.changed().await;
        sender.send_replace(names(&two));
        sources.changed().await;
        assert_eq!(sources.config.token_file.as_ref(), Some(&two));
        fs::write(&one, "11").unwrap();
        assert!(timeout(LOOK_EVERY * 3, sources.changed()).await.is_err());
        fs::write(&two, "2").unwrap();
        sources.changed().await;
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
