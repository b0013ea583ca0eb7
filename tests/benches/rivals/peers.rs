//! Other lock services, measured by a separate program in the same manner, which keeps its dependencies out of ours.

use std::{
    env,
    io::{Read, Seek},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use leasehold_tests::ChildProcess;
use serde_json::Value;
use tempfile::tempfile;

use crate::{figures::Maybe, shared::chart::Curve};

const VARIABLE: &str = "LEASEHOLD_PEERS";
/// Longer than it takes to start the rival, measure it and stop it.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    Etcd,
    Rslock,
}

impl Rival {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Rslock => "rslock",
        }
    }

    /// Returns its name, with the version if it told one.
    pub(crate) fn shown(self, told: &Maybe<Told>) -> String {
        let told = told.as_ref();
        told.map_or_else(|_| self.name().to_owned(), Told::version)
    }

    /// Returns the distribution that it told, if it did.
    pub(crate) fn curve(self, told: &Maybe<Told>) -> Option<Curve> {
        let told = told.as_ref().ok()?;
        Some(Curve::new(self.name(), told.points()))
    }
}

/// Report of the program on one run.
#[derive(Clone, Debug)]
pub(crate) struct Told(Value);

impl Told {
    /// Returns a number by its name.
    pub(crate) fn number(&self, field: &str) -> Maybe<f64> {
        let number = self.0.get(field).and_then(Value::as_f64);
        number.ok_or_else(|| format!("not measured: the program for rivals told no `{field}`"))
    }

    pub(crate) fn version(&self) -> String {
        let text = |field| self.0.get(field).and_then(Value::as_str);
        let (rival, version) = (text("rival").unwrap_or("?"), text("version").unwrap_or("?"));
        if version.starts_with(rival) {
            version.to_owned()
        } else {
            format!("{rival} {version}")
        }
    }

    /// Returns the settings of the rival.
    pub(crate) fn settings(&self) -> String {
        let settings = self.0.get("settings").and_then(Value::as_str);
        settings.map_or_else(String::new, |settings| format!("; {settings}"))
    }

    /// Shares, and the microseconds that they did not exceed.
    fn points(&self) -> Vec<(f64, f64)> {
        let quantiles = self.0.get("quantiles").and_then(Value::as_array);
        quantiles
            .into_iter()
            .flatten()
            .filter_map(|pair| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?)))
            .collect()
    }
}

/// Program that measures rivals, if it was built.
pub(crate) struct Peers {
    program: Maybe<PathBuf>,
    /// Of whatever was measured.
    pub(crate) versions: Vec<String>,
    /// The settings of each rival, once for each way to use it.
    pub(crate) settings: Vec<String>,
}

impl Peers {
    pub(crate) fn find() -> Self {
        let program = env::var_os(VARIABLE).filter(|path| !path.is_empty());
        Self {
            program: program
                .map(PathBuf::from)
                .ok_or_else(|| format!("not measured: {VARIABLE} is not set")),
            versions: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Cycles of `clients` with `depth` in flight each.
    pub(crate) async fn cycles(
        &mut self,
        rival: Rival,
        clients: usize,
        depth: usize,
    ) -> Maybe<Told> {
        let sizes = [("--clients", clients), ("--depth", depth)];
        self.ask("cycles", rival, sizes).await
    }

    /// Hand-offs between `waiters`.
    pub(crate) async fn hand_off(
        &mut self,
        rival: Rival,
        waiters: usize,
        hold: Duration,
    ) -> Maybe<Told> {
        let hold = usize::try_from(hold.as_millis()).map_err(|error| error.to_string())?;
        let sizes = [("--waiters", waiters), ("--hold-ms", hold)];
        self.ask("handoff", rival, sizes).await
    }

    /// Measures a rival. A failure is reported in place of the figure, and the rest of the measurement goes on.
    async fn ask(
        &mut self,
        what: &'static str,
        rival: Rival,
        sizes: [(&str, usize); 2],
    ) -> Maybe<Told> {
        let mut command = Command::new(self.program.clone()?);
        command.args([what, "--rival", rival.name()]);
        for (flag, size) in sizes {
            command.args([flag, &size.to_string()]);
        }
        let told = run(command)
            .await
            .map_err(|error| format!("not measured: {error:#}"))?;
        let version = told.version();
        let settings = format!("{version}{}", told.settings().replacen(';', ":", 1));
        if !self.settings.contains(&settings) {
            self.settings.push(settings);
        }
        if !self.versions.contains(&version) {
            self.versions.push(version);
        }
        Ok(told)
    }
}

async fn run(mut command: Command) -> anyhow::Result<Told> {
    ensure!(
        Path::new(command.get_program()).exists(),
        "there is no program {}",
        command.get_program().display()
    );
    // The last line of this says why, if it fails.
    let mut said = tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(said.try_clone()?);
    let mut child = ChildProcess::spawn("the program for rivals", command);
    let mut stdout = child.take_stdout();
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let Ok(text) = tokio::time::timeout(LIMIT, read).await else {
        child.kill();
        bail!("the program for rivals has not ended after {LIMIT:?}");
    };
    let text = text??;
    let status = child.wait(Duration::from_secs(10)).await;
    if !status.success() {
        let mut why = String::new();
        said.rewind()?;
        said.read_to_string(&mut why)?;
        bail!("{}", why.trim().lines().last().unwrap_or("it said nothing"));
    }
    let line = text.lines().last().context("it said nothing")?;
    let value = serde_json::from_str(line).context("what it said is no JSON")?;
    Ok(Told(value))
}
