//! Where coordinators are.

use std::fmt;

/// One coordinator's URL, or those of several that serve the same locks, separated by commas or as a list.
///
/// A name may stand for several coordinators: each address that it resolves to is one. A session begins with any of them,
/// and goes on to the next when one can't be reached, goes away, or falls silent.
///
/// ```
/// use leasehold_client::Endpoints;
///
/// let endpoints = Endpoints::from("http://a.example:7420, http://b.example:7420");
/// assert_eq!(endpoints, Endpoints::from(["http://a.example:7420", "http://b.example:7420"]));
/// assert_eq!(endpoints.to_string(), "http://a.example:7420,http://b.example:7420");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoints {
    urls: Vec<String>,
    /// As shown: the URLs, separated by commas.
    text: String,
}

impl Endpoints {
    fn new(parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut urls = Vec::new();
        for part in parts {
            urls.extend(part.as_ref().split(',').map(|url| url.trim().to_owned()));
        }
        let text = urls.join(",");
        Self { urls, text }
    }

    /// The URLs, in order. None of them has been looked at yet: they are checked when a client is made.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The URLs, separated by commas.
    pub fn as_str(&self) -> &str {
        &self.text
    }
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
