//! The store's URL from a file of its own, in which a password is safer than in a flag.

use std::{cmp::Ordering, path::Path};

use super::{
    ConfigError, Origin,
    draft::Draft,
    settings::{SETTINGS, position},
};

/// Bytes of the longest URL. A longer file is not the one that was meant.
const LONGEST: usize = 64 * 1024;

/// Reads the URL if `store-file` names a file, unless a stronger layer gives the URL itself.
pub(super) fn load(draft: &mut Draft) {
    let (Some(path), Some(store), Some(file)) = (
        draft.config.store_file.clone(),
        position("store"),
        position("store-file"),
    ) else {
        return;
    };
    let origins = &draft.origins;
    match origins[store].strength().cmp(&origins[file].strength()) {
        Ordering::Less => {}
        Ordering::Equal => {
            let message = format!(
                "store ({}) and store-file ({}) are both set; expected one of them",
                origins[store], origins[file]
            );
            return draft.errors.push(ConfigError::Contradiction { message });
        }
        Ordering::Greater => {
            draft.config.store_file = None;
            draft.origins[file] = Origin::Default;
            return;
        }
    }
    match read(&path) {
        // The error omits the text, which may contain a password.
        Ok(url) => match (SETTINGS[store].set)(&mut draft.config, &url) {
            Ok(()) => draft.origins[store] = Origin::Contents(path),
            Err(message) => draft.refuse(store, Origin::Contents(path), message),
        },
        Err(message) => {
            let origin = draft.origins[file].clone();
            draft.refuse(file, origin, message);
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    let url = text.trim();
    if url.is_empty() || url.len() > LONGEST || url.lines().count() > 1 {
        return Err(format!(
            "expected {} to hold the store's URL on one line, and nothing else",
            path.display()
        ));
    }
    Ok(url.to_owned())
}
