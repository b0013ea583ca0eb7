//! The coordinator's configuration: one typed [`Config`], built from flags, environment, a TOML file and defaults, in
//! that order of precedence.
//!
//! Each setting has one name. `store-timeout` is the flag `--store-timeout`, the environment variable
//! `LEASEHOLD_STORE_TIMEOUT` and the key `store-timeout` of the file, and takes the same text in all three. The table in
//! `settings` declares each setting once; `--help` and the commented reference file `leasehold.toml` are made from it. Only
//! these names are read from the environment, because orchestrators set variables that begin alike; [`unknown_variables`] warns
//! of the others.
//!
//! clap reads the command line and toml the file. Both hand on the text of each value with its [`Origin`], and the table reads it,
//! so that all layers have the same rules, every fault is reported at once, and no error shows a password.

mod changes;
mod check;
mod choices;
mod cli;
mod doubts;
mod draft;
mod environment;
mod file;
pub(crate) mod fuzzing;
mod manual;
mod origin;
mod origins;
mod permissions;
mod print;
mod setting;
mod settings;
mod share;
mod store_file;
mod store_url;
#[cfg(test)]
mod tests;
mod value;

use std::{fmt::Display, path::Path};

use leasehold_store::TlsFiles;

pub use changes::Changes;
pub use choices::{ClientAuth, LogFormat};
pub use cli::Action;
pub use doubts::doubts;
pub use environment::unknown_variables;
pub use origin::Origin;
pub use origins::Origins;
pub use settings::Config;
pub use share::Share;
pub use store_url::StoreUrl;

/// The commented reference file: every setting with its meaning and default. It means the same as an empty file.
pub const REFERENCE: &str = include_str!("../../leasehold.toml");

/// Returns the fault of a file that a setting names, in the line counted from 1 if the fault is in one.
pub(crate) fn unreadable(
    setting: &str,
    path: &Path,
    line: Option<usize>,
    fault: impl Display,
) -> String {
    let at = line.map_or_else(String::new, |line| format!(", line {line}"));
    format!("failed to read {} ({setting}){at}: {fault}", path.display())
}

impl Config {
    /// Returns the name of this coordinator that locks and sessions show. `run` distinguishes this start from others.
    pub(crate) fn shown_name(&self, run: &str) -> String {
        format!("{}-{run}", self.name)
    }

    /// Returns whether clients must have a certificate: as `tls-client-auth` says. If it is not set, they must if `tls-client-ca`
    /// is set.
    #[must_use]
    pub fn client_auth(&self) -> ClientAuth {
        match (self.tls_client_auth, &self.tls_client_ca) {
            (Some(auth), _) => auth,
            (None, Some(_)) => ClientAuth::Required,
            (None, None) => ClientAuth::None,
        }
    }

    /// Returns whether the coordinator asks callers for an identity, because the configuration accepts one in some form.
    #[must_use]
    pub const fn asks_who_calls(&self) -> bool {
        self.token_file.is_some() || self.jwt_keys.is_some() || self.tls_client_ca.is_some()
    }

    /// Returns the files for connections to a store with TLS.
    #[must_use]
    pub fn store_tls(&self) -> TlsFiles {
        TlsFiles {
            ca: self.store_ca.clone(),
            identity: self.store_cert.clone().zip(self.store_key.clone()),
        }
    }
}
