//! Options of `doctor`, and its help.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold_doctor::{Place, TlsFiles, check_url};

use crate::{duration::duration, exit::Mistake};

pub(crate) const HELP: &str = "\
Asks every coordinator of --endpoint, and each address of a host name, for its status. With --store
or --store-file, also asks the Redis servers (and sentinels) of the store, logged in as coordinators
are. It changes no data.

Checks whether all can be reached and serve; versions; clocks; persistence, maxmemory-policy,
replicas and min-replicas; the standing of a quorum's masters; the permissions of the caller, and of
the store's user; ends of the certificates of coordinators, of the store's servers, and in the files
that this program is given; limits near their bound; settings that coordinators must share; and
waiters of coordinators that no endpoint leads to. Each finding says what was observed, why it
matters, what to do, and where docs/doctor.md explains it. Callers need the permission `inspect` on
every lock to see all.

Examples:
  leasehold doctor
  leasehold --endpoint a.example,b.example doctor --store-file /etc/leasehold/store
  leasehold doctor --json | jq -r '.findings[].check'

Exit codes:
  0    healthy: no finding, or notes alone
  6    there are errors or warnings
  64   invalid command line, store URL or file
  69   no coordinator is reachable
  77   all refuse the caller's identity or permissions, or a TLS certificate was not accepted";

/// Prefix of keys if no coordinator tells theirs: the server's default.
const KEY_PREFIX: &str = "lock:";
/// Bytes of the longest URL in a file. A longer file is not the one that was meant.
const LONGEST: usize = 64 * 1024;

/// Options of `doctor`.
#[derive(clap::Args, Debug)]
pub(crate) struct DoctorOptions {
    /// URL of the coordinators' store, to check its servers: as for leasehold-server. Other users of the machine can read a
    /// password on the command line: prefer --store-file
    #[arg(long, env = "LEASEHOLD_STORE", value_name = "URL")]
    store: Option<String>,

    /// File with that URL on one line
    #[arg(long, env = "LEASEHOLD_STORE_FILE", value_name = "FILE")]
    #[arg(conflicts_with = "store")]
    store_file: Option<PathBuf>,

    /// PEM file with the CAs that sign the certificates of the store's servers [default: the system's]
    #[arg(long, env = "LEASEHOLD_STORE_CA", value_name = "FILE")]
    store_ca: Option<PathBuf>,

    /// PEM file with the certificate to show to the store's servers
    #[arg(long, env = "LEASEHOLD_STORE_CERT", value_name = "FILE")]
    #[arg(requires = "store_key")]
    store_cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(long, env = "LEASEHOLD_STORE_KEY", value_name = "FILE")]
    #[arg(requires = "store_cert")]
    store_key: Option<PathBuf>,

    /// Prefix of the locks' keys in Redis [default: that of the coordinators]
    #[arg(long, env = "LEASEHOLD_KEY_PREFIX", value_name = "PREFIX")]
    key_prefix: Option<String>,

    /// Time to wait for the answers of coordinators, and for each answer of a server of the store
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub(super) timeout: Duration,
}

impl DoctorOptions {
    /// Returns the URL of the store, if one is given.
    pub(super) fn store(&self) -> Result<Option<String>, Mistake> {
        let url = match (&self.store, &self.store_file) {
            (Some(url), _) => url.clone(),
            (None, None) => return Ok(None),
            (None, Some(path)) => {
                let text = fs::read_to_string(path);
                let path = path.display();
                let text =
                    text.map_err(|error| Mistake(format!("failed to read {path}: {error}")))?;
                let url = text.trim();
                if url.is_empty() || url.len() > LONGEST || url.lines().count() > 1 {
                    let expected = "to hold the store's URL on one line, and nothing else";
                    return Err(Mistake(format!("expected {path} {expected}")));
                }
                url.to_owned()
            }
        };
        check_url(&url).map_err(|error| Mistake(error.to_string()))?;
        Ok(Some(url))
    }

    /// Returns the options that name certificate files for the store, and whether each file has authorities.
    pub(super) fn certificate_files(&self) -> [(&'static str, Option<&Path>, bool); 2] {
        [
            ("--store-ca", self.store_ca.as_deref(), true),
            ("--store-cert", self.store_cert.as_deref(), false),
        ]
    }

    /// Returns the store to examine; `key_prefix` and `acknowledged` are what coordinators told of themselves.
    pub(super) fn place(&self, url: String, key_prefix: Option<&str>, acknowledged: bool) -> Place {
        let key_prefix = self.key_prefix.as_deref().or(key_prefix);
        Place {
            url,
            tls: TlsFiles {
                ca: self.store_ca.clone(),
                identity: self.store_cert.clone().zip(self.store_key.clone()),
            },
            key_prefix: key_prefix.unwrap_or(KEY_PREFIX).to_owned(),
            acknowledged,
            timeout: self.timeout,
        }
    }
}
