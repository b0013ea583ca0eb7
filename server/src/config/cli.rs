//! Command line and environment, and how the layers are put together.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind,
};

use super::{
    Config, Origin, REFERENCE, check::check, draft::Draft, file, manual, print, setting::Shape,
    settings::SETTINGS, store_file,
};
use crate::access::tokens::new_token;

/// Version that `--version` prints: with the commit, if the build was told.
const VERSION: &str = match option_env!("LEASEHOLD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The command line without the settings, which [`command`] adds.
#[derive(Parser)]
#[command(
    name = "leasehold-server",
    version = VERSION,
    about = "The Leasehold coordinator: locks with streaming leases, over gRPC",
    after_help = "Each setting is a flag, an environment variable and a key of the TOML file (named like the flag); flags win \
        over the environment, the environment over the file. Durations have a unit: 500ms, 10s, 1h.",
    next_line_help = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Subcommands>,
    /// TOML file to read settings from [environment: LEASEHOLD_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print the configuration in force with the source of each value, and exit
    #[arg(long)]
    print_config: bool,
    /// Print a commented configuration file with every setting and its default, and exit
    #[arg(long)]
    print_reference: bool,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Print a new bearer token, followed by the line for the token file that admits it
    NewToken {
        /// Caller that the token is for: its identity is token:NAME
        name: String,
    },
    /// Ask the coordinator that runs here with the same settings whether it is ready, and exit with 0 if it is, with 1 if not
    Probe,
    /// Check the configuration and the files that it names, and exit with 0 after "ok", or with 64 after a list of the mistakes.
    /// Warns of certificates that expire within 14 days
    CheckConfig {
        /// Connect to the store as well, and check its servers: exits with 6 after a list of what is wrong with them, or with 69
        /// if one can't be reached
        #[arg(long)]
        connect: bool,
    },
    /// Print the manual page, for packages
    #[command(hide = true)]
    Manual,
    /// Declare that all masters of a redis+quorum: store are started for the first time, so that they vote at once.
    ///
    /// Without it, coordinators count a master's votes after they have seen it run for four times max-ttl.
    ///
    /// Marks each master until it is restarted. Refused, with exit code 1, unless all masters answer and none knows a grant of a
    /// lock. After an outage that emptied all masters, run it only once no client can hold a lock any more: when all coordinators
    /// have been stopped, or the masters unreachable, for twice max-ttl.
    ///
    /// Example: leasehold-server quorum-bootstrap --store redis+quorum://r1,r2,r3
    QuorumBootstrap,
}

/// Action that the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve with this configuration.
    Serve(Box<Config>),
    /// Ask the coordinator that serves with this configuration whether it is ready.
    Probe(Box<Config>),
    /// Report that this configuration is right.
    Check {
        /// The configuration.
        config: Box<Config>,
        /// Whether to check the servers of the store, too.
        connect: bool,
    },
    /// Declare the masters of the store to be started for the first time.
    QuorumBootstrap(Box<Config>),
    /// Print this on stdout and exit with success: help, version, or the configuration in force.
    Print(String),
}

