//! Files that may be replaced while the coordinator runs: certificates, keys, tokens.

use std::{fmt::Display, path::PathBuf, time::Duration};

use leasehold_store::Stamp;
use tokio::time::{Interval, MissedTickBehavior};

use crate::{access, config::Config, tls};

/// How often files are looked at. Often enough for a test to wait for it; a look costs a system call a file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Notices that files were replaced or written to, by looking at them: that works on every file system, and for the symbolic
/// links that orchestrators swap.
#[derive(Debug)]
pub struct FileWatch {
    /// Each with what it was known by at the last look.
    files: Vec<(PathBuf, Option<Stamp>)>,
    ticks: Interval,
    /// What was found could not be used.
    again: bool,
    /// Why not, as it was told of the files as they are.
    told: Option<String>,
}

impl FileWatch {
    /// Watches these files, as they are now. Must be called within a Tokio runtime.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let files = files.into_iter().map(|path| {
            let seen = Stamp::of(&path);
            (path, seen)
        });
        Self {
            files: files.collect(),
            ticks,
            again: false,
            told: None,
        }
    }

    /// What was read could not be used: at the next look it counts as changed, whatever is found. Why it could not may be over by
    /// then, and not be seen of the files.
    pub fn look_again(&mut self) {
        self.again = true;
    }

    /// The same, because of an error. Tells whether it is news: not the one that was met last, if the files are the same since.
    pub fn failed(&mut self, error: &impl Display) -> bool {
        self.look_again();
        let error = Some(error.to_string());
        let is_news = self.told != error;
        self.told = error;
        is_news
    }

    /// What was read is used: an error after that is news.
    pub fn used(&mut self) {
        self.told = None;
    }

    /// Waits until one of the files is another than when it was looked at last; for ever if there are none. May be dropped at
    /// any point.
    pub async fn changed(&mut self) {
        if self.files.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.ticks.tick().await;
            let again = std::mem::take(&mut self.again);
            let mut changed = false;
            for (path, seen) in &mut self.files {
                let now = Stamp::of(path);
                changed |= now != *seen;
                *seen = now;
            }
            if changed {
                self.told = None;
            }
            if changed || again {
                return;
            }
        }
    }
}

/// Reads every file that the configuration names as it is read to serve, and keeps nothing of it. Returns every fault, each with
/// the setting that names the file. Also tells if this machine has no authorities for a store with TLS that names none.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    let store = config.store_tls();
    if !store.is_empty() || config.store.wants_tls() {
        let faults = store.check();
        wrong.extend(faults.iter().map(|error| {
            format!("failed to use the files of store-ca, store-cert and store-key: {error}")
        }));
    }
    wrong.extend(alone(config));
    wrong.extend(tls::check(config).iter().map(ToString::to_string));
    wrong.extend(access::check(config).iter().map(ToString::to_string));
    wrong
}

/// Tells whether the file of `store-cert` or `store-key` can't be read where the other setting is missing: the two are used
/// together only.
fn alone(config: &Config) -> Option<String> {
    let (setting, path) = match (&config.store_cert, &config.store_key) {
        (Some(path), None) => ("store-cert", path),
        (None, Some(path)) => ("store-key", path),
        _ => return None,
    };
    let error = std::fs::read(path).err()?;
    Some(format!(
        "failed to read {} ({setting}): {error}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use futures_util::FutureExt;

    use super::{FileWatch, LOOK_EVERY};

    #[tokio::test(start_paused = true)]
    async fn writing_replacing_removing_and_swapping_a_link_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let link = folder.path().join("link");
        fs::write(&one, "1").unwrap();
        fs::write(&two, "22").unwrap();
        symlink(&one, &link).unwrap();
        let mut watch = FileWatch::new([link.clone()]);
        // The first look is at once.
        assert!(watch.changed().now_or_never().is_none());

        fs::write(&one, "333").unwrap();
        watch.changed().await;
        fs::remove_file(&link).unwrap();
        watch.changed().await;
        symlink(&two, &link).unwrap();
        watch.changed().await;
        fs::write(folder.path().join("new"), "22").unwrap();
        fs::rename(folder.path().join("new"), &two).unwrap();
        watch.changed().await;
        let unchanged = tokio::time::timeout(LOOK_EVERY * 3, watch.changed()).await;
        assert!(unchanged.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_becomes_readable_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1").unwrap();
        let mut watch = FileWatch::new([file.clone()]);
        assert!(watch.changed().now_or_never().is_none());
        // File systems keep times in steps.
        let changed = || fs::metadata(&file).map(|file| (file.ctime(), file.ctime_nsec()));
        let before = changed().unwrap();
        while changed().unwrap() == before {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let changed = tokio::time::timeout(LOOK_EVERY * 3, watch.changed()).await;
        assert!(changed.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_used_is_looked_at_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = FileWatch::new([folder.path().join("file")]);
        assert!(watch.changed().now_or_never().is_none());
        watch.look_again();
        // Not at once: whoever tries again and again would do nothing else.
        assert!(watch.changed().now_or_never().is_none());
        let changed = tokio::time::timeout(LOOK_EVERY * 2, watch.changed()).await;
        assert!(changed.is_ok());
        let unchanged = tokio::time::timeout(LOOK_EVERY * 3, watch.changed()).await;
        assert!(unchanged.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_told_once_until_there_is_another_or_none_or_the_files_are_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut watch = FileWatch::new([file.clone()]);
        let told = ["a", "a", "b", "a"].map(|error| watch.failed(&error));
        assert_eq!(told, [true, false, true, true]);
        watch.changed().await;
        assert!(!watch.failed(&"a"), "it was only looked at again");
        fs::write(&file, "1").unwrap();
        watch.changed().await;
        assert!(watch.failed(&"a"), "it is another file");
        watch.used();
        assert!(watch.failed(&"a"));
    }
}
