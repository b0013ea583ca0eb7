//! Files whose changes are noticed by looking at them. That works on every file system, and for the symbolic links that
//! orchestrators swap.

use std::{
    fmt::Display,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Files, each with its state at the last look.
///
/// The caller looks at the files, reads them if they have changed, and reports whether it could use what it read.
#[derive(Debug)]
pub struct WatchedFiles {
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// Whether the next look returns true even if no file has changed.
    is_due: bool,
    /// The error that was last reported of the files in their present state.
    error: Option<String>,
}

/// The state of a file. It differs if the file was written to, or if another file took its place.
///
/// It includes the time of the last change of any kind, because a file that becomes readable has no newer time of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl WatchedFiles {
    /// Watches files from their present state on. A caller that reads them afterwards misses no change.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = paths.into_iter().map(|path| {
            let seen = Stamp::of(&path);
            (path, seen)
        });
        Self {
            files: files.collect(),
            is_due: false,
            error: None,
        }
    }

    /// Returns whether there are no files to watch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Looks at the files. Returns whether they are to be read: one differs from the last look, or they could not be used then.
    pub fn look(&mut self) -> bool {
        let mut changed = false;
        for (path, seen) in &mut self.files {
            let now = Stamp::of(path);
            changed |= now != *seen;
            *seen = now;
        }
        if changed {
            self.error = None;
        }
        std::mem::take(&mut self.is_due) || changed
    }

    /// Makes the next look return true even if no file has changed. What prevented the use of the files may end without a
    /// change that a look could see.
    pub fn look_again(&mut self) {
        self.is_due = true;
    }

    /// Notes that the files can't be used, so that the next look returns true. Returns whether the error is to be reported:
    /// the last one was another, or the files have changed since.
    pub fn failed(&mut self, error: &impl Display) -> bool {
        self.look_again();
        let error = Some(error.to_string());
        let is_new = self.error != error;
        self.error = error;
        is_new
    }

    /// Notes that the files are in use. The next error is reported, whatever it is.
    pub fn used(&mut self) {
        self.error = None;
    }
}

impl Stamp {
    /// Returns the present state of a file, or `None` if the file is missing or out of reach.
    fn of(path: &Path) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::WatchedFiles;

    #[test]
    fn writing_replacing_removing_and_swapping_a_link_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let link = folder.path().join("link");
        fs::write(&one, "1").unwrap();
        fs::write(&two, "22").unwrap();
        symlink(&one, &link).unwrap();
        let mut files = WatchedFiles::new([link.clone()]);
        assert!(!files.look());

        fs::write(&one, "333").unwrap();
        assert!(files.look());
        fs::remove_file(&link).unwrap();
        assert!(files.look());
        symlink(&two, &link).unwrap();
        assert!(files.look());
        fs::write(folder.path().join("new"), "22").unwrap();
        fs::rename(folder.path().join("new"), &two).unwrap();
        assert!(files.look());
        assert!(!files.look());
    }

    #[test]
    fn a_file_that_becomes_readable_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1").unwrap();
        let mut files = WatchedFiles::new([file.clone()]);
        // File systems keep times in steps.
        let changed = || fs::metadata(&file).map(|file| (file.ctime(), file.ctime_nsec()));
        let before = changed().unwrap();
        while changed().unwrap() == before {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        }
        assert!(files.look());
    }

    #[test]
    fn files_that_could_not_be_used_are_read_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = WatchedFiles::new([folder.path().join("file")]);
        assert!(!files.look());
        files.failed(&"a");
        assert!(files.look());
        assert!(!files.look());
    }

    #[test]
    fn an_error_is_reported_once_until_the_error_or_the_files_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut files = WatchedFiles::new([file.clone()]);
        let reported = ["a", "a", "b", "a"].map(|error| files.failed(&error));
        assert_eq!(reported, [true, false, true, true]);
        assert!(files.look());
        assert!(!files.failed(&"a"), "no file has changed");
        fs::write(&file, "1").unwrap();
        assert!(files.look());
        assert!(files.failed(&"a"), "the file has changed");
        files.used();
        assert!(files.failed(&"a"), "the files were in use in between");
    }
}
