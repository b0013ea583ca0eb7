//! URLs with a list of servers, which the URL standard does not cover:
//! `scheme://[user[:password]@]host[:port],host[:port],…[/path][?parameters]`.

use super::{
    StoreUrlError,
    access::{Login, decode},
    hosts::parse_list,
};
use crate::redis::address::Address;

/// Parts of such a URL.
pub(super) struct ListUrl<'a> {
    pub(super) wants_tls: bool,
    pub(super) login: Option<Login>,
    pub(super) hosts: Vec<Address>,
    /// The part after the first slash.
    pub(super) path: &'a str,
    /// The part after the question mark: `name=value` (percent-encoded), joined by `&`.
    pub(super) query: Option<&'a str>,
}

impl<'a> ListUrl<'a> {
    /// Splits a URL that begins with `redis+{kind}:` or `rediss+{kind}:`; `default_port` is the port of hosts that name none.
    pub(super) fn parse(
        url: &'a str,
        kind: &str,
        default_port: u16,
    ) -> Result<Self, StoreUrlError> {
        if url.chars().any(char::is_control) {
            return Err(StoreUrlError::ControlCharacter);
        }
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        let wants_tls = match split_scheme(scheme) {
            Some((wants_tls, of)) if of.eq_ignore_ascii_case(kind) => wants_tls,
            _ => {
                return Err(StoreUrlError::Scheme {
                    scheme: known_scheme(scheme),
                });
            }
        };
        let rest = rest.strip_prefix("//").ok_or(StoreUrlError::NoHost)?;
        if rest.contains('#') {
            return Err(StoreUrlError::Fragment);
        }
        let (rest, query) = split(rest, '?');
        let (authority, path) = split(rest, '/');
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => {
                let (user, password) = split(login, ':');
                (Login::parse(user, password.unwrap_or_default())?, hosts)
            }
            None => (None, authority),
        };
        Ok(Self {
            wants_tls,
            login,
            hosts: parse_list(hosts, default_port)?,
            path: path.unwrap_or_default(),
            query,
        })
    }

    /// Returns the parameters, decoded; fails if one has no value.
    pub(super) fn parameters(
        &self,
        malformed: fn() -> StoreUrlError,
    ) -> impl Iterator<Item = Result<(&'a str, String), StoreUrlError>> + use<'a> {
        let query = self.query.into_iter().flat_map(|query| query.split('&'));
        query.map(move |parameter| {
            let (name, value) = parameter.split_once('=').ok_or_else(malformed)?;
            Ok((name, decode(value, "parameter's value")?))
        })
    }
}

/// Returns the kind of a URL that begins with `redis+kind:` or `rediss+kind:`, in lower case; empty for other URLs.
pub(crate) fn kind_of(url: &str) -> String {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    split_scheme(scheme).map_or_else(String::new, |(_, kind)| kind.to_ascii_lowercase())
}

/// Returns whether `redis+kind` or `rediss+kind` asks for TLS, and the kind.
fn split_scheme(scheme: &str) -> Option<(bool, &str)> {
    let (base, kind) = scheme.split_once('+')?;
    let wants_tls = base.eq_ignore_ascii_case("rediss");
    (wants_tls || base.eq_ignore_ascii_case("redis")).then_some((wants_tls, kind))
}

/// Returns the scheme if it may be shown. A text with other characters is none, and could be a secret.
fn known_scheme(scheme: &str) -> String {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.chars().all(is_scheme) {
        scheme.to_ascii_lowercase()
    } else {
        String::new()
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn kinds_are_told_apart() {
        for (url, kind) in [
            ("redis+sentinel://h/m", "sentinel"),
            ("REDISS+SENTINEL:", "sentinel"),
            ("redis+sentinel:x", "sentinel"),
            ("REDISS+Cluster://a", "cluster"),
            ("rediss+quorum://a,b,c", "quorum"),
            ("redis://h", ""),
            ("sentinel://h", ""),
            ("x+sentinel://h", ""),
            ("", ""),
        ] {
            assert_eq!(kind_of(url), kind, "{url}");
        }
    }
}
