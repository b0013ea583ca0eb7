//! Files that are read again when they have changed.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use crate::error::CredentialsError;

/// A file that changed less than this before it was read may change again without a newer time: file systems keep times
/// in steps.
const UNSETTLED: Duration = Duration::from_secs(1);

/// Value made from files. It is made anew when one of them has changed. If it can't be made then, for example because a file is
/// half written, it stays as it was.
pub(super) struct FromFiles<T> {
    paths: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<T, CredentialsError> + Send + Sync>,
    made: Mutex<Made<T>>,
}

struct Made<T> {
    value: T,
    /// Number of times that it was made anew.
    version: u64,
    /// Stamps of the files that it was last made of, or could not be made of.
    stamps: Vec<Option<Stamp>>,
    settled: bool,
}

/// Stamp by which a change of a file is recognized, even if another file takes its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl<T: Clone + PartialEq> FromFiles<T> {
    /// Makes it for the first time.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        make: impl Fn() -> Result<T, CredentialsError> + Send + Sync + 'static,
    ) -> Result<Self, CredentialsError> {
        // Before they are read: what changes in between is read again.
        let (stamps, settled) = look(&paths);
        let value = make()?;
        Ok(Self {
            paths,
            make: Box::new(make),
            made: Mutex::new(Made {
                value,
                version: 0,
                stamps,
                settled,
            }),
        })
    }

    /// Returns the value for the files as they are now.
    pub(super) fn current(&self) -> T {
        self.looked().value.clone()
    }

    /// Returns a number that rises whenever another value is made from the files.
    pub(super) fn version(&self) -> u64 {
        self.looked().version
    }

    fn looked(&self) -> MutexGuard<'_, Made<T>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_again(&mut made);
        made
    }

    fn look_again(&self, made: &mut Made<T>) {
        let (stamps, settled) = look(&self.paths);
        if stamps == made.stamps && made.settled {
            return;
        }
        let is_news = stamps != made.stamps;
        made.stamps = stamps;
        made.settled = settled;
        match (self.make)() {
            Ok(value) if value == made.value => {}
            Ok(value) => {
                made.value = value;
                made.version += 1;
            }
            Err(error) if is_news => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a file has changed and can't be used: what was read before stays in use"
            ),
            Err(_) => {}
        }
    }
}

fn look(paths: &[PathBuf]) -> (Vec<Option<Stamp>>, bool) {
    let now = SystemTime::now();
    let mut settled = true;
    let stamps = paths.iter().map(|path| {
        let metadata = fs::metadata(path).ok()?;
        let age = |modified| now.duration_since(modified).unwrap_or_default();
        settled &= metadata
            .modified()
            .is_ok_and(|modified| age(modified) >= UNSETTLED);
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    });
    let stamps = stamps.collect();
    (stamps, settled)
}

/// Reads a whole file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    fs::read(path).map_err(|source: io::Error| CredentialsError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(path: &Path) -> FromFiles<u32> {
        let from = path.to_owned();
        let make = move || {
            let text = String::from_utf8(read(&from)?).unwrap();
            text.parse().map_err(|_| CredentialsError::Invalid {
                what: "the number".to_owned(),
                why: text,
            })
        };
        FromFiles::new(vec![path.to_owned()], make).unwrap()
    }

    #[test]
    fn changed_files_are_read_again_and_invalid_ones_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let number = number(&path);
        assert_eq!((number.current(), number.version()), (1, 0));
        // Of the same length, and within the same step of the file system's clock.
        fs::write(&path, "2").unwrap();
        assert_eq!((number.current(), number.version()), (2, 1));
        fs::write(&path, "x").unwrap();
        assert_eq!((number.current(), number.version()), (2, 1));
        fs::remove_file(&path).unwrap();
        assert_eq!((number.current(), number.version()), (2, 1));
        let other = directory.path().join("other");
        fs::write(&other, "3").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!((number.current(), number.version()), (3, 2));
        // The same again is nothing new.
        fs::write(&path, "3").unwrap();
        assert_eq!((number.current(), number.version()), (3, 2));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let path = PathBuf::from("/nonexistent/token");
        let from = path.clone();
        let error = FromFiles::new(vec![path], move || read(&from))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "could not read /nonexistent/token");
    }
}
