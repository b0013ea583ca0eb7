//! Reader of a configuration file's text, for the fuzz target `config`. No part of the API.

use std::path::Path;

use super::{Config, StoreUrl, check::check, draft::Draft, file, print};

/// Reads the text of a file, as a start with `--config` does. Returns the configuration, and what `--print-config` prints of it.
///
/// # Errors
///
/// Fails with everything that is wrong.
pub fn read_file(text: &str) -> Result<(Config, String), Vec<String>> {
    let mut draft = Draft::default();
    file::parse(&mut draft, Path::new("leasehold.toml"), text);
    if draft.errors.is_empty() {
        check(&mut draft);
    }
    if !draft.errors.is_empty() {
        return Err(draft.errors);
    }
    let printed = print::in_force(&draft);
    Ok((draft.config, printed))
}

/// Reads the URL of a store, as a setting or the file `store-file` has it.
///
/// # Errors
///
/// Fails if it is no URL.
pub fn read_url(text: &str) -> Result<StoreUrl, String> {
    StoreUrl::parse(text)
}
