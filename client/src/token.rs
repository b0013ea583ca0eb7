//! Fencing tokens: numbers that rise with every grant of a name.

use std::fmt;

use crate::proto::FromWire;

/// A number that rises with every grant of a lock's name.
///
/// Pass it to whatever the lock protects, and let that refuse a number smaller than the largest it has seen: then a
/// holder that was paused and does not know yet that it lost the lock can do no harm.
///
/// ```
/// use leasehold_client::FencingToken;
///
/// let (older, newer) = (FencingToken::from(41), FencingToken::from(42));
/// assert!(newer > older);
/// assert_eq!(newer.to_string(), "42");
/// assert_eq!(i64::from(newer), 42);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Returns the number itself: positive, below 2^53 in practice.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for FencingToken {
    fn from(token: i64) -> Self {
        Self(token)
    }
}

impl FromWire<i64> for Option<FencingToken> {
    fn from_wire(wire: i64) -> Self {
        (wire != 0).then_some(FencingToken(wire))
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
