//! Command line of the tool, and its help.

use std::{collections::HashSet, ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Arg, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use crate::{
    bench::{self, BenchOptions},
    connection::Connection,
    doctor::{self, DoctorOptions},
    duration::duration,
    elect::{self, ElectOptions},
    history::{self, HistoryOptions},
    inspect::ListOptions,
    run::{self, RunOptions},
    status::{self, StatusOptions},
    top::{self, TopOptions},
    wait::{self, WaitOptions},
};

/// Version that `--version` prints: with the commit, if the build was told.
const VERSION: &str = match option_env!("LEASEHOLD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Distributed locks: run a command under a lock or while leading, inspect locks, and measure
#[derive(Parser, Debug)]
#[command(name = "leasehold", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Print JSON instead of text: one document (ls, get, wait, check-token, release, sessions, leader, history, status, doctor, bench),
    /// or one per line (observe, watch). Errors are a line of JSON on standard error. Not for run and elect, whose output is the command's,
    /// nor for top
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
  5    the fencing token is not the newest of its lock (check-token)
  6    something is wrong with the deployment (doctor)
  7    there was nothing to release or to end (release, sessions end)
  64   invalid command line or name
  69   no coordinator is reachable, or it does not serve now
  70   a lock or the leadership was lost and the command was stopped (run, elect --once)
  75   the lock was not granted (run), or is not yet as it should be (wait --timeout)
  76   exclusion or the order of fencing tokens was violated (bench)
  77   unknown identity, missing permission, or a TLS certificate that was not accepted";

const CHECK_TOKEN: &str = "\
Exit codes: 0 if the token is the newest one, 5 if it is not, otherwise as for all commands.";

const COMPLETIONS: &str = "\
Examples:
  leasehold completions bash >~/.local/share/bash-completion/completions/leasehold
  leasehold completions fish >~/.config/fish/completions/leasehold.fish
  leasehold completions zsh >_leasehold   # in a folder of $fpath

The Debian package installs those of bash, zsh and fish.";

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
    Ls(ListOptions),

    /// Show one lock: its holders, mode, newest fencing token and waiters
    Get {
        /// The lock's name
        name: String,
    },

    /// Wait until a lock is free, or held, without taking it
    #[command(after_long_help = wait::HELP)]
    Wait(WaitOptions),

    /// Check whether a fencing token is still the newest of its lock
    ///
    /// The store forgets a token after twice the maximum TTL without a grant or renewal; a forgotten token is not current. This
    /// is for people and scripts: a resource that takes part in the work compares tokens itself, because this answer may be out
    /// of date when it arrives.
    #[command(after_help = CHECK_TOKEN)]
    CheckToken {
        /// The lock's name
        name: String,

        /// The fencing token
        #[arg(value_name = "TOKEN", value_parser = clap::value_parser!(i64).range(1..))]
        token: i64,
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

    /// Show who held a lock or led an election, and why it ended, from coordinators' audit logs
    #[command(after_long_help = history::HELP)]
    History(HistoryOptions),

    /// Show each coordinator: whether it serves, its store and its load
    #[command(after_long_help = status::HELP)]
    Status(StatusOptions),

    /// Show coordinators, the busiest locks and events, live; open a lock, and take it from a holder
    #[command(after_long_help = top::HELP)]
    Top(TopOptions),

    /// Print the completions of a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },

    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which exists
        folder: PathBuf,
    },

    /// Check a deployment: what is wrong with its coordinators and its store, and what to do
    #[command(after_long_help = doctor::HELP)]
    Doctor(DoctorOptions),

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
        let read = definition.try_get_matches_from_mut(args);
        let mut matches = read.map_err(with_tip)?;
        let options: HashSet<String> = matches
            .ids()
            .map(|id| id.as_str())
            .filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine))
            .map(str::to_owned)
            .collect();
        let mut args = Self::from_arg_matches_mut(&mut matches)
            .map_err(|error| error.format(&mut definition))?;
        let profile = args.connection.take_profile(|id| options.contains(id));
        if let Err(mistake) = profile.and_then(|()| args.connection.check()) {
            return Err(definition.error(ErrorKind::ValueValidation, mistake));
        }
        let (subcommand, checked) = match &args.command {
            Command::Run(_) if args.json => ("run", Err(NO_JSON.to_owned())),
            Command::Elect(_) if args.json => ("elect", Err(NO_JSON.to_owned())),
            Command::Top(_) if args.json => ("top", Err(NO_JSON_OF_TOP.to_owned())),
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

/// The refusal of `--json` by a command that draws.
const NO_JSON_OF_TOP: &str = "--json is not for top, which draws on a terminal: use `leasehold watch --json` or `leasehold ls --json`";

/// Adds a tip to a mistake, if there is one for it.
fn with_tip(mut mistake: clap::Error) -> clap::Error {
    if let Some(tip) = tip(&mistake) {
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        mistake.insert(ContextKind::Suggested, tips);
    }
    mistake
}

/// Returns a tip for people who know other tools: for a command of theirs, and for a command to run without `--` before it.
fn tip(mistake: &clap::Error) -> Option<&'static str> {
    if let Some(ContextValue::Strings(missing)) = mistake.get(ContextKind::InvalidArg) {
        return (*missing == ["<COMMAND>..."]).then_some("write `--` before the command to run");
    }
    let Some(ContextValue::String(word)) = mistake.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    match word.as_str() {
        "lock" | "acquire" => Some("`leasehold run NAME -- COMMAND` holds a lock for a command"),
        "unlock" => Some(
            "the lock of `leasehold run` is released when its command ends; `leasehold release` is for operators",
        ),
        "campaign" => Some("`leasehold elect NAME -- COMMAND` runs a command while it leads"),
        _ => None,
    }
}

/// Returns the completions of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut command = Args::command().mut_args(|arg| arg.global(true));
    clap_complete::generate(shell, &mut command, "leasehold", &mut script);
    script
}

/// Returns the definition of the command line, with the settings that `derive` does not offer.
pub(crate) fn definition() -> clap::Command {
    // Options of the tool may also come after the subcommand.
    let mut definition = Args::command().mut_args(|arg| arg.global(true));
    // Makes usages name the whole subcommand.
    definition.build();
    complete(definition.mut_subcommands(|command| {
        let refuses_json = matches!(command.get_name(), "run" | "elect" | "top");
        complete(command).mut_args(|arg| {
            let is_refused = refuses_json && arg.get_id() == "json";
            if is_refused { arg.hide(true) } else { arg }
        })
    }))
}

/// Keeps values of variables, which may be secrets, out of `--help`, and makes errors helpful: a value that begins with a hyphen is
/// refused as a value, with what was expected, and an error shows the whole usage, because clap's own would show optional arguments
/// as required.
fn complete(command: clap::Command) -> clap::Command {
    let mut command = command.mut_args(|arg| {
        let arg = arg.hide_env_values(true);
        match value_name(&arg) {
            "DURATION" => arg.allow_hyphen_values(true),
            "NUMBER" | "LIMIT" => arg.allow_negative_numbers(true),
            _ => arg,
        }
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
mod tests;
