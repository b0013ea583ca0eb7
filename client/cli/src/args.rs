//! Command line of the tool, and its help.

use std::{ffi::OsString, time::Duration};

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

use crate::{
    bench::{self, BenchOptions},
    connection::Connection,
    duration::duration,
    elect::{self, ElectOptions},
    run::{self, RunOptions},
    status::{self, StatusOptions},
};

/// Distributed locks: run a command under a lock or while leading, inspect locks, and measure
#[derive(Parser, Debug)]
#[command(name = "leasehold", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Print JSON instead of text: one document (ls, get, release, sessions, leader, status, bench), or one per line (observe,
    /// watch). Errors are a line of JSON on standard error. Not for run and elect, whose output is the command's
    #[arg(long, display_order = 900)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    another error
  3    some coordinators serve and some do not (status)
  4    the election has no leader (leader)
  64   invalid command line or name
  69   no coordinator is reachable, or it does not serve now
  70   a lock or the leadership was lost and the command was stopped (run, elect --once)
  75   the lock was not granted (run)
  76   exclusion or the order of fencing tokens was violated (bench)
  77   unknown identity, missing permission, or a TLS certificate that was not accepted";

const LEADER: &str = "\
Exit codes: 0 if there is a leader, 4 if there is none, otherwise as for all commands.";

const OBSERVE: &str = "\
Each line shows the leader's time of election, fencing token, name and value; `(skipped)` means that
there may have been other leaders before. The command runs until it is interrupted, like `tail -f`:
INT and TERM end it, which shells show as 130 and 143. If its coordinator goes away, it waits for
one; a coordinator must be reachable at startup (otherwise 69).";

const WATCH: &str = "\
Each line shows the time, the event, the lock's name, its fencing token, and the holder or waiter,
at any coordinator. First come the locks that are held, closed or waited for, and a line `ready`;
`gap` means that events were missed, and all locks follow again. The command runs until it is
interrupted, like `tail -f`: INT and TERM end it, which shells show as 130 and 143. If its
coordinator goes away, it waits for one; a coordinator must be reachable at startup (otherwise 69).";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a command while holding a lock or several, and stop it if one is lost
    #[command(after_long_help = run::HELP)]
    Run(RunOptions),

    /// Run a command while leading an election, and again after each re-election
    #[command(after_long_help = elect::HELP)]
    Elect(ElectOptions),

    /// Show who leads an election
    #[command(after_help = LEADER)]
    Leader {
        /// The election's name
        name: String,
    },

    /// Show who leads an election, and print a line for each change
    #[command(after_help = OBSERVE)]
    Observe {
        /// The election's name
        name: String,
    },

    /// Show all locks, then print a line for each event
    #[command(after_help = WATCH)]
    Watch {
        /// Show only names with this prefix
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// List locks
    #[command(alias = "list")]
    Ls {
        /// Show only names with this prefix
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },

    /// Show one lock: its holders, mode, newest fencing token and waiters
    Get {
        /// The lock's name
        name: String,
    },

    /// Take a lock away from its holders, end one hold or wait, or ask holders to release it
    ///
    /// With --ask, the lock is unchanged: its holders receive the reason and the time, and release it or not. `leasehold run` and
    /// `leasehold elect` report the request and can pass it on as a signal (--on-request).
    ///
    /// Otherwise notifies the holders, raises the fencing token, and grants the lock to the next waiters. The former holders may
    /// go on working for a moment: only a resource that checks fencing tokens is safe from them. A client whose wait
    /// is ended fails to acquire the lock. `leasehold get NAME` shows tokens and numbers.
    Release {
        /// The lock's name
        name: String,

        /// Take the lock from all its holders
        #[arg(long)]
        force: bool,

        /// Take the lock only from the holder with this fencing token; with --ask, ask only that one
        #[arg(long, value_name = "TOKEN", value_parser = clap::value_parser!(i64).range(1..))]
        #[arg(conflicts_with_all = ["force", "waiter"])]
        holder: Option<i64>,

        /// End the wait of the waiter with this number
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        #[arg(conflicts_with = "force")]
        waiter: Option<u64>,

        /// Ask the holders to release the lock
        #[arg(long, conflicts_with_all = ["force", "waiter"])]
        ask: bool,

        /// Reason to tell the holders: at most 256 bytes without control characters
        #[arg(
            long,
            value_name = "TEXT",
            requires = "ask",
            conflicts_with_all = ["force", "waiter"],
            default_value = "",
            hide_default_value = true
        )]
        reason: String,

        /// Time that the holders have: 1s to 1d. They are told; nobody enforces it [default: none]
        #[arg(long, value_name = "DURATION", requires = "ask", value_parser = duration)]
        #[arg(conflicts_with_all = ["force", "waiter"])]
        within: Option<Duration>,
    },

    /// List the sessions of the coordinator that is asked, or end one
    ///
    /// `sessions end ID` ends a session at whichever coordinator it is: takes all its locks by force, ends its waits and its
    /// stream, and tells its client, which may open another session. A session that has resumed some of its locks ends too. It
    /// takes about a second, and time in proportion to the number of locks.
    Sessions {
        /// End the session with this id, instead of listing
        #[arg(value_name = "end", requires = "id")]
        action: Option<SessionsAction>,

        /// The session's id, as listings show it: 32 hexadecimal digits
        #[arg(value_name = "ID", requires = "action")]
        id: Option<String>,
    },

    /// Show each coordinator: whether it serves, its store and its load
    #[command(after_long_help = status::HELP)]
    Status(StatusOptions),

    /// Measure a deployment: how many locks a second, and how long each takes
    #[command(long_about = bench::ABOUT, after_long_help = bench::HELP)]
    Bench(BenchOptions),
}

