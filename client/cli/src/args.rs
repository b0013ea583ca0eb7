//! The command line: what can be said, and its help.

use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{
    bench::{self, BenchOptions},
    connection::Connection,
    elect::{self, ElectOptions},
    run::{self, RunOptions},
    status::{self, StatusOptions},
};

/// Distributed locks: run a command under a lock or while leading, look inside, and measure
#[derive(Parser, Debug)]
#[command(name = "leasehold", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,

    /// Print JSON instead of text: one document (ls, get, release, leader, status, bench), or one in each line (observe,
    /// watch)
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something else went wrong
  3    some of the coordinators serve, and some do not (status)
  4    nobody leads (leader)
  64   the command line or a name in it is wrong
  69   no coordinator could be reached, or it does not serve at present
  70   a lock or the leadership was lost and the command was stopped (run, elect --once)
  75   the lock was not granted (run)
  76   exclusion or the order of fencing tokens was violated (bench)
  77   the coordinator does not know who asks, or does not allow it; or the certificates don't fit";

const LEADER: &str = "\
Exit codes: 0 if somebody leads, 4 if nobody does, else as for all commands.";

const OBSERVE: &str = "\
Each line tells since when the leader leads, its fencing token, who it is, and its value;
`(skipped)` says that there may have been others before. It goes on until it is interrupted, as
`tail -f` does: INT and TERM end it as they end any program, which shells show as 130 and 143. A
coordinator that goes away is waited for; only at the start there has to be one (else 69).";

const WATCH: &str = "\
Each line tells when, what, the lock's name, its fencing token, and who holds or waits, whatever
coordinator they are at. First come the locks that are held, closed or waited for, and a line
`ready`; `gap` says that events were missed, and all that there is comes anew. It goes on until it
is interrupted, as `tail -f` does: INT and TERM end it as they end any program, which shells show
as 130 and 143. A coordinator that goes away is waited for; only at the start there has to be one
(else 69).";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a command while holding a lock or several, and stop it if one is lost
    #[command(after_long_help = run::HELP)]
    Run(RunOptions),

    /// Run a command while leading an election, and anew whenever elected again
    #[command(after_long_help = elect::HELP)]
    Elect(ElectOptions),

    /// Show who leads an election
    #[command(after_help = LEADER)]
    Leader {
        /// The election's name
        name: String,
    },

    /// Show who leads an election, and every change, a line for each
    #[command(after_help = OBSERVE)]
    Observe {
        /// The election's name
        name: String,
    },

    /// Show what happens to locks: first what there is, then a line for each event
    #[command(after_help = WATCH)]
    Watch {
        /// Only names that begin with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// List locks
    #[command(alias = "list")]
    Ls {
        /// Only names that begin with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// Show one lock: who holds it and how, its newest fencing token, who waits for it
    Get {
        /// The lock's name
        name: String,
    },

    /// Take a lock from all who hold it
    ///
    /// They are told, the fencing token is raised, and the next waiters are granted the lock. The former holders may
    /// still be at work for a moment: only what checks fencing tokens is safe from them.
    Release {
        /// The lock's name
        name: String,

        /// Really take it. There is no other way to release somebody else's lock
        #[arg(long)]
        force: bool,
    },

    /// Show each coordinator: whether it serves, its store, and how much it has
    #[command(after_long_help = status::HELP)]
    Status(StatusOptions),

    /// Measure a deployment: how many locks a second, and how long each takes
    #[command(long_about = bench::ABOUT, after_long_help = bench::HELP)]
    Bench(BenchOptions),
}

impl Args {
    /// Reads the command line, and checks what its options say together.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let args = Self::try_parse()?;
        if let Err(mistake) = args.connection.check() {
            return Err(Self::command().error(ErrorKind::ValueValidation, mistake));
        }
        let (subcommand, checked) = match &args.command {
            Command::Run(options) => ("run", options.check()),
            Command::Bench(options) => ("bench", options.check()),
            _ => return Ok(args),
        };
        if let Err(mistake) = checked {
            let mut command = Self::command();
            // For the usage of the subcommand to be complete.
            command.build();
            let mut command = match command.find_subcommand_mut(subcommand) {
                Some(subcommand) => subcommand.clone(),
                None => command,
            };
            return Err(command.error(ErrorKind::ValueValidation, mistake));
        }
        Ok(args)
    }
}

/// A duration as people write it: a number with `ms`, `s`, `m` or `h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let explain = || "expected a number with ms, s, m or h, such as 1.5s or 2m".to_owned();
    let number: f64 = number.parse().map_err(|_| explain())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(explain()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1d",
            "1 s",
            "1..2s",
            "infs",
            "9999999999999999999999h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
