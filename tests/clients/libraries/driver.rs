//! Driver process, and all that it said.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use leasehold_tests::{ChildProcess, clock::boot_time, wait};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::{sync::Notify, time::timeout};

use crate::mutant::{Lines, Way};

/// Longest time for what should come at once, on a busy machine.
pub(crate) const PROMPT: Duration = Duration::from_secs(20);
/// Pause between two questions for a state.
const LOOK: Duration = Duration::from_millis(10);

/// Reads the clock by which the runner and drivers compare, in nanoseconds. It counts suspended time.
pub(crate) fn now() -> u64 {
    nanos(boot_time())
}

/// Returns nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// A driver process.
pub(crate) struct Driver {
    process: ChildProcess,
    link: Arc<Link>,
    last: AtomicU64,
    log: TempDir,
}

/// What the driver's reader and its requests share.
struct Link {
    stdin: Mutex<ChildStdin>,
    /// The operations of requests.
    operations: Mutex<HashMap<u64, String>>,
    mutant: Mutex<Option<Lines>>,
    said: Mutex<Said>,
    news: Notify,
}

/// Lines so far.
#[derive(Default)]
struct Said {
    lines: Vec<Value>,
    has_ended: bool,
}

/// Answer to a question for a state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) at: u64,
}

impl State {
    pub(crate) fn is_held(&self) -> bool {
        self.state == "held"
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == "lost"
    }
}

