//! Lock names, and the bounds of what clients may send.

use std::{fmt, sync::Arc, time::Duration};

use crate::time::InUnits;

/// Most bytes of a lock's name.
pub const MAX_NAME: usize = 512;
/// Most bytes of a value attached to a hold.
pub const MAX_VALUE: usize = 4096;
/// Most bytes of a client's name.
pub const MAX_CLIENT_NAME: usize = 256;
/// Most bytes of a client's name that the record of a released lock keeps: nearly every client has a name, and to remove a short
/// one saves less memory than it costs time (ADR 17).
pub const KEPT_CLIENT_NAME: usize = 64;
/// Most bytes of the reason of a request to release.
pub const MAX_REASON: usize = 256;

/// A lock's name: 1 to 512 bytes of UTF-8 without control characters. Matched whole, never by prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

/// Defect of a text; completes the sentence "the field …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LockName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid("must not be empty".into()));
        }
        check_text(text, MAX_NAME)?;
        Ok(Self(text.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// It compares as the text does: a map of names can be searched by text.
impl std::borrow::Borrow<str> for LockName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that a client gives itself: at most 256 bytes of UTF-8 without control characters, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// Parses a client's name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        check_text(text, MAX_CLIENT_NAME)?;
        Ok(Self(text.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reason that an operator gives for a request to release: at most 256 bytes of UTF-8 without control characters, possibly
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReleaseReason(Arc<str>);

impl ReleaseReason {
    /// Parses a reason.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        check_text(text, MAX_REASON)?;
        Ok(Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Value that a holder attaches to its hold: at most 4 KiB of anything.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Value(Arc<[u8]>);

impl fmt::Debug for Value {
    /// Shows the length alone: the contents are the client's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.0.len())
    }
}

impl Value {
    /// Parses a value.
    pub fn parse(bytes: &[u8]) -> Result<Self, Invalid> {
        if bytes.len() > MAX_VALUE {
            return Err(Invalid(format!(
                "must be at most {MAX_VALUE} bytes, not {}",
                bytes.len()
            )));
        }
        if bytes.is_empty() {
            // Shared: nothing is allocated.
            return Ok(Self::default());
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Leaves at most its first bytes.
    pub fn truncate(&mut self, most: usize) {
        if self.0.len() > most {
            self.0 = self.0[..most].into();
        }
    }
}

/// TTLs that a coordinator accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Shortest.
    pub min: Duration,
    /// TTL used when the client specifies none.
    pub default: Duration,
    /// Longest; also the longest lock-delay.
    pub max: Duration,
}

impl Default for TtlBounds {
    fn default() -> Self {
        Self {
            min: Duration::from_secs(1),
            default: Duration::from_secs(10),
            max: Duration::from_secs(3600),
        }
    }
}

impl TtlBounds {
    /// Checks a TTL that a client asked for.
    pub fn check(&self, ttl: Duration) -> Result<Duration, Invalid> {
        if ttl < self.min || ttl > self.max {
            return Err(Invalid(format!(
                "must be {} to {}, not {}",
                InUnits(self.min),
                InUnits(self.max),
                InUnits(ttl)
            )));
        }
        Ok(ttl)
    }

    /// Checks a lock-delay that a client asked for.
    pub fn check_delay(&self, delay: Duration) -> Result<Duration, Invalid> {
        if delay > self.max {
            return Err(Invalid(format!(
                "must be 0 to {}, not {}",
                InUnits(self.max),
                InUnits(delay)
            )));
        }
        Ok(delay)
    }

    /// Returns the time for which a name's token is remembered after its last grant or renewal: twice the maximum TTL.
    pub fn token_memory(&self) -> Duration {
        self.max * 2
    }
}

fn check_text(text: &str, max: usize) -> Result<(), Invalid> {
    if text.len() > max {
        return Err(Invalid(format!(
            "must be at most {max} bytes, not {}",
            text.len()
        )));
    }
    match text.chars().position(char::is_control) {
        Some(at) => Err(Invalid(format!(
            "must not contain control characters (there is one at character {})",
            at + 1
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        assert!(LockName::parse("").is_err());
        assert!(LockName::parse("a\nb").is_err());
        assert!(LockName::parse("a\u{85}b").is_err());
        assert!(LockName::parse(&"x".repeat(MAX_NAME + 1)).is_err());
        assert!(LockName::parse(&"é".repeat(MAX_NAME / 2)).is_ok());
        assert_eq!(LockName::parse("path/1").map(|n| n.as_str().len()), Ok(6));
    }

    #[test]
    fn ttls_are_bounded() {
        let bounds = TtlBounds::default();
        assert!(bounds.check(Duration::ZERO).is_err());
        assert!(bounds.check(Duration::from_millis(999)).is_err());
        assert!(bounds.check(Duration::from_secs(3601)).is_err());
        assert_eq!(
            bounds.check(Duration::from_secs(7200)),
            Err(Invalid("must be 1s to 1h, not 2h".to_owned()))
        );
        assert!(bounds.check(Duration::from_secs(3600)).is_ok());
        assert!(bounds.check_delay(Duration::ZERO).is_ok());
        assert!(bounds.check_delay(Duration::from_secs(3601)).is_err());
    }
}
