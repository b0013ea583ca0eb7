//! Settings of authentication.

use std::path::PathBuf;

use super::{Setting, Shape};

/// A setting that names a file, or holds a text that must not be empty.
macro_rules! optional {
    ($name:literal, $field:ident, $value_name:literal, $of:expr, $show:expr, $example:literal, $help:literal) => {
        Setting {
            name: $name,
            shape: Shape::Text,
            value_name: $value_name,
            help: $help,
            set: |config, text| {
                config.$field = Some($of(not_empty(text)?));
                Ok(())
            },
            show: |config| config.$field.as_ref().map($show),
            example: Some($example),
        }
    };
}

pub(super) const TOKEN_FILE: Setting = optional!(
    "token-file",
    token_file,
    "FILE",
    PathBuf::from,
    |path| path.display().to_string(),
    "/etc/leasehold/tokens",
    "Bearer tokens that callers may show, by their hashes: a line for each, NAME sha256:HEX, perhaps with \
     expires=2030-01-31T12:00:00Z; # begins a comment. `leasehold-server new-token NAME` makes one. Its identity is \
     token:NAME. Read again when it changes."
);

pub(super) const JWT_KEYS: Setting = optional!(
    "jwt-keys",
    jwt_keys,
    "FILE",
    PathBuf::from,
    |path| path.display().to_string(),
    "/etc/leasehold/jwks.json",
    "Public keys of whoever signs the tokens (JWT) that callers may show: a JWKS file, or one key (PEM); RSA, EC (P-256, \
     P-384) or Ed25519. Needs jwt-issuer and jwt-audience. The identity is jwt:SUBJECT. Read again when it changes."
);

pub(super) const JWT_ISSUER: Setting = optional!(
    "jwt-issuer",
    jwt_issuer,
    "TEXT",
    str::to_owned,
    String::clone,
    "https://accounts.example",
    "The issuer (iss) that signed tokens must name."
);

pub(super) const JWT_AUDIENCE: Setting = optional!(
    "jwt-audience",
    jwt_audience,
    "TEXT",
    str::to_owned,
    String::clone,
    "leasehold",
    "The audience (aud) that signed tokens must be for."
);

pub(super) const JWT_IDENTITY_CLAIM: Setting = Setting {
    name: "jwt-identity-claim",
    shape: Shape::Text,
    value_name: "TEXT",
    help: "The claim of signed tokens that says who they stand for.",
    set: |config, text| {
        not_empty(text)?.clone_into(&mut config.jwt_identity_claim);
        Ok(())
    },
    show: |config| Some(config.jwt_identity_claim.clone()),
    example: None,
};

fn not_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("expected a value that is not empty".to_owned());
    }
    Ok(text)
}
