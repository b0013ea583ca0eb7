//! The store's URL, which may contain a password.

use std::fmt;

/// URL of the store: `memory:`, `redis://…`, `redis+sentinel://…`, `redis+cluster://…`, `redis+quorum://…`, or one of the
/// latter with `rediss`. Output and logs show it with its passwords redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Checks the scheme and that a host is named. The store checks the rest.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // The error omits the text, which may contain a password.
        const EXPECTED: &str = "expected \"memory:\", \"redis://HOST:PORT/DATABASE\", \
            \"redis+sentinel://HOST:PORT,HOST:PORT/MASTER-NAME\", \"redis+cluster://HOST:PORT,HOST:PORT\", \
            \"redis+quorum://HOST:PORT,HOST:PORT,HOST:PORT/DATABASE\", or one of the latter with \"rediss\"";
        let url = Self(text.to_owned());
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!(
                "{EXPECTED}, without spaces or control characters (in a password, write them as %20 and the like)"
            ));
        }
        match url.scheme() {
            "memory" if text == "memory:" => Ok(url),
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" | "redis+quorum" | "rediss+quorum" => match url.authority() {
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

    /// Returns the URL with its password, for connecting.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Returns whether the store uses TLS.
    #[must_use]
    pub fn wants_tls(&self) -> bool {
        matches!(
            self.scheme(),
            "rediss" | "rediss+sentinel" | "rediss+cluster" | "rediss+quorum"
        )
    }

    /// Returns the part between `//` and the next `/`, `?` or `#`.
    fn authority(&self) -> Option<std::ops::Range<usize>> {
        let start = self.0.find("://")? + 3;
        let mut rest = &self.0[start..];
        // After a list of hosts, parameters begin at the first question mark, and may contain a password themselves.
        if self.scheme().contains('+') {
            rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        }
        // Everything before the last '@' counts as user and password. Otherwise the tail of a password with a stray '/', '?' or
        // '#' would count as a path, and be shown.
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
        f.write_str(before)?;
        let mut hosts = &self.0[authority];
        if let Some((login, rest)) = hosts.rsplit_once('@') {
            hosts = rest;
            let (user, secret) = match login.split_once(':') {
                Some((user, _)) => (user, ":***"),
                None => (login, ""),
            };
            // A text with one of these is a password that should have been encoded.
            let is_user = !user.contains(['/', '?', '#', '@']);
            write!(f, "{}{secret}@", if is_user { user } else { "***" })?;
        }
        f.write_str(hosts)?;
        let Some((path, parameters)) = after.split_once('?') else {
            return f.write_str(after);
        };
        write!(f, "{path}?")?;
        for (index, parameter) in parameters.split('&').enumerate() {
            let separator = if index == 0 { "" } else { "&" };
            match parameter.split_once('=') {
                Some((name, _)) => write!(f, "{separator}{name}=***")?,
                None => write!(f, "{separator}***")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::StoreUrl;

    #[test]
    fn passwords_are_redacted() {
        for (url, shown) in [
            ("memory:", "memory:"),
            ("redis://localhost", "redis://localhost"),
            ("redis://h:6379/1", "redis://h:6379/1"),
            ("redis://:hunter2@h:6379", "redis://:***@h:6379"),
            ("rediss://app:hunter2@h/2?x=1", "rediss://app:***@h/2?x=***"),
            (
                "redis+sentinel://app:hunter2@h,i:1/m/2?sentinel-user=u&sentinel-password=hunter2",
                "redis+sentinel://app:***@h,i:1/m/2?sentinel-user=***&sentinel-password=***",
            ),
            ("redis+sentinel://h/m?hunter2", "redis+sentinel://h/m?***"),
            (
                "redis+sentinel://h:1/m?sentinel-password=hunt@er2",
                "redis+sentinel://h:1/m?sentinel-password=***",
            ),
            ("redis+sentinel://1/hunter2@h/m", "redis+sentinel://***@h/m"),
            (
                "redis+sentinel://u:1/hunter2@h/m",
                "redis+sentinel://u:***@h/m",
            ),
            (
                "redis+sentinel://u:1?hunter2@h/m",
                "redis+sentinel://u:1?***",
            ),
            ("redis://app:hunt@er2@h/2", "redis://app:***@h/2"),
            ("redis://app:hun/ter2@h/2", "redis://app:***@h/2"),
            ("redis://app:hun?t#er2@h", "redis://app:***@h"),
            (
                "redis+quorum://app:hun,ter2@a,b,c/1?durable=true",
                "redis+quorum://app:***@a,b,c/1?durable=***",
            ),
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
