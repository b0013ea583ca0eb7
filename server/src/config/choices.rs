//! Settings whose value is one of several names.

/// Demand for a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ClientAuth {
    /// The coordinator asks for none.
    None,
    /// A client may have a certificate, which must be valid.
    Optional,
    /// A client must have a valid certificate.
    Required,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people, in colour on a terminal.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}
