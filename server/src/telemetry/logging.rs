//! Set-up of the log, and its level, which follows the configuration.

use std::io::IsTerminal;

use anyhow::anyhow;
use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, Registry, filter::filter_fn, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use crate::{
    config::{Config, LogFormat},
    follow::Reload,
};

/// Sends the log lines of the whole process to stderr, as `log` and `log-format` say.
///
/// # Errors
///
/// Fails if the directives do not parse, or if the process has set up logging before.
pub fn init_logging(config: &Config) -> anyhow::Result<LogLevel> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| anyhow!("failed to read the log directives: {error}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(shows_no_bytes));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let set = match config.log_format {
        LogFormat::Human => {
            // https://no-color.org: any non-empty value means no colours.
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colours = !plain && std::io::stderr().is_terminal();
            registry.with(lines.with_ansi(colours)).try_init()
        }
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
    set.map_err(|error| anyhow!("failed to set up logging: {error}"))?;
    Ok(LogLevel {
        directives: config.log.clone(),
        filter: handle,
    })
}

/// Returns whether a line may be logged. Libraries log bytes of the wire at the level trace, which contain secrets.
fn shows_no_bytes(metadata: &Metadata<'_>) -> bool {
    *metadata.level() != Level::TRACE || metadata.target().starts_with("leasehold")
}

/// Level of the log, which may change at any time.
#[derive(Debug)]
#[must_use = "the log follows the configuration only while `follow` is awaited"]
pub struct LogLevel {
    directives: String,
    filter: reload::Handle<EnvFilter, Registry>,
}

impl LogLevel {
    /// Follows the setting `log` while it is awaited.
    pub async fn follow(mut self, mut reload: Reload) {
        loop {
            let config = reload.changed().await;
            if config.log == self.directives {
                continue;
            }
            // The directives of a checked configuration parse.
            if let Ok(filter) = EnvFilter::try_new(&config.log)
                && self.filter.reload(filter).is_ok()
            {
                self.directives.clone_from(&config.log);
            }
        }
    }
}