/// Action of `sessions` other than listing.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum SessionsAction {
    /// End a session
    End,
}

impl Args {
    /// Reads the command line, and checks its options against one another.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::read_from(std::env::args_os())
    }

    fn read_from(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut definition = definition();
        let mut matches = definition.try_get_matches_from_mut(args)?;
        let args = Self::from_arg_matches_mut(&mut matches)
            .map_err(|error| error.format(&mut definition))?;
        if let Err(mistake) = args.connection.check() {
            return Err(definition.error(ErrorKind::ValueValidation, mistake));
        }
        let (subcommand, checked) = match &args.command {
            Command::Run(_) if args.json => ("run", Err(NO_JSON.to_owned())),
            Command::Elect(_) if args.json => ("elect", Err(NO_JSON.to_owned())),
            Command::Run(options) => ("run", options.check()),
            Command::Bench(options) => ("bench", options.check()),
            _ => return Ok(args),
        };
        if let Err(mistake) = checked {
            let command = match definition.find_subcommand_mut(subcommand) {
                Some(subcommand) => subcommand,
                None => &mut definition,
            };
            return Err(command.error(ErrorKind::ValueValidation, mistake));
        }
        Ok(args)
    }
}

/// The refusal of `--json` by a command that runs another one.
const NO_JSON: &str = "--json is not for this command: its standard output and its exit code are those of the command that it runs";

/// Returns the definition of the command line, with the settings that `derive` does not offer.
fn definition() -> clap::Command {
    // Options of the tool may also come after the subcommand.
    let mut definition = Args::command().mut_args(|arg| arg.global(true).hide_env_values(true));
    // Makes usages name the whole subcommand.
    definition.build();
    complete(definition.mut_subcommands(complete))
}

/// Makes errors helpful: a value that begins with a hyphen is refused as a value, with what was expected, and an error shows the
/// whole usage, because clap's own would show optional arguments as required.
fn complete(command: clap::Command) -> clap::Command {
    let mut command = command.mut_args(|arg| match value_name(&arg) {
        "DURATION" => arg.allow_hyphen_values(true),
        "NUMBER" | "LIMIT" => arg.allow_negative_numbers(true),
        _ => arg,
    });
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    command.override_usage(usage)
}

