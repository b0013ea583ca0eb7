//! Authorities, and certificates of theirs for coordinators, Redis servers and clients.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::raw::PROMPT;

/// The names that a server's certificate is for.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
const HOUR: Duration = Duration::from_secs(60 * 60);

/// An authority, with a folder for its files. They go with it.
pub struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    issued: AtomicU64,
}

/// A certificate and its key, as files of the [`Authority`] that issued it.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate (PEM).
    pub cert: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
    serial: u64,
}

/// A certificate in the making. Valid for an hour, and since one, unless it is told otherwise.
#[must_use]
pub struct Issue<'a> {
    authority: &'a Authority,
    params: CertificateParams,
    serial: u64,
}

/// Permissions that allow everything to every client with a certificate.
const EVERYTHING: &str = r#"
[[permission]]
identities = ["cert:*"]
allow = ["acquire", "inspect", "administer"]
locks = [""]
elections = [""]
"#;

impl Authority {
    /// Returns an authority of its own: others with the same name do not trust what it issues.
    ///
    /// # Panics
    ///
    /// If its folder can't be made.
    pub fn new(name: &str) -> Self {
        Self::with(name, CertificateParams::default())
    }

    /// Returns an authority whose own certificate expires that long from now.
    ///
    /// # Panics
    ///
    /// If its folder can't be made.
    pub fn expires_in(name: &str, left: Duration) -> Self {
        let mut params = CertificateParams::default();
        params.not_after = date(SystemTime::now() + left);
        Self::with(name, params)
    }

    fn with(name: &str, mut params: CertificateParams) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("it can sign itself");
        fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("a file can be written");
        Self {
            directory,
            issuer,
            issued: AtomicU64::new(0),
        }
    }

    /// Returns a certificate for servers on this machine that has signed itself, marked as a CA's or as none.
    ///
    /// # Panics
    ///
    /// If it can't be made, or its files can't be written.
    pub fn self_signed(&self, is_ca: bool) -> Issued {
        let names: Vec<String> = LOOPBACK.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names are ASCII");
        params.is_ca = match is_ca {
            true => IsCa::Ca(BasicConstraints::Unconstrained),
            false => IsCa::ExplicitNoCa,
        };
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.self_signed(&key).expect("it can sign itself");
        let name = if is_ca { "self-ca" } else { "self" };
        let issued = Issued {
            cert: self.directory().join(format!("{name}.pem")),
            key: self.directory().join(format!("{name}.key")),
            serial: 0,
        };
        replace(&issued.cert, &certificate.pem());
        replace(&issued.key, &key.serialize_pem());
        issued
    }

    /// Returns the folder that its files are in.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the file of its own certificate (PEM), for clients that trust it.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Returns the flags with which a coordinator asks clients for certificates of this authority, and permits everything to
    /// the identities in them.
    ///
    /// # Panics
    ///
    /// If its configuration file can't be written.
    pub fn of_clients(&self) -> [String; 2] {
        let config = self.directory.path().join("permissions.toml");
        fs::write(&config, EVERYTHING).expect("a file can be written");
        [
            format!("--tls-client-ca={}", self.ca().display()),
            format!("--config={}", config.display()),
        ]
    }

    /// Begins a certificate for servers on this machine.
    pub fn server(&self) -> Issue<'_> {
        self.server_for(&LOOPBACK)
    }

    /// Begins a certificate for servers of these names and addresses, and no others.
    ///
    /// # Panics
    ///
    /// If a name is not ASCII.
    pub fn server_for(&self, names: &[&str]) -> Issue<'_> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("the names are ASCII");
        self.issue(params, "server", ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Begins a certificate for a client with this common name, and no other names.
    pub fn client(&self, common_name: &str) -> Issue<'_> {
        let params = CertificateParams::default();
        self.issue(params, common_name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        common_name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> Issue<'_> {
        let serial = self.issued.fetch_add(1, Ordering::Relaxed) + 1;
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let issue = Issue {
            authority: self,
            params,
            serial,
        };
        issue.valid(SystemTime::now() - HOUR, SystemTime::now() + HOUR)
    }

    /// Writes its revocation list, with these on it and no other, and tells where it is: `crl.pem` each time.
    ///
    /// # Panics
    ///
    /// If the file can't be written.
    pub fn revoke(&self, revoked: &[&Issued]) -> PathBuf {
        let now = SystemTime::now();
        let number = self.issued.fetch_add(1, Ordering::Relaxed) + 1;
        let list = CertificateRevocationListParams {
            this_update: date(now - HOUR),
            next_update: date(now + HOUR),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked
                .iter()
                .map(|revoked| RevokedCertParams {
                    serial_number: SerialNumber::from(revoked.serial),
                    revocation_time: date(now - HOUR),
                    reason_code: Some(RevocationReason::KeyCompromise),
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("it can sign a list");
        let path = self.directory.path().join("crl.pem");
        replace(&path, &list.pem().expect("a list can be written as PEM"));
        path
    }

    /// Returns a connection to a server with one of its certificates, at an endpoint with `https`; as `client`, if any.
    ///
    /// # Errors
    ///
    /// If it can't be made within five seconds.
    ///
    /// # Panics
    ///
    /// If the endpoint is not well-formed, or a file can't be read.
    pub async fn connect(
        &self,
        endpoint: &str,
        client: Option<&Issued>,
    ) -> Result<Channel, transport::Error> {
        connect(endpoint, &self.ca(), client).await
    }

    /// Returns a connection for HTTP/1.1 to such a server, as a browser makes it for a WebSocket.
    ///
    /// # Panics
    ///
    /// If it can't be made.
    pub async fn connect_http1(&self, address: SocketAddr) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.ca()).unwrap();
        roots.add(ca).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.unwrap()
    }
}

impl Issue<'_> {
    /// Adds a DNS name.
    ///
    /// # Panics
    ///
    /// If it is not ASCII.
    pub fn dns(self, name: &str) -> Self {
        let name = name.try_into().expect("the name is ASCII");
        self.named(SanType::DnsName(name))
    }

    /// Adds a URI.
    ///
    /// # Panics
    ///
    /// If it is not ASCII.
    pub fn uri(self, uri: &str) -> Self {
        let uri = uri.try_into().expect("the URI is ASCII");
        self.named(SanType::URI(uri))
    }

    /// Adds an e-mail address.
    ///
    /// # Panics
    ///
    /// If it is not ASCII.
    pub fn email(self, address: &str) -> Self {
        let address = address.try_into().expect("the address is ASCII");
        self.named(SanType::Rfc822Name(address))
    }

    fn named(mut self, name: SanType) -> Self {
        self.params.subject_alt_names.push(name);
        self
    }

    /// Makes it valid from a moment to another, to the second.
    pub fn valid(mut self, from: SystemTime, until: SystemTime) -> Self {
        self.params.not_before = date(from);
        self.params.not_after = date(until);
        self
    }

    /// Lets it expire that long from now.
    pub fn expires_in(self, left: Duration) -> Self {
        let now = SystemTime::now();
        self.valid(now - HOUR, now + left)
    }

    /// Makes it one that has expired.
    pub fn expired(self) -> Self {
        let now = SystemTime::now();
        self.valid(now - HOUR * 2, now - HOUR)
    }

    /// Signs it, and writes it with a key of its own.
    ///
    /// # Panics
    ///
    /// If its files can't be written.
    pub fn issue(self) -> Issued {
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = self.params.signed_by(&key, &self.authority.issuer);
        let certificate = certificate.expect("the authority can sign it");
        let path = |kind: &str| {
            let name = format!("{}.{kind}", self.serial);
            self.authority.directory.path().join(name)
        };
        let issued = Issued {
            cert: path("pem"),
            key: path("key"),
            serial: self.serial,
        };
        replace(&issued.cert, &certificate.pem());
        replace(&issued.key, &key.serialize_pem());
        issued
    }
}

