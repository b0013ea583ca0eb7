//! Origins of web pages: a list, or all.

use std::{fmt, str::FromStr};

use url::{Host, Url};

/// Error of a text that is no list of origins.
const EXPECTED: &str = "expected origins such as https://app.example or http://localhost:3000, separated by commas, or *";

/// Origins: scheme, host and port of web pages, or of what they call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins(Option<Vec<String>>);

impl Origins {
    /// Returns whether the value of a header `Origin` is among them.
    #[must_use]
    pub fn include(&self, origin: &[u8]) -> bool {
        self.0
            .as_ref()
            .is_none_or(|listed| listed.iter().any(|one| one.as_bytes() == origin))
    }

    /// Returns whether one of them is on this host.
    #[must_use]
    pub fn have_host(&self, host: &Host) -> bool {
        let is_on = |origin: &String| {
            let url = Url::parse(origin).ok();
            url.is_some_and(|url| url.host().map(|host| host.to_owned()).as_ref() == Some(host))
        };
        self.0
            .as_ref()
            .is_none_or(|listed| listed.iter().any(is_on))
    }

    /// Returns the list; empty if it is all.
    #[must_use]
    pub fn listed(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl FromStr for Origins {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "*" {
            return Ok(Self(None));
        }
        let origin = |text: &str| {
            let text = text.trim();
            let url = Url::parse(text).ok()?;
            let is_of_web = matches!(url.scheme(), "http" | "https");
            // As browsers send it: in lower case, without a default port and a path.
            (is_of_web && url.origin().ascii_serialization() == text).then(|| text.to_owned())
        };
        let listed: Option<Vec<_>> = text.split(',').map(origin).collect();
        match listed {
            Some(listed) => Ok(Self(Some(listed))),
            None => Err(format!("{EXPECTED}; found {text:?}")),
        }
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("*"),
            Some(listed) => f.write_str(&listed.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_send() {
        let origins: Origins = "https://app.example, http://localhost:3000"
            .parse()
            .unwrap();
        assert_eq!(
            origins.to_string(),
            "https://app.example,http://localhost:3000"
        );
        for (origin, expected) in [
            ("https://app.example", true),
            ("http://localhost:3000", true),
            ("http://app.example", false),
            ("https://app.example:444", false),
            ("https://app.example.evil", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origins.include(origin.as_bytes()), expected, "{origin}");
        }
        let all: Origins = "*".parse().unwrap();
        assert!(all.include(b"https://any.example") && all.include(b"null"));
        for wrong in [
            "",
            ",",
            "app.example",
            "https://app.example/",
            "https://app.example:443",
            "https://App.example",
            "ftp://app.example",
            "null",
            "*,https://app.example",
            "https://user@app.example",
        ] {
            assert!(wrong.parse::<Origins>().is_err(), "{wrong}");
        }
    }
}
