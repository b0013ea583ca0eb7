//! Programs that use the libraries.

use std::{
    env,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, ensure};

const VARIABLE: &str = "LEASEHOLD_LIBRARIES";

/// Program of a language.
pub(crate) struct Program {
    pub(crate) name: String,
    words: Vec<String>,
}

/// Program that runs.
pub(crate) struct Running {
    of: String,
    child: Child,
}

impl Program {
    /// Returns this program, and those that the environment names.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        let own = env::current_exe()?.into_os_string().into_string();
        let own = own.ok().context("the path of this program is no text")?;
        let mut all = vec![Self {
            name: "rust".to_owned(),
            words: vec![own, "--worker".to_owned()],
        }];
        for line in env::var(VARIABLE).unwrap_or_default().lines() {
            let (name, command) = line.split_once('=').context("a library is NAME=COMMAND")?;
            all.push(Self {
                name: name.trim().to_owned(),
                words: command.split_whitespace().map(str::to_owned).collect(),
            });
        }
        Ok(all)
    }

    /// Returns the times of uncontended cycles in microseconds.
    pub(crate) fn cycles(
        &self,
        library: &str,
        endpoint: &str,
        clients: usize,
        seconds: f64,
    ) -> anyhow::Result<Vec<i64>> {
        let printed = self
            .start(library, "cycles", endpoint, clients, seconds)?
            .printed()?;
        serde_json::from_str(&printed).context("a program printed no list of times")
    }

    /// Starts a work.
    pub(crate) fn start(
        &self,
        library: &str,
        work: &str,
        endpoint: &str,
        clients: usize,
        seconds: f64,
    ) -> anyhow::Result<Running> {
        let (program, arguments) = self.words.split_first().context("a command has a word")?;
        let mut command = Command::new(program);
        command.args(arguments).args([library, work, endpoint]);
        command.args([clients.to_string(), seconds.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let of = format!("{} {library} {work}", self.name);
        let child = command.spawn();
        let child = child.with_context(|| format!("failed to start {of}"))?;
        Ok(Running { of, child })
    }
}

impl Running {
    /// Waits for its end, and returns what it printed. It ends by itself after its time.
    pub(crate) fn printed(self) -> anyhow::Result<String> {
        let output = self.child.wait_with_output()?;
        let status = output.status;
        ensure!(status.success(), "{} ended with {status}", self.of);
        Ok(String::from_utf8(output.stdout)?)
    }
}
