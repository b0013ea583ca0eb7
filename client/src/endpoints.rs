//! The URLs of coordinators, completed as people write them.

use std::fmt;

use tonic::transport::Uri;

/// The port of a coordinator, where an endpoint names none.
pub(crate) const DEFAULT_PORT: u16 = 7420;

/// One coordinator's URL, or those of several that serve the same locks, separated by commas or as a list.
///
/// A name may stand for several coordinators: each address that it resolves to is one. A session begins with any of them,
/// and goes on to the next when one can't be reached, goes away, or falls silent.
///
/// An endpoint without a scheme is an `http://` URL, and the port is 7420 unless the endpoint names one.
///
/// ```
/// use leasehold_client::Endpoints;
///
/// let endpoints = Endpoints::from("http://a.example:7420, http://b.example:7420");
/// assert_eq!(endpoints, Endpoints::from(["a.example:7420", "http://b.example"]));
/// assert_eq!(endpoints.to_string(), "http://a.example:7420,http://b.example:7420");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoints {
    urls: Vec<String>,
    /// The URLs, separated by commas.
    text: String,
}

impl Endpoints {
    fn new(parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut urls = Vec::new();
        for part in parts {
            urls.extend(part.as_ref().split(',').map(|url| completed(url.trim())));
        }
        let text = urls.join(",");
        Self { urls, text }
    }

    /// Returns the URLs, in order, each with its scheme and port. What is not a URL is left as it was given; making a client
    /// of it fails with [`ConnectError::InvalidEndpoint`](crate::ConnectError::InvalidEndpoint).
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the URLs, separated by commas.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns the URL with its missing scheme and port filled in. Leaves text alone that can't become a URL.
fn completed(given: &str) -> String {
    let url = match given.contains("://") {
        true => given.to_owned(),
        false => format!("http://{given}"),
    };
    let Ok(uri) = url.parse::<Uri>() else {
        return given.to_owned();
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return given.to_owned();
    };
    let names_port = authority.as_str() != authority.host();
    if authority.host().is_empty() || names_port || !matches!(scheme, "http" | "https") {
        return url;
    }
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    let path = path.unwrap_or_default();
    format!("{scheme}://{authority}:{DEFAULT_PORT}{path}")
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Endpoints {
    fn from(urls: &str) -> Self {
        Self::new([urls])
    }
}

impl From<String> for Endpoints {
    fn from(urls: String) -> Self {
        Self::new([urls])
    }
}

impl From<&String> for Endpoints {
    fn from(urls: &String) -> Self {
        Self::new([urls])
    }
}

impl<S: AsRef<str>> From<&[S]> for Endpoints {
    fn from(urls: &[S]) -> Self {
        Self::new(urls)
    }
}

impl<S: AsRef<str>> From<Vec<S>> for Endpoints {
    fn from(urls: Vec<S>) -> Self {
        Self::new(urls)
    }
}

impl<S: AsRef<str>, const N: usize> From<[S; N]> for Endpoints {
    fn from(urls: [S; N]) -> Self {
        Self::new(urls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_completed_as_people_write_them() {
        for (given, url) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("127.0.0.1", "http://127.0.0.1:7420"),
            ("localhost:99", "http://localhost:99"),
            ("locks.example", "http://locks.example:7420"),
            ("[::1]", "http://[::1]:7420"),
            ("[::1]:99", "http://[::1]:99"),
            ("http://locks.example", "http://locks.example:7420"),
            ("https://locks.example", "https://locks.example:7420"),
            ("https://locks.example/", "https://locks.example:7420/"),
            ("https://locks.example:443", "https://locks.example:443"),
            ("http://[::1]:7421/x", "http://[::1]:7421/x"),
            ("HTTP://locks.example", "http://locks.example:7420"),
            // What can't be completed stays as it is, for the error to show.
            ("", ""),
            ("not a url", "not a url"),
            ("http://", "http://"),
            ("ftp://locks.example", "ftp://locks.example"),
            ("http://locks.example:x", "http://locks.example:x"),
        ] {
            assert_eq!(Endpoints::from(given).as_str(), url, "{given}");
        }
        let several = Endpoints::from("a, https://b ,c:1");
        let expected = ["http://a:7420", "https://b:7420", "http://c:1"];
        assert_eq!(several.urls(), expected);
    }
}
