//! Flags and environment, and the layers put together.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::StyledStr, error::ErrorKind};

use super::{
    Config, ConfigError, ConfigErrors, Origin, REFERENCE,
    check::check,
    file, print,
    settings::{SETTINGS, Shape},
    store_file,
};
use crate::access::tokens::new_token;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve with this configuration.
    Serve(Box<Config>),
    /// Ask the coordinator that serves with this configuration whether it is ready.
    Probe(Box<Config>),
    /// Tell that this configuration is right.
    Check(Box<Config>),
    /// Declare the masters of the store to be started for the first time.
    QuorumBootstrap(Box<Config>),
    /// Print this on stdout and exit with success: help, version, or the configuration in force.
    Print(String),
}

/// A configuration in the making: the values, where each came from, and what is wrong so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) config: Config,
    /// By place in the table of settings.
    pub(super) origins: Vec<Origin>,
    pub(super) errors: Vec<ConfigError>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            config: Config::default(),
            origins: vec![Origin::Default; SETTINGS.len()],
            errors: Vec::new(),
        }
    }
}

impl Draft {
    /// Sets the setting at `place` of the table, or notes what is wrong with the value.
    pub(super) fn set(&mut self, place: usize, text: &str, origin: Origin) {
        match (SETTINGS[place].set)(&mut self.config, text) {
            Ok(()) => self.origins[place] = origin,
            Err(message) => self.refuse(place, origin, message),
        }
    }

    /// Notes that the setting at `place` of the table cannot have the value that came from `origin`.
    pub(super) fn refuse(&mut self, place: usize, origin: Origin, message: String) {
        self.errors.push(ConfigError::BadValue {
            setting: SETTINGS[place].name,
            origin,
            message,
        });
    }
}

impl Config {
    /// Reads the command line `args` (the first is the program's name), with `env` to look environment variables up, and
    /// the configuration file, if either names one. Flags win over the environment, that over the file.
    ///
    /// A variable that is set to nothing counts as not set. Variables other than the settings' own and
    /// `LEASEHOLD_CONFIG` are not looked up.
    ///
    /// # Errors
    ///
    /// When the command line, a value or the file makes no sense, or settings contradict each other: with everything that is
    /// wrong. A value that a stronger layer overrides must be right all the same.
    pub fn from_args(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Action, ConfigErrors> {
        Self::from_args_and_files(args, env, |_| Vec::new())
    }

    /// Does what [`from_args`](Self::from_args) does, and for an action that needs the files which the settings name, also has
    /// `check_files` read them: [`files::check`](crate::files::check). The files are read even if settings are wrong, so that
    /// all faults are told at once.
    ///
    /// # Errors
    ///
    /// As [`from_args`](Self::from_args), and with each fault that `check_files` returns.
    pub fn from_args_and_files(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<OsString>,
        check_files: impl FnOnce(&Self) -> Vec<String>,
    ) -> Result<Action, ConfigErrors> {
        let matches = match command().try_get_matches_from(args) {
            Ok(matches) => matches,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                        Ok(Action::Print(error.render().to_string()))
                    }
                    _ => Err(ConfigError::Usage(error.render().to_string()).into()),
                };
            }
        };
        if let Some(("new-token", matches)) = matches.subcommand() {
            let name = matches.get_one::<String>("name");
            let token = new_token(name.map_or("", String::as_str));
            return token
                .map(Action::Print)
                .map_err(|message| ConfigError::Usage(message).into());
        }
        if matches.get_flag("print-reference") {
            return Ok(Action::Print(REFERENCE.to_owned()));
        }
        let mut draft = Draft::default();
        let named = matches
            .get_one::<PathBuf>("config")
            .cloned()
            .or_else(|| variable(&env, "LEASEHOLD_CONFIG").map(PathBuf::from));
        if let Some(path) = named {
            file::load(&mut draft, &path);
        }
        from_environment(&mut draft, &env);
        from_flags(&mut draft, &matches);
        store_file::load(&mut draft);
        // Of values that are not what was meant, nothing can be said to contradict another.
        if draft.errors.is_empty() {
            check(&mut draft);
        }
        let only_prints = matches.get_flag("print-config");
        if !only_prints && matches.subcommand_name() != Some("probe") {
            let faults = check_files(&draft.config);
            draft
                .errors
                .extend(faults.into_iter().map(ConfigError::File));
        }
        if !draft.errors.is_empty() {
            return Err(ConfigErrors(draft.errors));
        }
        if only_prints {
            return Ok(Action::Print(print::in_force(&draft)));
        }
        let config = Box::new(draft.config);
        if matches.subcommand_name() == Some("quorum-bootstrap")
            && !config.store.scheme().ends_with("+quorum")
        {
            let message = "quorum-bootstrap is for several independent masters: give --store redis+quorum://HOST,HOST,HOST";
            return Err(ConfigError::Usage(message.to_owned()).into());
        }
        Ok(match matches.subcommand_name() {
            Some("probe") => Action::Probe(config),
            Some("check-config") => Action::Check(config),
            Some("quorum-bootstrap") => Action::QuorumBootstrap(config),
            _ => Action::Serve(config),
        })
    }
}

