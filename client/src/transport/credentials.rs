//! Credentials of a client, and the authorities that it trusts.

use std::{fmt, sync::Arc};

use tonic::{codegen::http::HeaderValue, transport::Uri};

use super::{
    tls::{Tls, TlsSettings},
    token::{Token, TokenSource},
};
use crate::{
    endpoints::Endpoints,
    error::{ConnectError, CredentialsError},
};

/// Credentials that the program asked for. `Debug` shows nothing of them, because a token may be among them.
#[derive(Clone, Default)]
pub(crate) struct CredentialSettings {
    pub(crate) tls: TlsSettings,
    pub(crate) token: Option<TokenSource>,
    /// The token may go over unencrypted connections, which others on the network can read.
    pub(crate) allow_plaintext: bool,
}

impl fmt::Debug for CredentialSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// The same, read and checked; without any by default. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Credentials(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// `None` if nothing is encrypted.
    tls: Option<Arc<Tls>>,
    token: Option<Token>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Credentials {
    /// Reads what these endpoints need.
    pub(crate) fn new(
        settings: &CredentialSettings,
        endpoints: &Endpoints,
    ) -> Result<Self, ConnectError> {
        let uris = endpoints.urls().iter();
        // What is no URL is said to be none by whoever makes a connection of it.
        let uris: Vec<_> = uris.filter_map(|url| Uri::try_from(url).ok()).collect();
        if settings.token.is_some() && !settings.allow_plaintext {
            let open = uris
                .iter()
                .find(|uri| uri.scheme_str() == Some("http") && !is_loopback(uri));
            if let Some(uri) = open {
                let endpoint = uri.to_string();
                return Err(CredentialsError::Plaintext { endpoint }.into());
            }
        }
        let encrypted: Vec<_> = uris.iter().filter(|uri| is_encrypted(uri)).collect();
        let tls = match encrypted.is_empty() {
            true => None,
            false => Some(Tls::new(&settings.tls)?),
        };
        for uri in encrypted {
            if let Some(tls) = &tls {
                tls.server_name(uri)?;
            }
        }
        let token = settings.token.as_ref().map(Token::new).transpose()?;
        Ok(Self(Arc::new(Inner {
            tls: tls.map(Arc::new),
            token,
        })))
    }

    /// Returns the TLS of a connection to this URL; `None` if it is not to be encrypted.
    pub(super) fn tls(&self, uri: &Uri) -> Option<Arc<Tls>> {
        self.0.tls.clone().filter(|_| is_encrypted(uri))
    }

    /// Returns the value of the `authorization` header.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.0.token.as_ref().map(Token::header)
    }

    /// Returns a number that rises whenever the files have other contents.
    pub(crate) fn version(&self) -> u64 {
        self.certificates() + self.0.token.as_ref().map_or(0, Token::version)
    }

    /// Returns a number that rises whenever the files of the certificates have other contents.
    pub(crate) fn certificates(&self) -> u64 {
        self.0.tls.as_ref().map_or(0, |tls| tls.version())
    }
}

fn is_encrypted(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

/// Returns whether messages to there stay on this machine. Does not look names up, because the answer could be a lie.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Result<std::net::IpAddr, _> = host.parse();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_on_this_machine_unless_it_is_encrypted_or_said_otherwise() {
        let credentials = |endpoint: &str, allow_plaintext| {
            let settings = CredentialSettings {
                token: Some(TokenSource::Given("lh_secret".to_owned())),
                allow_plaintext,
                ..CredentialSettings::default()
            };
            Credentials::new(&settings, &endpoint.into())
        };
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            let endpoint = &format!("http://{host}:7420");
            assert!(credentials(endpoint, false).is_ok(), "{endpoint}");
        }
        for endpoint in [
            "http://locks.example:7420",
            "http://10.0.0.1:7420",
            "http://localhost.example:7420",
            "http://127.0.0.1:7420,http://10.0.0.1:7420",
        ] {
            let error = credentials(endpoint, false).unwrap_err();
            assert!(!error.is_retryable());
            let error = format!("{error} {error:?}");
            assert!(error.contains("Plaintext"), "{error}");
            assert!(!error.contains("secret"), "{error}");
            assert!(credentials(endpoint, true).is_ok(), "{endpoint}");
        }
    }
}
