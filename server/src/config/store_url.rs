//! The store's URL, which may hold a password.

use std::fmt;

/// Where locks are kept: `memory:`, `redis://…` or `rediss://…`. Shown and logged with its password redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Checks that the URL names a store that exists. What follows the scheme is for the store to understand.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // The text itself is not repeated: it may hold a password.
        const EXPECTED: &str = "expected \"memory:\", \"redis://HOST:PORT/DATABASE\" or \"rediss://HOST:PORT/DATABASE\"";
        let url = Self(text.to_owned());
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!(
                "{EXPECTED}, without spaces or control characters (in a password, write them as %20 and the like)"
            ));
        }
        match url.scheme() {
            "memory" if text == "memory:" => Ok(url),
            "redis" | "rediss" => match url.authority() {
                Some(authority) => {
                    let host = &text[authority];
                    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                    if host.is_empty() || host.starts_with(':') {
                        return Err(format!("{EXPECTED}; no host is named"));
                    }
                    Ok(url)
                }
                None => Err(EXPECTED.to_owned()),
            },
            _ => Err(EXPECTED.to_owned()),
        }
    }

    /// The URL as given, password included: for connecting, not for showing.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The part between `//` and the next `/`, `?` or `#`.
    fn authority(&self) -> Option<std::ops::Range<usize>> {
        let start = self.0.find("://")? + 3;
        let rest = &self.0[start..];
        // A stray '/', '?' or '#' in a password must not let its tail be taken for a path and shown: up to the last
        // '@' everything counts as user and password.
        let user = rest.rfind('@').unwrap_or(0);
        let end = rest[user..]
            .find(['/', '?', '#'])
            .map_or(rest.len(), |at| user + at);
        Some(start..start + end)
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self("memory:".to_owned())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(authority) = self.authority() else {
            return f.write_str(&self.0);
        };
        let (before, after) = (&self.0[..authority.start], &self.0[authority.end..]);
        match self.0[authority.clone()].rsplit_once('@') {
            Some((user, host)) => {
                let shown = user.split_once(':').map_or(user, |(user, _)| user);
                let secret = if user.contains(':') { ":***" } else { "" };
                write!(f, "{before}{shown}{secret}@{host}{after}")
            }
            None => f.write_str(&self.0),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::StoreUrl;

    #[test]
    fn passwords_are_redacted() {
        for (url, shown) in [
            ("memory:", "memory:"),
            ("redis://localhost", "redis://localhost"),
            ("redis://h:6379/1", "redis://h:6379/1"),
            ("redis://:hunter2@h:6379", "redis://:***@h:6379"),
            ("rediss://app:hunter2@h/2?x=1", "rediss://app:***@h/2?x=1"),
            ("redis://app:hunt@er2@h/2", "redis://app:***@h/2"),
            ("redis://app:hun/ter2@h/2", "redis://app:***@h/2"),
            ("redis://app:hun?t#er2@h", "redis://app:***@h"),
        ] {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
    }

    #[test]
    fn nonsense_is_refused_without_repeating_it() {
        for url in [
            "",
            "memory",
            "memory:x",
            "redis:",
            "redis://",
            "redis://:hunter2@",
            "redis://:hunter2@:6379",
            "http://:hunter2@h",
            "localhost:6379",
            "redis://a b:hunter2@h",
        ] {
            let error = StoreUrl::parse(url).unwrap_err();
            assert!(error.starts_with("expected"), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
