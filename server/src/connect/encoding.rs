//! Content encodings: gzip, and none.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};

/// Names of the supported encodings, as headers and errors list them.
pub(super) const SUPPORTED: &str = "gzip, identity";
/// Messages with fewer bytes than this are not compressed: it would gain nothing.
const WORTHWHILE: usize = 256;

/// Content encoding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// Reason why a message can't be decompressed.
#[derive(Debug)]
pub(super) enum Undecodable {
    TooLong,
    Broken(io::Error),
}

impl Encoding {
    /// Returns the encoding of this name; that of no name is none.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "" | "identity" => Some(Self::Identity),
            "gzip" => Some(Self::Gzip),
            _ => None,
        }
    }

    /// Returns the name that headers have; `None` without an encoding.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
        }
    }

    /// Returns the encoding of answers: the first supported one that the client accepts. A client that says nothing accepts that
    /// of its request.
    pub(super) fn accepted(accepted: Option<&str>, of_request: Self) -> Self {
        let Some(accepted) = accepted else {
            return of_request;
        };
        let mut offers = accepted.split(',').filter_map(|offer| {
            let mut parts = offer.split(';').map(str::trim);
            let name = parts.next()?;
            let is_excluded = parts.any(|part| {
                let weight = part.strip_prefix("q=").map(str::parse::<f32>);
                matches!(weight, Some(Ok(weight)) if weight == 0.0)
            });
            (!name.is_empty() && !is_excluded).then_some(name)
        });
        offers.find_map(Self::named).unwrap_or(Self::Identity)
    }

    /// Returns a message that had this encoding, if it has at most `limit` bytes. No message decodes to none.
    pub(super) fn decode(self, message: Bytes, limit: usize) -> Result<Bytes, Undecodable> {
        if self == Self::Identity || message.is_empty() {
            return Ok(message);
        }
        let mut decoded = Vec::new();
        // A byte more than permitted shows that there is more, whatever the message says of its length.
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        MultiGzDecoder::new(&*message)
            .take(most)
            .read_to_end(&mut decoded)
            .map_err(Undecodable::Broken)?;
        if decoded.len() > limit {
            return Err(Undecodable::TooLong);
        }
        Ok(decoded.into())
    }

    /// Returns a message in this encoding, or `None` if it stays as it is.
    pub(super) fn encode(self, message: &[u8]) -> Option<Bytes> {
        if self == Self::Identity || message.len() < WORTHWHILE {
            return None;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writes into memory do not fail.
        encoder.write_all(message).ok()?;
        encoder.finish().ok().map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_decode_to_what_they_were() {
        let message = b"leasehold ".repeat(100);
        let encoded = Encoding::Gzip.encode(&message).unwrap();
        assert!(encoded.len() < 100);
        let decoded = Encoding::Gzip.decode(encoded.clone(), 1000).unwrap();
        assert_eq!(decoded, message);
        let too_long = Encoding::Gzip.decode(encoded.clone(), 999);
        assert!(matches!(too_long, Err(Undecodable::TooLong)));
        let cut = encoded.slice(..encoded.len() - 1);
        let broken = Encoding::Gzip.decode(cut, 1000);
        assert!(matches!(broken, Err(Undecodable::Broken(_))));
        assert_eq!(Encoding::Gzip.decode(Bytes::new(), 1).unwrap(), "");
        assert_eq!(Encoding::Identity.encode(&message), None);
        assert_eq!(Encoding::Gzip.encode(b"short"), None);
    }

    #[test]
    fn a_bomb_is_not_unpacked_beyond_the_limit() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..8 {
            encoder.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let bomb = Bytes::from(encoder.finish().unwrap());
        assert!(bomb.len() < 100_000);
        let too_long = Encoding::Gzip.decode(bomb, 1000);
        assert!(matches!(too_long, Err(Undecodable::TooLong)));
    }

    #[test]
    fn answers_have_the_first_encoding_that_is_accepted_and_supported() {
        use Encoding::{Gzip, Identity};
        for (accepted, of_request, expected) in [
            (None, Identity, Identity),
            (None, Gzip, Gzip),
            (Some(""), Gzip, Identity),
            (Some("gzip"), Identity, Gzip),
            (Some("deflate, gzip, br, zstd"), Identity, Gzip),
            (Some("br,gzip;q=0.5"), Identity, Gzip),
            (Some("gzip;q=0, br"), Gzip, Identity),
            (Some("identity, gzip"), Identity, Identity),
            (Some("br"), Gzip, Identity),
            (Some("*"), Identity, Identity),
        ] {
            let chosen = Encoding::accepted(accepted, of_request);
            assert_eq!(chosen, expected, "{accepted:?}");
        }
    }
}
