//! Files that may be replaced while the coordinator runs: certificates, keys, tokens.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Interval, MissedTickBehavior};

use crate::{access, config::Config, tls};

/// How often files are looked at. Often enough for a test to wait for it; a look costs a system call a file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Notices that files were replaced or written to, by looking at them: that works on every file system, and for the symbolic
/// links that orchestrators swap.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<(PathBuf, Seen)>,
    ticks: Interval,
}

/// What tells one state of a file from another; `None` if it can't be looked at.
type Seen = Option<(u64, u64, u64, i64, i64)>;

impl FileWatch {
    /// Watches these files, as they are now. Must be called within a Tokio runtime.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let files = files.into_iter().map(|path| {
            let seen = look(&path);
            (path, seen)
        });
        Self {
            files: files.collect(),
            ticks,
        }
    }

    /// Waits until one of the files is another than when it was looked at last; for ever if there are none. May be dropped at
    /// any point.
    pub async fn changed(&mut self) {
        if self.files.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.ticks.tick().await;
            let mut changed = false;
            for (path, seen) in &mut self.files {
                let now = look(path);
                changed |= now != *seen;
                *seen = now;
            }
            if changed {
                return;
            }
        }
    }
}

/// Reads every file that the configuration names, as they will be read to serve, and says what is wrong, each with the setting
/// that names the file.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    let store = config.store_tls();
    if !store.is_empty()
        && let Err(error) = store.check()
    {
        wrong.push(format!(
            "failed to use what store-ca, store-cert and store-key name: {error}"
        ));
    }
    wrong.extend(tls::check(config).err().map(|error| error.to_string()));
    wrong.extend(access::check(config).iter().map(ToString::to_string));
    wrong
}

/// Looks at what the path leads to.
fn look(path: &Path) -> Seen {
    let of = |file: Metadata| {
        (
            file.dev(),
            file.ino(),
            file.len(),
            file.mtime(),
            file.mtime_nsec(),
        )
    };
    std::fs::metadata(path).ok().map(of)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::{fs, os::unix::fs::symlink};

    use futures_util::FutureExt;

    use super::FileWatch;

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
        let unchanged = tokio::time::timeout(super::LOOK_EVERY * 3, watch.changed()).await;
        assert!(unchanged.is_err());
    }
}
