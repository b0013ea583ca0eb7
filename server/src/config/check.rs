//! Contradictions between settings.

use std::net::SocketAddr;

use super::{ClientAuth, Config, draft::Draft, settings::named};

/// Pairs of settings whose first has no use without the second.
const NEEDS: [(&str, &str); 12] = [
    ("tls-cert", "tls-key"),
    ("tls-key", "tls-cert"),
    ("tls-client-ca", "tls-cert"),
    ("tls-client-auth", "tls-client-ca"),
    ("tls-client-crl", "tls-client-ca"),
    ("admin-tls", "tls-cert"),
    ("store-cert", "store-key"),
    ("store-key", "store-cert"),
    ("jwt-keys", "jwt-issuer"),
    ("jwt-keys", "jwt-audience"),
    ("jwt-issuer", "jwt-keys"),
    ("jwt-audience", "jwt-keys"),
];

/// Notes settings that contradict each other although each is right by itself.
pub(super) fn check(draft: &mut Draft) {
    for message in contradictions(draft) {
        draft.contradict(&message);
    }
    // The store's own reader checks the URL, so that its faults are reported before the coordinator serves. It reads certificates
    // only when it is opened.
    if let Err(wrong) = leasehold_store::check_url(draft.config.store.expose()) {
        draft.refuse("store", draft.origin("store"), &wrong.to_string());
    }
}

fn contradictions(draft: &Draft) -> Vec<String> {
    let config = &draft.config;
    let shown = |name| draft.shown(name);
    let mut found = Vec::new();
    let rejects_clients = config.tls_client_auth == Some(ClientAuth::None);
    let scheme = config.store.scheme();
    let has_replicas = scheme != "memory" && !scheme.ends_with("+quorum");
    for (is_wrong, one, other, expected) in [
        (
            config.min_ttl > config.default_ttl,
            "min-ttl",
            "default-ttl",
            "expected min-ttl to be at most default-ttl",
        ),
        (
            config.default_ttl > config.max_ttl,
            "default-ttl",
            "max-ttl",
            "expected default-ttl to be at most max-ttl",
        ),
        (
            rejects_clients && config.tls_client_ca.is_some(),
            "tls-client-auth",
            "tls-client-ca",
            "expected optional or required, or no tls-client-ca",
        ),
        (
            config.listen == config.admin_listen && config.listen.port() != 0,
            "listen",
            "admin-listen",
            "expected two addresses",
        ),
        (
            config.min_replicas > 0 && !has_replicas,
            "min-replicas",
            "store",
            "there are no replicas that could acknowledge anything",
        ),
    ] {
        if is_wrong {
            found.push(format!("{} and {}; {expected}", shown(one), shown(other)));
        }
    }
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
        if beyond_loopback(address) && !encrypted && !config.insecure {
            found.push(format!(
                "{}, which other machines can reach, and nothing would be encrypted; set {remedy}, listen on loopback \
                 (127.0.0.1 or [::1]), or say --insecure if that network is trusted",
                shown(name)
            ));
        }
    }
    for (name, needed) in NEEDS {
        if is_used(config, name) && !is_used(config, needed) {
            found.push(format!(
                "{} and {needed} is not set; expected both, or neither",
                shown(name)
            ));
        }
    }
    for name in ["store-ca", "store-cert", "store-key"] {
        if is_used(config, name) && !config.store.wants_tls() {
            found.push(format!(
                "{} and {}; certificates are used with a rediss: or rediss+…: store only",
                shown(name),
                shown("store")
            ));
        }
    }
    if !config.permissions.is_empty() && !config.asks_who_calls() {
        found.push(
            "the file has tables [[permission]], but callers show no identity to which they could apply; expected token-file, \
             jwt-keys or tls-client-ca as well"
                .to_owned(),
        );
    }
    found
}

/// Returns whether a setting that may be left out is in use.
fn is_used(config: &Config, name: &str) -> bool {
    match name {
        "admin-tls" => config.admin_tls,
        "tls-client-auth" => config
            .tls_client_auth
            .is_some_and(|auth| auth != ClientAuth::None),
        _ => named(name).is_some_and(|setting| (setting.show)(config).is_some()),
    }
}

fn beyond_loopback(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