fn variable(env: &impl Fn(&str) -> Option<OsString>, name: &str) -> Option<OsString> {
    env(name).filter(|value| !value.is_empty())
}

fn from_environment(draft: &mut Draft, env: &impl Fn(&str) -> Option<OsString>) {
    for (place, setting) in SETTINGS.iter().enumerate() {
        let name = setting.variable();
        let Some(value) = variable(env, &name) else {
            continue;
        };
        let origin = Origin::Environment(name);
        match value.to_str() {
            Some(text) => draft.set(place, text, origin),
            None => draft.refuse(place, origin, "expected text in UTF-8".to_owned()),
        }
    }
}

fn from_flags(draft: &mut Draft, matches: &ArgMatches) {
    for (place, setting) in SETTINGS.iter().enumerate() {
        if let Some(text) = matches.get_one::<String>(setting.name) {
            draft.set(place, text, Origin::Flag(setting.name));
        }
    }
}

/// The command line. Values are taken as text here and read by the table, as those of the other layers are, so that all
/// have the same rules and the same errors, and no error shows a password.
fn command() -> Command {
    let defaults = Config::default();
    let settings = SETTINGS.iter().map(|setting| {
        let default = match ((setting.show)(&defaults), setting.example) {
            (Some(default), None) => format!(" [default: {default}]"),
            _ => String::new(),
        };
        let arg = Arg::new(setting.name)
            .long(setting.name)
            .value_name(setting.value_name)
            // Subcommands read the same configuration, and may be given it in the same way.
            .global(true)
            .help(StyledStr::from(format!(
                "{}{default} [environment: {}]",
                setting.help,
                setting.variable()
            )));
        match setting.shape {
            Shape::Boolean => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Shape::Text | Shape::Number | Shape::Fraction => arg.allow_hyphen_values(true),
        }
    });
    Command::new("leasehold-server")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The Leasehold coordinator: locks with streaming leases, over gRPC")
        .after_help(
            "Each setting is a flag, an environment variable and a key of the TOML file (named like the flag); flags win \
             over the environment, the environment over the file. Durations have a unit: 500ms, 10s, 1h.",
        )
        .next_line_help(true)
        .subcommand(
            Command::new("new-token")
                .about(
                    "Print a fresh bearer token, and on the line below what to add to the token file to let it in",
                )
                .arg(
                    Arg::new("name")
                        .value_name("NAME")
                        .required(true)
                        .help("Who it is for: its identity is token:NAME"),
                ),
        )
        .subcommand(Command::new("probe").about(
            "Ask the coordinator that runs here with the same settings whether it is ready, and exit with 0 if it is, with 1 \
             if not",
        ))
        .subcommand(Command::new("check-config").about(
            "Check the configuration and the files that it names, and exit: with 0 after \"ok\", with 64 after everything that \
             is wrong. Warns of certificates that expire within 14 days",
        ))
        .subcommand(
            Command::new("quorum-bootstrap")
                .about(
                    "Declare that all masters of a redis+quorum: store are started for the first time, so that they vote at once",
                )
                .long_about(
                    "Declare that all masters of a redis+quorum: store are started for the first time, so that they vote at \
                     once. Without it, coordinators count a master's votes after they have seen it run for four times max-ttl.\n\n\
                     Marks each master until it is restarted. Refused, with exit code 1, unless all masters answer and none knows \
                     a grant of a lock. After an outage that emptied all masters, run it only once no client can hold a lock any \
                     more: when all coordinators have been stopped, or the masters unreachable, for twice max-ttl.\n\n\
                     Example: leasehold-server quorum-bootstrap --store redis+quorum://r1,r2,r3",
                ),
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .global(true)
                .value_parser(clap::value_parser!(PathBuf))
                .help("TOML file to read settings from [environment: LEASEHOLD_CONFIG]"),
        )
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Print the configuration in force, with where each value came from, and exit"),
        )
        .arg(
            Arg::new("print-reference")
                .long("print-reference")
                .action(ArgAction::SetTrue)
                .help("Print a commented configuration file with every setting and its default, and exit"),
        )
        .args(settings)
}
