//! The command line of Leasehold: runs commands under a lock or while leading, looks inside a
//! coordinator, and measures it.
#![deny(
    clippy::print_stderr,
    reason = "`say` neither waits for a reader nor panics without one"
)]

mod args;
mod bench;
mod command;
mod connection;
mod doctor;
mod duration;
mod elect;
mod exit;
mod follow;
mod history;
mod inspect;
mod manual;
mod observe;
mod outage;
mod profile;
mod report;
mod run;
mod say;
mod sessions;
mod show;
mod signals;
mod status;
mod token;
mod top;
mod wait;

use std::process::ExitCode;

use tokio::runtime::Builder;

use crate::{
    args::{Args, Command},
    exit::{Exit, Outcome},
};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == command::GUARDIAN)
    {
        command::guardian(std::env::args_os().nth(2));
        return ExitCode::SUCCESS;
    }
    signals::reset();
    #[cfg(feature = "planted")]
    match leasehold_client::planted::plant_from_environment() {
        Ok(Some(fault)) => say::say(format_args!(
            "the fault {} is PLANTED, for tests alone",
            fault.name()
        )),
        Ok(None) => {}
        Err(name) => {
            say::say(format_args!("there is no fault {name} to plant"));
            return Exit::USAGE.die_or_code();
        }
    }
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are asked for and go to standard output; the rest is a mistake.
            if !error.use_stderr() {
                error.print().ok();
                return ExitCode::SUCCESS;
            }
            if args::asks_for_json(std::env::args_os()) {
                show::error::Error::of_command_line(&error).print();
            } else {
                error.print().ok();
            }
            return Exit::USAGE.die_or_code();
        }
    };
    let mut runtime = match args.command {
        // As fast as this machine can, so that it is not its own measure.
        Command::Bench(_) => Builder::new_multi_thread(),
        // One thread, this one: the parent-death signal of a child comes when the thread dies that started it.
        _ => Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build();
    let endpoints = args.connection.endpoints();
    let as_json = args.json;
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(dispatch(args));
            // Nothing is waited for that could still be going on, such as the look-up of a name.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error.into()),
    };
    outcome
        .unwrap_or_else(|error| {
            report::report_at(&endpoints, &error, as_json);
            exit::code(&error)
        })
        .die_or_code()
}

async fn dispatch(args: Args) -> Outcome {
    let Args {
        connection,
        json,
        command,
    } = args;
    match command {
        Command::Run(options) => run::run(&connection, options).await,
        Command::Elect(options) => elect::elect(&connection, options).await,
        Command::Leader { name } => observe::leader(&connection, &name, json).await,
        Command::Observe { name } => observe::observe(&connection, &name, json).await,
        Command::Watch { prefix } => observe::watch(&connection, &prefix, json).await,
        Command::Ls(options) => inspect::list(&connection, &options, json).await,
        Command::Get { name } => inspect::get(&connection, &name, json).await,
        Command::Wait(options) => wait::wait(&connection, &options, json).await,
        Command::CheckToken { name, token } => token::check(&connection, &name, token, json).await,
        Command::Release {
            name,
            holder,
            ask: true,
            reason,
            within,
            ..
        } => inspect::ask(&connection, &name, holder, (reason, within), json).await,
        Command::Release {
            name,
            force,
            holder,
            waiter,
            ..
        } => {
            let forced = inspect::Forced::of(force, holder, waiter);
            inspect::release(&connection, &name, forced, json).await
        }
        Command::Sessions { id: None, .. } => sessions::list(&connection, json).await,
        Command::Sessions { id: Some(id), .. } => sessions::end(&connection, &id, json).await,
        Command::History(options) => history::history(&options, json),
        Command::Status(options) => status::status(&connection, &options, json).await,
        Command::Completions { shell } => {
            let script = args::completions(shell);
            show::line(String::from_utf8_lossy(&script).trim_end())?;
            Ok(exit::Exit::SUCCESS)
        }
        Command::Manual { folder } => {
            manual::write(args::definition(), &folder)?;
            Ok(exit::Exit::SUCCESS)
        }
        Command::Top(options) => top::top(&connection, &options).await,
        Command::Doctor(options) => doctor::doctor(&connection, &options, json).await,
        Command::Bench(options) => bench::run(&connection, options, json).await,
    }
}
