//! Readers of what a master replies, for the fuzz target `redis_reply`. No part of the API.

use std::time::Duration;

use redis::Value;

use super::{
    record::Record,
    script::{Ask, Found, Said},
};
use crate::measure::Script;

/// Reads a reply in the place of that of each script. Returns the reasons why it was refused.
pub fn read_reply(reply: &Value, nonce: u64) -> Vec<String> {
    let scripts = [
        Script::Propose,
        Script::WriteBack,
        Script::Extend,
        Script::Restore,
        Script::Resume,
        Script::Release,
        Script::Undo,
        Script::Raise,
        Script::ForceRelease,
        Script::RequestRelease,
        Script::SetValue,
        Script::SetCount,
        Script::Look,
    ];
    let mut refused = Vec::new();
    for script in scripts {
        match Ask::new(script).decode(reply.clone(), nonce) {
            Err(garbled) => refused.push(garbled.reason().to_owned()),
            Ok(read) => {
                if let Said::Holds(Found { record, .. }) = read.said {
                    read_record(&record.unwrap_or_default());
                }
            }
        }
    }
    refused
}

/// Reads the record of a name.
///
/// # Panics
///
/// If its grant is not found by its own owner id.
pub fn read_record(bytes: &[u8]) {
    let Some(record) = Record::parse(bytes) else {
        return;
    };
    if let Some(grant) = &record.grant {
        assert_eq!(record.of(grant.owner.as_bytes()), Some(grant));
        for left in [Duration::ZERO, Duration::MAX] {
            let _ = (grant.view(left), grant.edge());
        }
    }
}
