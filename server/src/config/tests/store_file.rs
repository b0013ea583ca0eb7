//! The store's URL from a file of its own.

use std::fs;

use super::{printed, refused, served};

#[test]
fn the_url_is_read_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, "redis://app:hunter2@h/1\n").unwrap();
    let flag = format!("--store-file={}", path.display());
    let config = served(&[&flag], &[]);
    assert_eq!(config.store.expose(), "redis://app:hunter2@h/1");
    assert!(!format!("{config:?}").contains("hunter2"));

    let text = printed(&[&flag, "--print-config"], &[]);
    let line = format!(
        "# store = \"redis://app:***@h/1\" # contents of {}",
        path.display()
    );
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    // What is printed is a file that says the same.
    let printed = folder.path().join("printed.toml");
    fs::write(&printed, text).unwrap();
    let again = served(&["--config", printed.to_str().unwrap()], &[]);
    assert_eq!(again, config);
}

#[test]
fn what_is_wrong_is_told_without_the_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let flag = format!("--store-file={}", path.display());
    for (contents, says) in [
        ("", "on one line"),
        ("redis://:hunter2@h\nredis://:hunter2@i\n", "on one line"),
        ("hunter2", "(contents of "),
        ("redis+sentinel://:hunter2@h", "which master"),
    ] {
        fs::write(&path, contents).unwrap();
        let error = refused(&[&flag], &[]);
        assert!(error.contains(says), "no {says:?} in {error:?}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    fs::write(&path, "redis://h\n").unwrap();
    let error = refused(&[&flag], &[("LEASEHOLD_STORE", "memory:")]);
    assert!(error.contains("are both set"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = refused(&[&flag], &[]);
    assert!(
        error.contains("store-file (flag --store-file): failed to read"),
        "{error}"
    );
    assert!(refused(&["--store-file="], &[]).contains("path of a file"));
}
