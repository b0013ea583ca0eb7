//! Credentials that a client process shows, and authorities that it trusts: files of one folder, which the harness replaces.

use std::{fs, io, path::Path, time::Duration};

use leasehold_client::ClientBuilder;
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

/// Name in the coordinators' certificates, whatever their addresses.
pub const SERVER_NAME: &str = "localhost";
/// File of the trusted authorities.
pub const CA: &str = "ca.pem";
/// File of the certificate.
pub const CERTIFICATE: &str = "client.pem";
/// File of its key.
pub const KEY: &str = "client.key";
/// File of the bearer token, if the client has one.
pub const TOKEN: &str = "token";

/// Longest time for a connection.
const CONNECTED: Duration = Duration::from_secs(5);

/// Contents of the files, for a client on the generated stubs.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    /// Trusted authorities (PEM).
    pub ca: String,
    /// Certificate (PEM).
    pub certificate: String,
    /// Its key (PEM).
    pub key: String,
    /// Bearer token.
    pub token: Option<String>,
}

impl Shown {
    /// Reads the files of a folder.
    ///
    /// # Errors
    ///
    /// If one can't be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let file = |name: &str| fs::read_to_string(folder.join(name));
        Ok(Self {
            ca: file(CA)?,
            certificate: file(CERTIFICATE)?,
            key: file(KEY)?,
            token: folder
                .join(TOKEN)
                .exists()
                .then(|| file(TOKEN))
                .transpose()?,
        })
    }

    /// Returns the settings of a connection.
    ///
    /// # Errors
    ///
    /// If a file is not what it should be: it may have been replaced, and the one that goes with it not yet.
    pub fn dial(&self, endpoint: &str) -> anyhow::Result<Endpoint> {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.ca))
            .identity(Identity::from_pem(&self.certificate, &self.key))
            .domain_name(SERVER_NAME);
        let endpoint = dial(endpoint)?.tls_config(tls)?;
        Ok(endpoint)
    }

    /// Adds the token to a request.
    ///
    /// # Errors
    ///
    /// If it can't be one.
    pub fn authorize<T>(&self, message: T) -> anyhow::Result<Request<T>> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let value: MetadataValue<Ascii> = format!("Bearer {}", token.trim()).parse()?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Returns the settings of a connection that is not encrypted.
///
/// # Errors
///
/// If the endpoint is none.
pub fn dial(endpoint: &str) -> anyhow::Result<Endpoint> {
    let endpoint = Endpoint::from_shared(endpoint.to_owned())?;
    Ok(endpoint.connect_timeout(CONNECTED).tcp_nodelay(true))
}

/// Has a Rust client use the files of a folder.
pub fn follow(builder: ClientBuilder, folder: &Path) -> ClientBuilder {
    let builder = builder
        .tls_ca(folder.join(CA))
        .tls_identity(folder.join(CERTIFICATE), folder.join(KEY))
        .tls_server_name(SERVER_NAME);
    let token = folder.join(TOKEN);
    match token.exists() {
        true => builder.bearer_token_file(token),
        false => builder,
    }
}
