//! Connection options that all commands share: endpoints, credentials, trace context.

use std::{
    env,
    path::{Path, PathBuf},
};

use leasehold_client::{Admin, Client, ClientBuilder, ConnectError, Endpoints, TraceContext};

use crate::{
    profile::{Profile, Token},
    say::say,
};

/// Variable with a bearer token. There is no option for it: every user of the machine can read the command line.
const TOKEN: &str = "LEASEHOLD_TOKEN";

/// Variable with the trace context, as OpenTelemetry specifies it for child processes.
pub(crate) const TRACEPARENT: &str = "TRACEPARENT";
pub(crate) const TRACESTATE: &str = "TRACESTATE";

/// Options of the connection. [`Args`](crate::args::Args) makes them global.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Profile with the addresses and the credentials, in ~/.config/leasehold/config.toml or the file that LEASEHOLD_PROFILES names.
    /// Other options of the connection replace what it has; it replaces all their variables
    #[arg(long, env = "LEASEHOLD_PROFILE", value_name = "NAME")]
    profile: Option<String>,

    /// Token that the profile's command printed.
    #[arg(skip)]
    token: Option<Token>,

    /// Addresses of the coordinators: one, or several that serve the same locks, separated by commas. The default
    /// scheme is http://, which does not encrypt; https:// does. The default port is 7420
    #[arg(
        long,
        env = "LEASEHOLD_ENDPOINT",
        default_value = "http://127.0.0.1:7420",
        value_name = "URLS"
    )]
    pub(crate) endpoint: String,

    /// PEM file with the CAs that sign the coordinators' certificates [default: the system's]
    #[arg(long, env = "LEASEHOLD_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// PEM file with the client's certificate
    #[arg(long, env = "LEASEHOLD_CERT", value_name = "FILE")]
    cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(long, env = "LEASEHOLD_KEY", value_name = "FILE")]
    key: Option<PathBuf>,

    /// Name in the coordinators' certificates, if it is not that of the endpoint
    #[arg(long, env = "LEASEHOLD_SERVER_NAME", value_name = "NAME")]
    server_name: Option<String>,

    /// File with the client's bearer token; or set LEASEHOLD_TOKEN to the token itself
    #[arg(long, env = "LEASEHOLD_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Send the token to other machines over http:// too, where others on the network can read it
    #[arg(long, env = "LEASEHOLD_ALLOW_PLAINTEXT_TOKEN")]
    allow_plaintext_token: bool,

    /// W3C trace context of the requests, for coordinators that export traces [default: TRACEPARENT and TRACESTATE,
    /// except for bench]
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) traceparent: Option<TraceContext>,
}

impl Connection {
    /// Takes what the profile says, if the user names one. `is_option` tells of an argument whether an option gave its value.
    ///
    /// # Errors
    ///
    /// Fails with a message for the user if the profile can't be used.
    pub(crate) fn take_profile(&mut self, is_option: impl Fn(&str) -> bool) -> Result<(), String> {
        let Some(name) = self.profile.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        let profile = Profile::load(name)?;
        // A pair each: half of one and half of another would be a mistake.
        let is_identity = is_option("cert") || is_option("key");
        let is_token = is_option("token_file");
        if !is_option("endpoint") {
            let endpoint = profile.endpoint;
            self.endpoint =
                endpoint.ok_or_else(|| format!("the profile {name:?} has no endpoint"))?;
        }
        if !is_option("ca") {
            self.ca = profile.ca;
        }
        if !is_identity {
            (self.cert, self.key) = (profile.cert, profile.key);
        }
        if !is_option("server_name") {
            self.server_name = profile.server_name;
        }
        if !is_token {
            self.token_file = profile.token_file;
            let command = profile.token_command.as_ref();
            self.token = command.map(|command| command.run()).transpose()?;
        }
        if !is_option("allow_plaintext_token") {
            self.allow_plaintext_token = profile.allow_plaintext_token;
        }
        Ok(())
    }

    /// Returns the bearer token itself, unless a file has it.
    fn token(&self) -> Option<String> {
        if let Some(token) = &self.token {
            return Some(token.secret().to_owned());
        }
        let is_set = self.profile.as_deref().is_some_and(|name| !name.is_empty());
        let token = env::var(TOKEN).ok().filter(|_| !is_set);
        token.filter(|token| !token.is_empty())
    }

    /// Returns the options that name certificate files, and whether each file has authorities.
    pub(crate) fn certificate_files(&self) -> [(&'static str, Option<&Path>, bool); 2] {
        [
            ("--ca", self.ca.as_deref(), true),
            ("--cert", self.cert.as_deref(), false),
        ]
    }

    /// Checks the options against one another.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (&self.cert, &self.key) {
            (Some(_), None) => Err("--cert needs the --key of the certificate".to_owned()),
            (None, Some(_)) => Err("--key needs the --cert that it is the key of".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns a client's builder with all options but the endpoint, within the trace of this process.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder_in(self.traceparent.clone().or_else(inherited))
    }

    /// Returns the same, but only in a trace given by an option: a measurement sends too many requests for the trace that
    /// it happens to be started in.
    pub(crate) fn measuring_builder(&self) -> ClientBuilder {
        self.builder_in(self.traceparent.clone())
    }

    fn builder_in(&self, trace: Option<TraceContext>) -> ClientBuilder {
        let mut builder = Client::builder();
        if let Some(ca) = &self.ca {
            builder = builder.tls_ca(ca);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            builder = builder.tls_identity(cert, key);
        }
        if let Some(name) = &self.server_name {
            builder = builder.tls_server_name(name);
        }
        if let Some(file) = &self.token_file {
            builder = builder.bearer_token_file(file);
        } else if let Some(token) = self.token() {
            builder = builder.bearer_token(token);
        }
        if self.allow_plaintext_token {
            builder = builder.allow_plaintext_credentials();
        }
        if let Some(context) = trace {
            builder = builder.trace_context_from(move || Some(context.clone()));
        }
        builder
    }

    /// Returns the coordinators' addresses, each with its scheme and port.
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints::from(&self.endpoint)
    }

    /// Returns a client for calls that need no session.
    pub(crate) fn admin(&self) -> Result<Admin, ConnectError> {
        self.builder().admin(self.endpoint.as_str())
    }
}

/// Returns the trace context in the environment of this process. A malformed one must not keep a command from running.
fn inherited() -> Option<TraceContext> {
    let parent = env::var_os(TRACEPARENT).filter(|parent| !parent.is_empty())?;
    let context = parent.to_string_lossy().parse::<TraceContext>();
    match (context, env::var(TRACESTATE)) {
        (Ok(context), Ok(state)) => Some(context.with_state(state)),
        (Ok(context), Err(_)) => Some(context),
        (Err(error), _) => {
            say(format_args!("ignored the variable {TRACEPARENT}: {error}"));
            None
        }
    }
}
