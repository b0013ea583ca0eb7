//! The command line: what can be said, and its help.

use std::{ffi::OsString, time::Duration};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::bench::{self, BenchOptions};

/// Distributed locks from the command line: run a command under a lock, look inside, and measure
#[derive(Parser, Debug)]
#[command(name = "leasehold", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Where the coordinator is
    #[arg(
        long,
        env = "LEASEHOLD_ENDPOINT",
        default_value = "http://127.0.0.1:7420",
        hide_env_values = true,
        value_name = "URL",
        global = true
    )]
    pub(crate) endpoint: String,

    /// Print one JSON document instead of text (ls, get, release, status, bench)
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something else went wrong
  64   the command line or a name in it is wrong
  69   no coordinator could be reached, or it does not serve at present
  70   the lock was lost and the command was stopped (run)
  75   the lock was not granted (run)
  76   exclusion or the order of fencing tokens was violated (bench)";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a command while holding a lock, and stop it if the lock is lost
    #[command(after_long_help = RUN_HELP)]
    Run(RunOptions),

    /// List locks
    #[command(alias = "list")]
    Ls {
        /// Only names that begin with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// Show one lock: its holder, its newest fencing token, who waits for it
    Get {
        /// The lock's name
        name: String,
    },

    /// Take a lock from its holder
    ///
    /// The holder is told, the fencing token is raised, and the next waiter is granted the lock. The former holder may
    /// still be at work for a moment: only what checks fencing tokens is safe from it.
    Release {
        /// The lock's name
        name: String,

        /// Really take it. There is no other way to release somebody else's lock
        #[arg(long)]
        force: bool,
    },

    /// Show whether the coordinator serves, and how many sessions and locks there are
    Status,

    /// Measure a deployment: how many locks a second, and how long each takes
    #[command(long_about = bench::ABOUT, after_long_help = bench::HELP)]
    Bench(BenchOptions),
}

impl Args {
    /// Reads the command line, and checks what its options say together.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let args = Self::try_parse()?;
        if let Command::Bench(options) = &args.command
            && let Err(mistake) = options.check()
        {
            let mut command = Self::command();
            // For the usage of the subcommand to be complete.
            command.build();
            let mut command = match command.find_subcommand_mut("bench") {
                Some(bench) => bench.clone(),
                None => command,
            };
            return Err(command.error(ErrorKind::ValueValidation, mistake));
        }
        Ok(args)
    }
}

const RUN_HELP: &str = "\
The command finds the lock's name in LEASEHOLD_LOCK_NAME and the grant's fencing token in
LEASEHOLD_FENCING_TOKEN. Pass the token to whatever the lock protects, and let that refuse smaller
ones.

The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on
to it. If the lease is not renewed, the group gets TERM while there is still time (a third of the
TTL, five seconds at most), and KILL before the lease runs out. If the connection breaks, it gets
TERM at once, and KILL within half of the lock-delay. If the lock was taken away (a force release),
it gets KILL at once, since the next holder may be at work already. If `leasehold run` itself is
killed, the command is killed with it, and the lock-delay keeps the next holder out until then.

What leaves the process group (setsid, daemons) escapes all of this, and so does what the command
leaves running when it ends: the lock is released when the command itself has ended.

Exit codes:
  the command's own, or 128 + n if it was ended by signal n
  64   the command line or the lock's name is wrong
  69   no coordinator could be reached
  70   the lock was lost; the command was stopped
  75   the lock was not granted: busy, or not free within --wait
  126  the command could not be executed
  127  there is no such command";

/// What `run` is told.
#[derive(clap::Args, Debug)]
pub(crate) struct RunOptions {
    /// The lock's name: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: String,

    /// How long the lock outlives the loss of contact, such as 10s or 2m [default: the coordinator's, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock; 0 means not to wait [default: for as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// How long the name stays closed if this process is killed or loses contact, for its command to be gone before
    /// the next holder starts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) lock_delay: Duration,

    /// Attached to the lock for others to see
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) value: String,

    /// Who holds the lock, for others to see [default: this host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
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
