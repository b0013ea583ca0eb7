//! Query of a GET: the message and what headers say otherwise.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use url::form_urlencoded;

/// URL-safe base64, with or without padding.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Parameters of the query that are Connect's; others are ignored. Empty if they are missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// Name of the codec.
    pub(super) encoding: String,
    /// Name of the content encoding.
    pub(super) compression: String,
    /// Version of the protocol.
    pub(super) connect: String,
    message: Option<String>,
    is_base64: bool,
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let mut found = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "encoding" => found.encoding = value,
                "compression" => found.compression = value,
                "connect" => found.connect = value,
                "message" => found.message = Some(value),
                "base64" => found.is_base64 = value == "1",
                _ => {}
            }
        }
        found
    }

    /// Returns the message as a body would have it.
    pub(super) fn message(self) -> Result<Bytes, String> {
        let message = self
            .message
            .ok_or("the query has no parameter `message`; an empty message is message=%7B%7D&encoding=json")?;
        if !self.is_base64 {
            return Ok(message.into());
        }
        let bytes = BASE64.decode(message);
        let bytes = bytes.map_err(|error| format!("`message` is not URL-safe base64: {error}"))?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_text_or_base64() {
        let json = r#"{"a":"b c"}"#;
        for (query, expected) in [
            ("encoding=json&message=%7B%22a%22:%22b%20c%22%7D", json),
            ("message=a+b&x=y&encoding=json", "a b"),
            ("base64=1&message=-_8&encoding=proto&connect=v1", "\u{0}"),
            ("base64=2&message=-_8", "-_8"),
            ("message=", ""),
        ] {
            let message = Query::parse(query).message().unwrap();
            if query.starts_with("base64=1") {
                assert_eq!(&*message, [0xfb, 0xff], "{query}");
            } else {
                assert_eq!(message, expected, "{query}");
            }
        }
        for padded in ["QUI", "QUI%3D", "QUI="] {
            let query = format!("base64=1&message={padded}");
            assert_eq!(Query::parse(&query).message().unwrap(), "AB");
        }
        for query in ["", "encoding=json", "base64=1&message=%7B"] {
            assert!(Query::parse(query).message().is_err(), "{query}");
        }
    }

    #[test]
    fn parameters_come_in_any_order() {
        let query = Query::parse("connect=v1&compression=gzip&message=m&encoding=proto");
        assert_eq!(&*query.connect, "v1");
        assert_eq!(&*query.compression, "gzip");
        assert_eq!(&*query.encoding, "proto");
        assert_eq!(Query::parse("a&b=&&=c"), Query::default());
    }
}
