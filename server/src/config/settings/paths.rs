//! The settings that name files: certificates, keys, secrets.

use std::path::PathBuf;

use super::{Setting, Shape, put};
use crate::config::{
    ClientAuth,
    value::{boolean, client_auth},
};

/// A setting that names a file.
macro_rules! a_file {
    ($name:literal, $field:ident, $holds:literal, $example:literal, $help:literal) => {
        Setting {
            name: $name,
            shape: Shape::Text,
            value_name: "FILE",
            help: $help,
            set: |config, text| {
                if text.is_empty() {
                    return Err(concat!("expected the path of a file with ", $holds).to_owned());
                }
                config.$field = Some(PathBuf::from(text));
                Ok(())
            },
            show: |config| Some(config.$field.as_ref()?.display().to_string()),
            example: Some($example),
        }
    };
}

pub(super) const TLS_CERT: Setting = a_file!(
    "tls-cert",
    tls_cert,
    "a certificate (PEM)",
    "/etc/leasehold/server.pem",
    "The coordinator's certificate (PEM), followed by those between it and its authority, if any. With it the gRPC port \
     speaks TLS 1.2 and 1.3 only. Like all files of certificates and keys it is read again within seconds when it is \
     replaced; connections that are open go on."
);

pub(super) const TLS_KEY: Setting = a_file!(
    "tls-key",
    tls_key,
    "a private key (PEM)",
    "/etc/leasehold/server.key",
    "The private key (PEM, not encrypted) of tls-cert. Nobody but the coordinator's user should be able to read it."
);

pub(super) const TLS_CLIENT_CA: Setting = a_file!(
    "tls-client-ca",
    tls_client_ca,
    "certificates (PEM)",
    "/etc/leasehold/clients-ca.pem",
    "Authorities (PEM) whose certificates clients identify themselves with. Without it clients are asked for none."
);

pub(super) const TLS_CLIENT_AUTH: Setting = Setting {
    name: "tls-client-auth",
    shape: Shape::Text,
    value_name: "none|optional|required",
    help: "Whether a client must have a certificate of tls-client-ca: required (by default, where tls-client-ca is set) ends \
           the handshake of a client that has none, optional lets it in without one. A certificate that is expired, revoked or \
           of another authority is refused either way. none asks for no certificate, and goes without tls-client-ca.",
    set: |config, text| {
        put(
            &mut config.tls_client_auth,
            client_auth(text).map(Option::Some),
        )
    },
    show: |config| {
        Some(
            match config.tls_client_auth? {
                ClientAuth::None => "none",
                ClientAuth::Optional => "optional",
                ClientAuth::Required => "required",
            }
            .to_owned(),
        )
    },
    example: Some("optional"),
};

pub(super) const TLS_CLIENT_CRL: Setting = a_file!(
    "tls-client-crl",
    tls_client_crl,
    "revocation lists (PEM)",
    "/etc/leasehold/clients-crl.pem",
    "Lists (PEM) of the clients' certificates that were revoked: one of each authority of tls-client-ca, as a certificate \
     whose authority has no list there is refused. A list counts until it is replaced, also beyond the date of its next \
     update."
);

pub(super) const ADMIN_TLS: Setting = Setting {
    name: "admin-tls",
    shape: Shape::Boolean,
    value_name: "true|false",
    help: "Whether the admin port speaks HTTPS, with the certificate of tls-cert. It asks clients for none.",
    set: |config, text| put(&mut config.admin_tls, boolean(text)),
    show: |config| Some(config.admin_tls.to_string()),
    example: None,
};

pub(super) const STORE_FILE: Setting = a_file!(
    "store-file",
    store_file,
    "the store's URL",
    "/etc/leasehold/store-url",
    "A file that holds the store's URL and nothing else, in place of store: for a URL with a password. Of the two, \
     that of the stronger layer counts; one layer may set one of them."
);

pub(super) const STORE_CA: Setting = a_file!(
    "store-ca",
    store_ca,
    "certificates (PEM)",
    "/etc/leasehold/redis-ca.pem",
    "Certificates (PEM) to trust for a store with TLS (rediss), instead of the system's. Files for the store that are replaced \
     are read again for the next connection to it."
);

pub(super) const STORE_CERT: Setting = a_file!(
    "store-cert",
    store_cert,
    "a certificate (PEM)",
    "/etc/leasehold/redis-client.pem",
    "The certificate (PEM) to show to a store with TLS (rediss) that asks for one, followed by those between it and its \
     authority, if any."
);

pub(super) const STORE_KEY: Setting = a_file!(
    "store-key",
    store_key,
    "a private key (PEM)",
    "/etc/leasehold/redis-client.key",
    "The private key (PEM, not encrypted) of store-cert."
);
