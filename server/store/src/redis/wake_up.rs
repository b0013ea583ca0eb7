//! Parser of the messages with which scripts wake a coordinator.

use leasehold_core::id::{FencingToken, OwnerId};

use super::keys::Keys;
use crate::store::WakeUp;

/// Digits of a token in a wake-up.
const TOKEN_DIGITS: usize = 20;

/// Reads one: a letter, the owner id, and what follows.
pub(crate) fn parse(message: &[u8], keys: &Keys) -> Option<WakeUp> {
    let (kind, rest) = message.split_first()?;
    let (owner, rest) = rest.split_at_checked(16)?;
    let owner = OwnerId::parse(owner)?;
    match kind {
        b'F' => Some(WakeUp::Forced {
            name: keys.name_of(rest)?,
            owner,
        }),
        b'Q' => Some(WakeUp::ForcedWaiter {
            name: keys.name_of(rest)?,
            owner,
        }),
        b'M' => Some(WakeUp::Resumed {
            name: keys.name_of(rest)?,
            owner,
        }),
        b'G' | b'U' => {
            let (token, key) = rest.split_at_checked(TOKEN_DIGITS)?;
            let token = std::str::from_utf8(token).ok()?.parse().ok()?;
            Some(WakeUp::Granted {
                name: keys.name_of(key)?,
                owner,
                token: FencingToken::new(token),
                of_session: *kind == b'G',
            })
        }
        _ => None,
    }
}
