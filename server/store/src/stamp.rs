//! Stamp of a file, by which a change of it is recognized.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// The state of a file, to be compared with its state later: another one, where the file was written, or another took its place.
/// With the time of its last change of any kind, as a file that becomes readable has no other time of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of a file as it is now; `None` if it can't be looked at.
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
