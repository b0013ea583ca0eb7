//! Log lines.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The directives do not parse; [`Config::from_args`] lets no such configuration through.
    #[error("failed to read the log directives: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process logs elsewhere already.
    #[error("failed to set up logging: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Sends log lines to stderr, as `log` and `log-format` say, for the whole process.
///
/// # Errors
///
/// When the directives are wrong, or the process has set up logging before.
pub fn init_logging(config: &Config) -> Result<(), LoggingError> {
    let filter = EnvFilter::try_new(&config.log)?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Human => {
            // https://no-color.org: any non-empty value means no colours.
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colours = !plain && std::io::stderr().is_terminal();
            registry.with(lines.with_ansi(colours)).try_init()?;
        }
        LogFormat::Json => registry.with(lines.json()).try_init()?,
    }
    Ok(())
}
