//! `history`: who held a lock, when, and why it ended, from the audit logs of coordinators.
//!
//! - `options`: the command line; `read`: lines of the files, one at a time; `story`: the holds that they tell of; `page`: what is
//!   printed.

mod options;
mod page;
mod read;
mod story;

use std::time::SystemTime;

use anyhow::Context;

pub(crate) use options::{HELP, HistoryOptions};

use self::{page::History, read::Source, story::Story};
use crate::{
    exit::Outcome,
    say::say,
    show::{self, json::Json},
};

/// Reads the logs and shows the history of one lock.
pub(crate) fn history(options: &HistoryOptions, as_json: bool) -> Outcome {
    let mut story = Story::of(&options.name);
    let mut skipped = 0;
    for source in Source::all(&options.files)? {
        let found = source
            .read(|line| story.hear(line))
            .with_context(|| format!("failed to read {source}"))?;
        if found > 0 {
            say(format_args!(
                "skipped {found} lines of {source} that are no lines of an audit log"
            ));
        }
        skipped += found;
    }
    for (coordinator, lines) in story.dropped() {
        say(format_args!(
            "coordinator {coordinator} dropped {lines} lines of its log: a hold may be missing, or its end"
        ));
    }
    let history = History {
        name: &options.name,
        told: story.end(options.since),
        skipped,
    };
    let text = || page::text(&history, SystemTime::now());
    show::answer(as_json, Json(&history), text)
}
