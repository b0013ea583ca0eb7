//! Parser of the messages with which scripts wake a coordinator.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::ReleaseRequest,
    id::{FencingToken, OwnerId, ReleaseRequestId},
    name::ReleaseReason,
};

use super::keys::Keys;
use crate::store::WakeUp;

/// Digits of a token in a wake-up.
const TOKEN_DIGITS: usize = 20;
/// Digits of a number of permits in a wake-up.
const PERMITS_DIGITS: usize = 7;

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
        b'A' => {
            let (token, rest) = rest.split_first_chunk()?;
            let (request, key) = release_request(rest)?;
            Some(WakeUp::ReleaseRequested {
                name: keys.name_of(key)?,
                owner,
                token: FencingToken::new(i64::from_be_bytes(*token)),
                request: Arc::new(request),
            })
        }
        b'G' | b'U' | b'g' | b'u' => {
            let (token, key) = rest.split_at_checked(TOKEN_DIGITS)?;
            let has_permits = kind.is_ascii_lowercase();
            let digits = if has_permits { PERMITS_DIGITS } else { 0 };
            let (permits, key) = key.split_at_checked(digits)?;
            Some(WakeUp::Granted {
                name: keys.name_of(key)?,
                owner,
                token: FencingToken::new(number(token)?),
                permits: if has_permits {
                    Some(number(permits)?)
                } else {
                    None
                },
                of_session: kind.eq_ignore_ascii_case(&b'G'),
            })
        }
        _ => None,
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads a request to release, in the format of `lua/request_release.lua`. Returns it, and what follows.
fn release_request(message: &[u8]) -> Option<(ReleaseRequest, &[u8])> {
    let (id, rest) = message.split_first_chunk()?;
    let (within, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (reason, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let within = u64::from_be_bytes(*within);
    let request = ReleaseRequest {
        id: ReleaseRequestId::new(u64::from_be_bytes(*id)),
        reason: ReleaseReason::parse(std::str::from_utf8(reason).ok()?).ok()?,
        within: (within > 0).then(|| Duration::from_millis(within)),
    };
    Some((request, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::packed::release_request as encode;

    #[test]
    fn a_request_to_release_is_read_as_it_was_written() {
        for within in [None, Some(Duration::from_secs(30))] {
            let request = ReleaseRequest {
                id: ReleaseRequestId::new(u64::MAX - 1),
                reason: ReleaseReason::parse("a node goes away: ä").unwrap(),
                within,
            };
            let mut message = Vec::new();
            encode(&mut message, &request).unwrap();
            let length = message.len();
            message.extend_from_slice(b"lock");
            assert_eq!(release_request(&message), Some((request, &b"lock"[..])));
            for length in 0..length {
                assert_eq!(release_request(&message[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn a_reason_out_of_bounds_is_not_read() {
        let mut message = [0; 18].to_vec();
        message[17] = 1;
        message.push(b'\n');
        assert_eq!(release_request(&message), None);
    }
}
