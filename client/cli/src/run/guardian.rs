//! A second process that outlives a killed `run`: the parent-death signal reaches the command alone, this one ends
//! whatever else is in its group.

use std::{
    env,
    io::{self, BufRead, Write},
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// The hidden first argument that makes this program a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";
/// Said when the command has ended and nothing is left to be watched.
const DISMISSED: &str = "dismissed";

/// The guardian as seen from the `run` that it watches.
pub(super) struct Guardian {
    process: Child,
    /// Closed by the kernel when this process ends, however it ends; no other process has it open.
    pipe: ChildStdin,
}

impl Guardian {
    /// Starts one; none if that fails, since the parent-death signal does the most important part.
    pub(super) fn start() -> Option<Self> {
        use std::os::unix::process::CommandExt;

        let mut process = Command::new(env::current_exe().ok()?)
            .arg(GUARDIAN)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let pipe = process.stdin.take()?;
        Some(Self { process, pipe })
    }

    /// Says what to watch.
    pub(super) fn watch(&mut self, group: Pid) {
        writeln!(self.pipe, "{}", group.as_raw_nonzero()).ok();
    }

    /// Ends it without harm.
    pub(super) fn dismiss(mut self) {
        writeln!(self.pipe, "{DISMISSED}").ok();
        drop(self.pipe);
        self.process.wait().ok();
    }
}

/// What the guardian does: reads which group to watch, and kills it when its input ends without a word.
pub(crate) fn guardian() {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let group = lines.next().and_then(|line| line.parse().ok());
    let Some(group) = group.and_then(Pid::from_raw) else {
        return;
    };
    if lines.next().as_deref() != Some(DISMISSED) {
        kill_process_group(group, Signal::KILL).ok();
    }
}
