//! Coordinator with TLS, tokens and permissions, and its description for the clients.

use std::{fs, path::PathBuf};

use leasehold_server::access::tokens::new_token;
use leasehold_tests::{Authority, Coordinator, CoordinatorProcess, certificates::Issued};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Permissions of the clients, and the locks that they are for.
const PERMISSION: &str = r#"
[[permission]]
identities = ["token:shop"]
allow = ["acquire", "inspect"]
locks = ["shop/"]
"#;

/// Coordinator, and files that describe it.
pub(crate) struct Site {
    pub(crate) coordinator: CoordinatorProcess,
    authority: Authority,
    issued: Issued,
    token: String,
    descriptors: PathBuf,
    _folder: TempDir,
}

impl Site {
    /// Starts a coordinator that web pages of these origins may call.
    pub(crate) fn start(origins: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, contents).unwrap();
            path
        };
        let authority = Authority::new("servers");
        let issued = authority.server().issue();
        let printed = new_token("shop").unwrap();
        let (token, line) = printed.trim().split_once('\n').unwrap();
        let mut flags = Vec::from(issued.flags());
        for (flag, name, contents) in [
            ("--token-file", "tokens", line),
            ("--config", "leasehold.toml", PERMISSION),
        ] {
            let path = write(name, contents.as_bytes());
            flags.extend([flag.to_owned(), path.display().to_string()]);
        }
        if !origins.is_empty() {
            flags.extend(["--cors-origins".to_owned(), origins.join(",")]);
        }
        // Two sets are one if they follow each other.
        let errors = tonic_types::pb::FILE_DESCRIPTOR_SET;
        let descriptors = [leasehold_proto::v1::DESCRIPTORS, errors].concat();
        Self {
            coordinator: Coordinator::process().arguments(flags).start(),
            descriptors: write("descriptors", &descriptors),
            authority,
            issued,
            token: token.to_owned(),
            _folder: folder,
        }
    }

    /// Returns what a client needs to know. It may use locks below `prefix`.
    pub(crate) fn described_to(&self, client: &str) -> Value {
        json!({
            "endpoint": self.coordinator.endpoint(),
            "ca": self.authority.ca(),
            "certificate": self.issued.cert,
            "token": self.token,
            "prefix": format!("shop/{client}/"),
            "descriptors": self.descriptors,
        })
    }
}