fn value_name(arg: &Arg) -> &str {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or("", |name| name.as_str())
}

/// Returns whether a command line that could not be read asks for JSON. Words after `--` belong to another command.
pub(crate) fn asks_for_json(args: impl IntoIterator<Item = OsString>) -> bool {
    let mut ours = args.into_iter().take_while(|arg| arg != "--");
    ours.any(|arg| arg == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }

    /// Reads a command line, and returns the error message for a mistake in it.
    fn mistake(line: &str) -> String {
        let words = std::iter::once("leasehold").chain(line.split(' '));
        let read = Args::read_from(words.map(OsString::from));
        read.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn the_usage_after_a_mistake_shows_no_option_as_required() {
        const USAGE: &str = "Usage: leasehold run [OPTIONS] <NAME>... -- <COMMAND>...\n";
        for line in [
            "run a --permits 2 -- true",
            "run a --ttl 5s --shared --semaphore 2 -- true",
            "run a --semaphore 2 --permits 3 -- true",
            "run a --permits-at-least 2 -- true",
            "run a --wait 5s",
            "run a --nothing -- true",
            "run a --json -- true",
        ] {
            let told = mistake(line);
            assert!(told.contains(USAGE), "{line}: {told}");
        }
        let told = mistake("elect --ttl 5s -- true");
        assert!(
            told.contains("Usage: leasehold elect [OPTIONS] <NAME> -- <COMMAND>...\n"),
            "{told}"
        );
        let told = mistake("--endpoint a release --force");
        assert!(
            told.contains("Usage: leasehold release [OPTIONS] <NAME>\n"),
            "{told}"
        );
        let told = mistake("--endpoint a --nothing ls");
        assert!(
            told.contains("Usage: leasehold [OPTIONS] <COMMAND>\n"),
            "{told}"
        );
    }

    #[test]
    fn negative_values_are_refused_as_what_they_are() {
        for command in ["run a", "elect e"] {
            for option in ["--ttl", "--lock-delay", "--grace"] {
                for value in [" -5s", "=-5s", " -0.5m"] {
                    let told = mistake(&format!("{command} {option}{value} -- true"));
                    assert!(
                        told.contains(&format!(
                            "for '{option} <DURATION>': a duration can't be negative"
                        )),
                        "{told}"
                    );
                }
            }
        }
        for line in [
            "run a --wait -1h -- true",
            "status --timeout -1s",
            "bench --hold -1ms",
            "bench --duration -1s",
            "bench --warm-up=-1s",
            "bench --ttl -1d",
        ] {
            assert!(
                mistake(line).contains("a duration can't be negative"),
                "{line}"
            );
        }
        for (line, expected) in [
            ("bench --clients -1", "-1 is not in 1..=10000"),
            ("run a --semaphore -1 -- true", "-1 is not in 1..=1000000"),
            // A value that was forgotten.
            (
                "run a --ttl --shared -- true",
                "invalid value '--shared' for '--ttl <DURATION>'",
            ),
            (
                "run a --wait -- true",
                "invalid value '--' for '--wait <DURATION>'",
            ),
        ] {
            let told = mistake(line);
            assert!(told.contains(expected), "{line}: {told}");
        }
    }

    #[test]
    fn commands_that_run_others_refuse_json() {
        for line in [
            "run a --json -- true",
            "--json run a -- true",
            "elect e --json -- true",
        ] {
            assert!(
                mistake(line).contains("--json is not for this command"),
                "{line}"
            );
        }
        // That one is the command's.
        assert_eq!(mistake("run a -- ls --json"), "");
        for (line, asks) in [
            ("run a -- ls --json", false),
            ("--json run", true),
            ("ls --json", true),
        ] {
            assert_eq!(
                asks_for_json(line.split(' ').map(OsString::from)),
                asks,
                "{line}"
            );
        }
    }
}
