//! Differences between two configurations, and which of them take effect without a restart.

use super::{Config, settings::SETTINGS};

/// The settings that a running coordinator follows. All others keep the value that it was started with; so does whether there is
/// TLS at all.
const FOLLOWED: &[&str] = &[
    "log",
    "tls-cert",
    "tls-key",
    "tls-client-ca",
    "tls-client-auth",
    "tls-client-crl",
    "max-connections",
    "max-connections-per-address",
    "max-sessions",
    "max-sessions-per-identity",
    "max-locks-per-session",
    "max-names-per-acquire",
    "max-waiters-per-name",
    "max-watchers",
    "max-requests-per-second",
    "max-failed-authentications-per-second",
    "max-page-size",
    "token-file",
    "jwt-keys",
    "jwt-issuer",
    "jwt-audience",
    "jwt-identity-claim",
    "trace-sample",
];

/// What the tables of permissions are called among the settings.
const PERMISSIONS: &str = "permission";

/// Which settings differ, by name, in the order of the reference file; the tables of permissions after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that take effect at once.
    pub followed: Vec<&'static str>,
    /// Those that take effect at the next start.
    pub at_next_start: Vec<&'static str>,
}

impl Changes {
    /// What of `other` differs from `config`. That a file has other contents under the same name is no difference.
    #[must_use]
    pub fn between(config: &Config, other: &Config) -> Self {
        let mut changes = Self::default();
        for setting in SETTINGS {
            let same = match setting.name {
                // A password is not shown.
                "store" => config.store == other.store,
                _ => (setting.show)(config) == (setting.show)(other),
            };
            if same {
                continue;
            }
            let turned =
                setting.name == "tls-cert" && config.tls_cert.is_some() != other.tls_cert.is_some();
            if FOLLOWED.contains(&setting.name) && !turned {
                changes.followed.push(setting.name);
            } else {
                changes.at_next_start.push(setting.name);
            }
        }
        if config.permissions != other.permissions {
            changes.followed.push(PERMISSIONS);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::{super::settings::position, *};
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

    #[test]
    fn what_is_followed_is_a_setting() {
        for name in FOLLOWED {
            assert!(position(name).is_some(), "{name}");
        }
    }
}
