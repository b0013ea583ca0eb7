//! Doubts about a configuration that is right.

use std::path::Path;

use super::Config;

/// Returns a sentence for each thing that an operator hardly wants: callers of whom none may do anything, and secrets that every user
/// of the machine may read or replace.
#[must_use]
pub fn doubts(config: &Config) -> Vec<String> {
    let mut doubts = Vec::new();
    if config.asks_who_calls() && config.permissions.is_empty() {
        doubts.push(
            "callers must show an identity, and no table [[permission]] of the file permits any of them to do anything; add one \
             (docs/access.md)"
                .to_owned(),
        );
    }
    for (setting, path) in [
        ("tls-key", &config.tls_key),
        ("store-key", &config.store_key),
        ("store-file", &config.store_file),
    ] {
        if let Some(path) = path
            && others_may(path, 0o006)
        {
            let path = path.display();
            doubts.push(format!(
                "{path} ({setting}) is a secret, and every user of this machine may read or write it; chmod o= {path}"
            ));
        }
    }
    doubts
}

/// Returns whether users other than the owner and the group have one of these permissions.
#[cfg(unix)]
fn others_may(path: &Path, mode: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.mode() & mode != 0)
}

/// Elsewhere than on Unix, a file's mode does not say who may read it.
#[cfg(not(unix))]
fn others_may(_path: &Path, _mode: u32) -> bool {
    false
}