impl Issued {
    /// Puts another certificate and key in the place of this one's files, as an operator would who renews them: each file is
    /// whole at every moment, but for a moment they do not go together.
    ///
    /// # Panics
    ///
    /// If the files can't be read and written.
    pub fn replace_with(&self, other: &Self) {
        for (from, to) in [(&other.cert, &self.cert), (&other.key, &self.key)] {
            replace(to, &fs::read_to_string(from).expect("the file can be read"));
        }
    }

    /// Returns the flags with which a coordinator serves with it.
    pub fn flags(&self) -> [String; 2] {
        let (cert, key) = (self.cert.display(), self.key.display());
        [format!("--tls-cert={cert}"), format!("--tls-key={key}")]
    }
}

/// Returns a connection to a server with a certificate of the authority in the file `ca`; as `client`, if any.
///
/// # Errors
///
/// If it can't be made within five seconds.
///
/// # Panics
///
/// If the endpoint is not well-formed, or a file can't be read.
pub async fn connect(
    endpoint: &str,
    ca: &Path,
    client: Option<&Issued>,
) -> Result<Channel, transport::Error> {
    dial(endpoint, ca, client)?.connect().await
}

/// Returns the settings of such a connection, for tests that need others.
///
/// # Errors
///
/// If the certificates make no sense.
///
/// # Panics
///
/// As [`connect`].
pub fn dial(
    endpoint: &str,
    ca: &Path,
    client: Option<&Issued>,
) -> Result<Endpoint, transport::Error> {
    let pem = |path: &Path| fs::read(path).expect("the file can be read");
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(ca)));
    if let Some(client) = client {
        tls = tls.identity(Identity::from_pem(pem(&client.cert), pem(&client.key)));
    }
    let endpoint = Endpoint::from_shared(endpoint.to_owned()).expect("the endpoint is well-formed");
    let endpoint = endpoint.connect_timeout(PROMPT).tcp_nodelay(true);
    endpoint.tls_config(tls)
}

/// Replaces a file; a reader that opens it meanwhile gets the old one or the new one whole.
///
/// # Panics
///
/// If it can't be written.
pub fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("a file can be written");
    fs::rename(fresh, path).expect("a file can be renamed");
}

/// Returns a moment as certificates have it, to the second.
fn date(moment: SystemTime) -> time::OffsetDateTime {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.expect("it is after 1970");
    date_time_ymd(1970, 1, 1) + Duration::from_secs(since.as_secs())
}
