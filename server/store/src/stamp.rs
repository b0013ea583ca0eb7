//! Stamp of a file, by which a change of it is recognized.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Stamp of a file. It differs after the file was written or replaced. It includes the time of the last change of any kind,
/// because a file that becomes readable keeps its time of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the present stamp of a file; `None` if it can't be read.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}
