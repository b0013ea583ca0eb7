//! Styles of text on terminals that show them, unless the user wants none: `NO_COLOR`.

use std::{fmt, io};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Style of heads.
pub(crate) const HEAD: Style = Style::new().bold();
/// Style of losses and of what takes a lock away.
pub(crate) const ALARM: Style = AnsiColor::Red.on_default();
/// Style of grants.
pub(crate) const GRANTED: Style = AnsiColor::Green.on_default();
/// Style of waits.
pub(crate) const WAITS: Style = AnsiColor::Yellow.on_default();

/// Returns whether standard output shows styles, and the user wants them.
pub(crate) fn is_on() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Returns text in a style.
pub(crate) fn styled(text: impl fmt::Display, style: Style) -> String {
    format!("{style}{text}{style:#}")
}