impl Config {
    /// Reads the command line `args` (the first is the program's name), environment variables by `env`, and the configuration
    /// file, if either names one. Flags win over the environment, the environment over the file.
    ///
    /// An empty variable counts as not set. `env` is asked only for the settings' own variables and `LEASEHOLD_CONFIG`.
    ///
    /// # Errors
    ///
    /// Fails with everything that is wrong: the command line, values, the file, and settings that contradict each other. A value
    /// that a stronger layer overrides must be right too. Each error is a line for the operator: it names the setting, the origin
    /// of its value and the expected form, and never shows the store's URL, which may contain a password.
    pub fn from_args(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Action, Vec<String>> {
        Self::from_args_and_files(args, env, |_| Vec::new())
    }

    /// Does the same as [`from_args`](Self::from_args), and calls `check_files` for an action that needs the files that the settings
    /// name: [`check_files`](crate::reload::check_files). It is called even if settings are wrong, so that all faults are reported
    /// at once.
    ///
    /// # Errors
    ///
    /// Fails as [`from_args`](Self::from_args) does, and with each fault that `check_files` returns.
    pub fn from_args_and_files(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<OsString>,
        check_files: impl FnOnce(&Self) -> Vec<String>,
    ) -> Result<Action, Vec<String>> {
        let parsed = command().try_get_matches_from(args).and_then(|matches| {
            let command_line = CommandLine::from_arg_matches(&matches)?;
            Ok((command_line, matches))
        });
        let (command_line, matches) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                        Ok(Action::Print(error.render().to_string()))
                    }
                    _ => Err(vec![error.render().to_string().trim_end().to_owned()]),
                };
            }
        };
        if let Some(Subcommands::NewToken { name }) = &command_line.command {
            return new_token(name)
                .map(Action::Print)
                .map_err(|message| vec![message]);
        }
        if matches!(command_line.command, Some(Subcommands::Manual)) {
            return match manual::page(command()) {
                Ok(page) => Ok(Action::Print(page)),
                Err(error) => Err(vec![error.to_string()]),
            };
        }
        if command_line.print_reference {
            return Ok(Action::Print(REFERENCE.to_owned()));
        }
        let mut draft = Draft::default();
        let named = command_line
            .config
            .or_else(|| variable(&env, "LEASEHOLD_CONFIG").map(PathBuf::from));
        if let Some(path) = named {
            file::load(&mut draft, &path);
        }
        from_environment(&mut draft, &env);
        from_flags(&mut draft, &matches);
        store_file::load(&mut draft);
        // A wrong value says nothing about whether the intended one contradicts another.
        if draft.errors.is_empty() {
            check(&mut draft);
        }
        let only_prints = command_line.print_config;
        if !only_prints && !matches!(command_line.command, Some(Subcommands::Probe)) {
            draft.errors.extend(check_files(&draft.config));
        }
        if !draft.errors.is_empty() {
            return Err(draft.errors);
        }
        if only_prints {
            return Ok(Action::Print(print::in_force(&draft)));
        }
        let config = Box::new(draft.config);
        Ok(match command_line.command {
            Some(Subcommands::Probe) => Action::Probe(config),
            Some(Subcommands::CheckConfig { connect }) => Action::Check { config, connect },
            Some(Subcommands::QuorumBootstrap) => {
                if !config.store.scheme().ends_with("+quorum") {
                    let message = "quorum-bootstrap is for several independent masters: give --store redis+quorum://HOST,HOST,HOST";
                    return Err(vec![message.to_owned()]);
                }
                Action::QuorumBootstrap(config)
            }
            _ => Action::Serve(config),
        })
    }
}

fn variable(env: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    env(name).filter(|value| !value.is_empty())
}

fn from_environment(draft: &mut Draft, env: &impl Fn(&str) -> Option<OsString>) {
    for setting in SETTINGS {
        let name = setting.variable();
        let Some(value) = variable(env, &name) else {
            continue;
        };
        let origin = Origin::Environment(name);
        match value.to_str() {
            Some(text) => draft.set(setting, text, origin),
            None => draft.refuse(setting.name, origin, "expected text in UTF-8"),
        }
    }
}

fn from_flags(draft: &mut Draft, matches: &ArgMatches) {
    for setting in SETTINGS {
        if let Some(text) = matches.get_one::<String>(setting.name) {
            draft.set(setting, text, Origin::Flag(setting.name));
        }
    }
}

/// Returns the command line with the settings. clap takes their values as text and the table reads it, so that all layers have
/// the same rules and the same errors, and no error shows a password.
fn command() -> Command {
    let defaults = Config::default();
    let settings = SETTINGS.iter().map(|setting| {
        let default = match ((setting.show)(&defaults), setting.example) {
            (Some(default), None) => format!(" [default: {default}]"),
            _ => String::new(),
        };
        let facts = format!("{default} [environment: {}]", setting.variable());
        let arg = Arg::new(setting.name)
            .long(setting.name)
            .value_name(setting.value_name)
            // Subcommands read the same configuration, and accept the same flags.
            .global(true)
            .help(format!("{}{facts}", setting.summary()))
            .long_help(format!("{}{facts}", setting.help()));
        match setting.shape {
            Shape::Boolean => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Shape::Text | Shape::Number | Shape::Fraction => arg.allow_hyphen_values(true),
        }
    });
    hide_values(CommandLine::command().args(settings))
}

/// Keeps values of variables, which may be secrets, out of `--help`, should an argument ever take one from clap.
fn hide_values(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.hide_env_values(true));
    command.mut_subcommands(hide_values)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::command;

    #[test]
    fn no_help_shows_the_value_of_a_variable() {
        let command = command();
        let commands = command.get_subcommands().chain([&command]);
        let shown = commands.flat_map(Command::get_arguments);
        let shown = shown.filter(|arg| !arg.is_hide_env_values_set());
        assert_eq!(shown.map(Arg::get_id).collect::<Vec<_>>(), [""; 0]);
    }
}
