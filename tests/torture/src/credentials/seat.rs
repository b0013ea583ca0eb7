//! Seat of a client or of the harness: its identity, and the folder with its files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use leasehold_tests::Authority;
use leasehold_torture::shown;

use super::files::put;

/// Place of a client, or of the harness.
pub(super) struct Seat {
    pub(super) proof: Proof,
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

/// Source of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Certificate,
    Token,
    Signed,
}

impl Seat {
    pub(super) fn new(folder: &Path, name: &str, proof: Proof) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("a folder can be made");
        Self {
            proof,
            name: name.to_owned(),
            folder,
        }
    }

    pub(super) fn identity(&self) -> String {
        let source = match self.proof {
            Proof::Certificate => "cert",
            Proof::Token => "token",
            Proof::Signed => "jwt",
        };
        format!("{source}:{}", self.name)
    }

    pub(super) fn hand_certificate(&self, authority: &Authority) {
        let issued = authority.client(&self.name).issue();
        put(&issued, &self.folder, [shown::CERTIFICATE, shown::KEY]);
    }
}
