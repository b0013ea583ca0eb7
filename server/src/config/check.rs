//! Contradictions between settings.

use std::net::SocketAddr;

use super::{
    ConfigError,
    cli::Draft,
    settings::{SETTINGS, position},
};

/// Notes settings that are right one by one and wrong together.
pub(super) fn check(draft: &mut Draft) {
    let config = &draft.config;
    let mut errors = Vec::new();
    let mut contradiction = |message: String| errors.push(ConfigError::Contradiction { message });
    let told = |name: &str| {
        position(name).map_or_else(String::new, |place| {
            let value = (SETTINGS[place].show)(config).unwrap_or_default();
            format!("{name} is {value} ({})", draft.origins[place])
        })
    };

    for (smaller, larger, wrong) in [
        (
            "min-ttl",
            "default-ttl",
            config.min_ttl > config.default_ttl,
        ),
        (
            "default-ttl",
            "max-ttl",
            config.default_ttl > config.max_ttl,
        ),
    ] {
        if wrong {
            contradiction(format!(
                "{} and {}; expected {smaller} to be at most {larger}",
                told(smaller),
                told(larger)
            ));
        }
    }
    if !config.insecure {
        for (name, address) in [
            ("listen", config.listen),
            ("admin-listen", config.admin_listen),
        ] {
            if beyond_loopback(address) {
                contradiction(format!(
                    "{}, which other machines can reach, and nothing would be encrypted; listen on loopback (127.0.0.1 or \
                     [::1]), or say --insecure if that network is trusted",
                    told(name)
                ));
            }
        }
    }
    if config.listen == config.admin_listen && config.listen.port() != 0 {
        contradiction(format!(
            "{} and {}; expected two addresses",
            told("listen"),
            told("admin-listen")
        ));
    }
    if config.store_ca.is_some() && !config.store.wants_tls() {
        contradiction(format!(
            "{} and {}; certificates are used with a rediss: or rediss+…: store only",
            told("store-ca"),
            told("store")
        ));
    }
    let scheme = config.store.scheme();
    if config.min_replicas > 0 && (scheme == "memory" || scheme.ends_with("+quorum")) {
        contradiction(format!(
            "{} and {}; there are no replicas that could acknowledge anything",
            told("min-replicas"),
            told("store")
        ));
    }
    if config.quorum_bootstrap && !scheme.ends_with("+quorum") {
        contradiction(format!(
            "{} and {}; a first start is declared of a redis+quorum: store only",
            told("quorum-bootstrap"),
            told("store")
        ));
    }
    // Read as the store will read it, so that what is wrong is told before anything is served. Certificates are only looked
    // at when it is opened.
    if let Err(wrong) = leasehold_store::check_url(config.store.expose())
        && let Some(place) = position("store")
    {
        errors.push(ConfigError::BadValue {
            setting: "store",
            origin: draft.origins[place].clone(),
            message: wrong.to_string(),
        });
    }
    draft.errors.append(&mut errors);
}

fn beyond_loopback(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
