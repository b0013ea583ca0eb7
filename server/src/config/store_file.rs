//! The store's URL from a file of its own, in which a password is safer than in a flag.

use std::{cmp::Ordering, path::Path};

use super::{Origin, StoreUrl, draft::Draft};

/// Bytes of the longest URL. A longer file is not the one that was meant.
const LONGEST: usize = 64 * 1024;

/// Reads the URL if `store-file` names a file, unless a stronger layer gives the URL itself.
pub(super) fn load(draft: &mut Draft) {
    let Some(path) = draft.config.store_file.clone() else {
        return;
    };
    let (store, file) = (draft.origin("store"), draft.origin("store-file"));
    match store.strength().cmp(&file.strength()) {
        Ordering::Less => {}
        Ordering::Equal => {
            return draft.contradict(&format!(
                "store ({store}) and store-file ({file}) are both set; expected one of them"
            ));
        }
        Ordering::Greater => {
            draft.config.store_file = None;
            draft.origins.remove("store-file");
            return;
        }
    }
    let url = match read(&path) {
        Ok(url) => url,
        Err(message) => return draft.refuse("store-file", file, &message),
    };
    let contents = Origin::Contents(path);
    // The error omits the text, which may contain a password.
    match StoreUrl::parse(&url) {
        Ok(url) => {
            draft.config.store = url;
            draft.origins.insert("store", contents);
        }
        Err(message) => draft.refuse("store", contents, &message),
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
