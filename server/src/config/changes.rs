//! Differences between two configurations, by whether they need a restart.

use super::{Config, permissions, settings::SETTINGS};

/// Names of the settings that differ, in the order of the reference file; the tables of permissions after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Settings that take effect at once.
    pub followed: Vec<&'static str>,
    /// Settings that take effect at the next start.
    pub at_next_start: Vec<&'static str>,
}

impl Changes {
    /// Returns the settings whose values differ. A file with other contents under the same name is no difference.
    #[must_use]
    pub fn between(config: &Config, other: &Config) -> Self {
        let mut changes = Self::default();
        for setting in SETTINGS
            .iter()
            .filter(|setting| !(setting.is_same)(config, other))
        {
            // TLS as a whole starts and ends with the coordinator.
            let switches_tls =
                setting.name == "tls-cert" && config.tls_cert.is_some() != other.tls_cert.is_some();
            if setting.is_live && !switches_tls {
                changes.followed.push(setting.name);
            } else {
                changes.at_next_start.push(setting.name);
            }
        }
        if config.permissions != other.permissions {
            changes.followed.push(permissions::KEY);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access::rules::Rule, config::StoreUrl};

    #[test]
    fn differences_are_told_apart() {
        let url = |url| StoreUrl::parse(url).unwrap();
        let config = Config {
            store: url("redis://:one@h"),
            ..Config::default()
        };
        let other = Config {
            store: url("redis://:two@h"),
            max_wait: config.max_wait * 2,
            log: "debug".to_owned(),
            ..Config::default()
        };
        let changes = Changes::between(&config, &other);
        assert_eq!(changes.followed, ["log"]);
        assert_eq!(changes.at_next_start, ["store", "max-wait"]);
        assert_eq!(Changes::between(&other, &other), Changes::default());

        let with = |cert: Option<&str>| Config {
            tls_cert: cert.map(Into::into),
            ..Config::default()
        };
        let changes = Changes::between(&with(Some("/a")), &with(Some("/b")));
        assert_eq!(changes.followed, ["tls-cert"]);
        let changes = Changes::between(&with(Some("/a")), &with(None));
        assert_eq!(changes.at_next_start, ["tls-cert"]);
    }

    #[test]
    fn permissions_are_among_what_differs() {
        let mut other = Config::default();
        other.permissions.push(Rule::default());
        for (one, another) in [(&Config::default(), &other), (&other, &Config::default())] {
            let changes = Changes::between(one, another);
            assert_eq!(changes.followed, ["permission"]);
            assert!(changes.at_next_start.is_empty());
        }
    }
}
