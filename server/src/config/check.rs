//! Contradictions between settings.

use std::net::SocketAddr;

use super::{
    ClientAuth, Config, ConfigError,
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
        let encrypted = config.tls_cert.is_some();
        for (name, address, encrypted, remedy) in [
            ("listen", config.listen, encrypted, "tls-cert and tls-key"),
            (
                "admin-listen",
                config.admin_listen,
                encrypted && config.admin_tls,
                "tls-cert, tls-key and admin-tls",
            ),
        ] {
            if beyond_loopback(address) && !encrypted {
                contradiction(format!(
                    "{}, which other machines can reach, and nothing would be encrypted; set {remedy}, listen on loopback \
                     (127.0.0.1 or [::1]), or say --insecure if that network is trusted",
                    told(name)
                ));
            }
        }
    }
    for (name, is_set, needed, is_there) in needs(config) {
        if is_set && !is_there {
            contradiction(format!(
                "{} and {needed} is not set; expected both, or neither",
                told(name)
            ));
        }
    }
    if config.tls_client_auth == Some(ClientAuth::None) && config.tls_client_ca.is_some() {
        contradiction(format!(
            "{} and {}; expected optional or required, or no tls-client-ca",
            told("tls-client-auth"),
            told("tls-client-ca")
        ));
    }
    if config.listen == config.admin_listen && config.listen.port() != 0 {
        contradiction(format!(
            "{} and {}; expected two addresses",
            told("listen"),
            told("admin-listen")
        ));
    }
    for (name, file) in [
        ("store-ca", &config.store_ca),
        ("store-cert", &config.store_cert),
        ("store-key", &config.store_key),
    ] {
        if file.is_some() && !config.store.wants_tls() {
            contradiction(format!(
                "{} and {}; certificates are used with a rediss: or rediss+…: store only",
                told(name),
                told("store")
            ));
        }
    }
    if let Some(message) = about_identities(config) {
        contradiction(message);
    }
    let scheme = config.store.scheme();
    if config.min_replicas > 0 && (scheme == "memory" || scheme.ends_with("+quorum")) {
        contradiction(format!(
            "{} and {}; there are no replicas that could acknowledge anything",
            told("min-replicas"),
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

/// What makes no sense without something else: the setting, whether it is set, what it needs, and whether that is there.
fn needs(config: &Config) -> [(&'static str, bool, &'static str, bool); 8] {
    let has_cert = config.tls_cert.is_some();
    let has_ca = config.tls_client_ca.is_some();
    let has_store_cert = config.store_cert.is_some();
    let has_store_key = config.store_key.is_some();
    let asks_clients = config
        .tls_client_auth
        .is_some_and(|auth| auth != ClientAuth::None);
    [
        ("tls-cert", has_cert, "tls-key", config.tls_key.is_some()),
        ("tls-key", config.tls_key.is_some(), "tls-cert", has_cert),
        ("tls-client-ca", has_ca, "tls-cert", has_cert),
        ("tls-client-auth", asks_clients, "tls-client-ca", has_ca),
        (
            "tls-client-crl",
            config.tls_client_crl.is_some(),
            "tls-client-ca",
            has_ca,
        ),
        ("admin-tls", config.admin_tls, "tls-cert", has_cert),
        ("store-cert", has_store_cert, "store-key", has_store_key),
        ("store-key", has_store_key, "store-cert", has_store_cert),
    ]
}

/// What contradicts itself about who may call.
fn about_identities(config: &Config) -> Option<String> {
    let keys = config.jwt_keys.is_some();
    for (name, is_set) in [
        ("jwt-issuer", config.jwt_issuer.is_some()),
        ("jwt-audience", config.jwt_audience.is_some()),
    ] {
        if keys != is_set {
            let (set, missing) = if keys {
                ("jwt-keys", name)
            } else {
                (name, "jwt-keys")
            };
            return Some(format!(
                "{set} is set and {missing} is not; expected jwt-keys, jwt-issuer and jwt-audience together, or none of them"
            ));
        }
    }
    (!config.permissions.is_empty() && !config.asks_who_calls()).then(|| {
        "the file has tables [[permission]], and callers show no identity that they could be for; expected token-file, \
         jwt-keys or tls-client-ca as well"
            .to_owned()
    })
}

fn beyond_loopback(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