impl Driver {
    /// Starts a driver.
    pub(crate) fn start(mut command: Command, mutant: Option<Lines>) -> anyhow::Result<Self> {
        let log = tempfile::tempdir()?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log.path().join("stderr"))?);
        let mut process = ChildProcess::spawn("driver", command);
        let link = Arc::new(Link {
            stdin: Mutex::new(process.take_stdin()),
            operations: Mutex::default(),
            mutant: Mutex::new(mutant),
            said: Mutex::default(),
            news: Notify::new(),
        });
        let (reader, stdout) = (Arc::clone(&link), process.take_stdout());
        thread::spawn(move || reader.read(BufReader::new(stdout)));
        Ok(Self {
            process,
            link,
            last: AtomicU64::new(0),
            log,
        })
    }

    /// Returns the process.
    pub(crate) fn process(&self) -> &ChildProcess {
        &self.process
    }

    /// Returns the end of what it logged.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read(self.log.path().join("stderr")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines = log.lines().count();
        let last: Vec<_> = log.lines().skip(lines.saturating_sub(30)).collect();
        last.join("\n")
    }

    /// Sends a request, and returns its id.
    pub(crate) fn ask(&self, op: &str, fields: Value) -> u64 {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut request = Map::new();
        request.insert("id".into(), json!(id));
        request.insert("op".into(), json!(op));
        if let Value::Object(fields) = fields {
            request.extend(fields);
        }
        let mut operations = self.link.operations.lock().unwrap();
        operations.insert(id, op.to_owned());
        drop(operations);
        self.link.pass(Way::ToDriver, op, Value::Object(request));
        id
    }

    /// Returns the first line so far that `wanted` accepts.
    pub(crate) fn line(&self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let said = self.link.said.lock().unwrap();
        said.lines.iter().find(|line| wanted(line)).cloned()
    }

    /// Waits for the first line that `wanted` accepts, from the start on.
    pub(crate) async fn find(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let find = async {
            loop {
                let news = self.link.news.notified();
                if let Some(line) = self.line(&wanted) {
                    return Ok(line);
                }
                if self.link.said.lock().unwrap().has_ended {
                    bail!("the driver ended before {what}");
                }
                news.await;
            }
        };
        let found = timeout(limit, find).await;
        found.unwrap_or_else(|_| bail!("{what} did not come within {limit:?}"))
    }

    /// Waits for the reply to a request.
    pub(crate) async fn reply(
        &self,
        id: u64,
        limit: Duration,
    ) -> anyhow::Result<Result<Value, Value>> {
        let op = self.link.operations.lock().unwrap()[&id].clone();
        let what = format!("the reply to {op}");
        let line = self.find(&what, limit, |line| line["id"] == id).await?;
        match (line.get("ok"), line.get("err")) {
            (Some(ok), None) => Ok(Ok(ok.clone())),
            (None, Some(err)) => Ok(Err(err.clone())),
            _ => bail!("{what} has neither `ok` nor `err`: {line}"),
        }
    }

    /// Waits for the reply to a request, which must be served.
    pub(crate) async fn served(&self, id: u64, limit: Duration) -> anyhow::Result<Value> {
        let op = self.link.operations.lock().unwrap()[&id].clone();
        match self.reply(id, limit).await? {
            Ok(ok) => Ok(ok),
            Err(err) => bail!("{op} failed: {err}"),
        }
    }

    /// Waits for the reply to a request, which must fail with this kind.
    pub(crate) async fn failed(
        &self,
        id: u64,
        kind: &str,
        limit: Duration,
    ) -> anyhow::Result<Value> {
        let op = self.link.operations.lock().unwrap()[&id].clone();
        match self.reply(id, limit).await? {
            Ok(ok) => bail!("{op} was served, and not refused with {kind:?}: {ok}"),
            Err(err) => {
                ensure!(
                    err["kind"] == kind,
                    "{op} failed with {err}, not with {kind:?}"
                );
                Ok(err)
            }
        }
    }

    /// Sends a request that must be served.
    pub(crate) async fn run(&self, op: &str, fields: Value) -> anyhow::Result<Value> {
        self.served(self.ask(op, fields), PROMPT).await
    }

    /// Makes a client, with its session.
    pub(crate) async fn connect(
        &self,
        name: &str,
        endpoints: &[String],
        mut settings: Value,
    ) -> anyhow::Result<()> {
        settings["as"] = json!(name);
        settings["endpoints"] = json!(endpoints);
        self.run("connect", settings).await?;
        Ok(())
    }

    /// Acquires one free lock, and returns its token.
    pub(crate) async fn hold(&self, handle: &str, on: &str, name: &str) -> anyhow::Result<i64> {
        let ask = json!({ "as": handle, "on": on, "names": [name] });
        token(&self.run("acquire", ask).await?)
    }

    /// Asks for the state of a handle.
    pub(crate) async fn state(&self, handle: &str) -> anyhow::Result<State> {
        state(&self.run("state", json!({ "h": handle })).await?)
    }

    /// Asks for the state of a handle, which must be held; `wrong` says what it means if it is not.
    pub(crate) async fn held(&self, handle: &str, wrong: &str) -> anyhow::Result<()> {
        let state = self.state(handle).await?;
        ensure!(state.is_held(), "{wrong}: {state:?}");
        Ok(())
    }

    /// Asks for the state of a handle again and again while it is held, until `done` says so; returns the last answer and the stamp of
    /// the last one that said held.
    pub(crate) async fn watch(
        &self,
        handle: &str,
        limit: Duration,
        done: impl Fn(&State) -> bool,
    ) -> anyhow::Result<(State, u64)> {
        let end = now() + nanos(limit);
        let mut held = 0;
        loop {
            let state = self.state(handle).await?;
            if state.is_held() {
                held = state.at;
            }
            if done(&state) || now() >= end {
                return Ok((state, held));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns all lines so far that `wanted` accepts.
    pub(crate) fn lines(&self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let said = self.link.said.lock().unwrap();
        let lines = said.lines.iter().filter(|line| wanted(line));
        lines.cloned().collect()
    }

    /// Returns the events of a handle so far.
    pub(crate) fn events(&self, handle: &str) -> Vec<Value> {
        self.lines(|line| line.get("ev").is_some() && line["h"] == handle)
    }

    /// Waits for an event of a handle in which a field has this value.
    pub(crate) async fn event(
        &self,
        handle: &str,
        field: &str,
        value: &str,
        limit: Duration,
    ) -> anyhow::Result<Value> {
        let what = format!("the event {field} {value:?} of {handle}");
        self.find(&what, limit, |line| {
            line.get("ev").is_some() && line["h"] == handle && line[field] == value
        })
        .await
    }

    /// Stops the process with SIGSTOP.
    pub(crate) fn stop(&self) {
        self.process.stop();
        wait::until_blocking("the driver to stop", PROMPT, || {
            (!self.process.is_running()).then_some(()).ok_or("it runs")
        });
    }
}

impl Link {
    fn read(&self, lines: impl BufRead) {
        for line in lines.lines().map_while(Result::ok) {
            let line: Value = match serde_json::from_str(&line) {
                Ok(line) => line,
                Err(error) => json!({ "malformed": line, "error": error.to_string() }),
            };
            let id = line["id"].as_u64();
            let op = id.and_then(|id| self.operations.lock().unwrap().get(&id).cloned());
            let ev = || line["ev"].as_str().unwrap_or_default().to_owned();
            let kind = op.unwrap_or_else(ev);
            self.pass(Way::ToRunner, &kind, line);
        }
        self.said.lock().unwrap().has_ended = true;
        self.news.notify_waiters();
    }

    /// Passes a line on, by way of the mutant.
    fn pass(&self, way: Way, kind: &str, line: Value) {
        let passed = match &mut *self.mutant.lock().unwrap() {
            Some(mutant) => mutant(way, kind, line),
            None => vec![(way, line)],
        };
        for (way, line) in passed {
            match way {
                Way::ToDriver => {
                    let mut stdin = self.stdin.lock().unwrap();
                    // If the driver has ended, its reader notices.
                    let written = writeln!(stdin, "{line}");
                    written.and_then(|()| stdin.flush()).ok();
                }
                Way::ToRunner => {
                    self.said.lock().unwrap().lines.push(line);
                    self.news.notify_waiters();
                }
            }
        }
    }
}

/// Reads the token of the first hold of a reply.
pub(crate) fn token(reply: &Value) -> anyhow::Result<i64> {
    number(&reply["holds"][0]["token"]).context("the reply has no token")
}

/// Reads a 64-bit number.
pub(crate) fn number<N: std::str::FromStr>(value: &Value) -> Option<N> {
    value.as_str()?.parse().ok()
}

/// Reads the stamp of a line.
pub(crate) fn stamp(line: &Value) -> anyhow::Result<u64> {
    number(&line["boot_ns"]).with_context(|| format!("there is no `boot_ns` in {line}"))
}

/// Reads a reply to `state`.
pub(crate) fn state(reply: &Value) -> anyhow::Result<State> {
    let text = |field: &str| reply[field].as_str().unwrap_or_default().to_owned();
    Ok(State {
        state: text("state"),
        reason: text("reason"),
        at: stamp(reply)?,
    })
}
